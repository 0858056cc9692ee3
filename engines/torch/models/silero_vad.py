"""Silero's voice activity network (v6, 16 kHz), for many streams in one forward.

The streaming state is an explicit value: rows go in, new rows come out, and any row may
belong to any stream. The convolutions run over four frames at most, so each is written as
one matrix product over windows: faster than a convolution call at every batch size, and
without its set-up cost whenever the number of streams changes.
"""

import warnings
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CHUNK_SAMPLES = 512  # 32 ms at 16 kHz, the only length that the network was trained on
CONTEXT_SAMPLES = 64  # tail of the previous chunk, put before the next
HIDDEN = 128
_FFT = 256
_HOP = 128
_BINS = _FFT // 2 + 1

_NAMES_IN_ARCHIVE = {
    "stft.forward_basis_buffer": "basis",
    **{
        f"encoder.{layer}.reparam_conv.{part}": f"encoder.{layer}.{part}"
        for layer in range(4)
        for part in ("weight", "bias")
    },
    **{
        f"decoder.rnn.{part}": f"lstm.{part}"
        for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    },
    "decoder.decoder.2.weight": "score.weight",
    "decoder.decoder.2.bias": "score.bias",
}


class VadState(NamedTuple):
    """Is what a stream carries from chunk to chunk.

    Attributes:
        hidden: LSTM output, shape (streams, 128).
        cell: LSTM cell, shape (streams, 128).
        context: last samples heard, shape (streams, 64).
    """

    hidden: Tensor
    cell: Tensor
    context: Tensor

    @classmethod
    def fresh(cls, streams: int) -> "VadState":
        """Returns the state of streams that have heard nothing."""
        return cls(
            torch.zeros(streams, HIDDEN),
            torch.zeros(streams, HIDDEN),
            torch.zeros(streams, CONTEXT_SAMPLES),
        )


class SileroVad(nn.Module):
    """Is a short-time spectrum, four convolutions, one LSTM step and a sigmoid."""

    def __init__(self) -> None:
        super().__init__()
        self.basis = nn.Parameter(torch.zeros(2 * _BINS, 1, _FFT))  # windowed cosines, sines
        self.encoder = nn.ModuleList(
            (
                nn.Conv1d(_BINS, 128, 3),
                nn.Conv1d(128, 64, 3, stride=2),
                nn.Conv1d(64, 64, 3, stride=2),
                nn.Conv1d(64, HIDDEN, 3),
            )
        )
        self.lstm = nn.LSTMCell(HIDDEN, HIDDEN)
        self.score = nn.Conv1d(HIDDEN, 1, 1)

    def forward(self, chunks: Tensor, state: VadState) -> tuple[Tensor, VadState]:
        """Scores one chunk of each stream.

        Args:
            chunks: float32, shape (streams, 512), range -1..1.
            state: rows in the same order.

        Returns:
            Speech probabilities, shape (streams,), and the state after the chunk.
        """
        x = self._spectrum(torch.cat((state.context, chunks), dim=1))
        for conv in self.encoder:
            x = F.relu(_convolve(x, conv))
        # Four frames; the two strides leave one.
        hidden, cell = self.lstm(x.squeeze(1), (state.hidden, state.cell))
        logits = F.linear(F.relu(hidden), self.score.weight.squeeze(2), self.score.bias)
        after = VadState(hidden, cell, chunks[:, -CONTEXT_SAMPLES:])
        return torch.sigmoid(logits).squeeze(1), after

    def _spectrum(self, heard: Tensor) -> Tensor:
        """Returns magnitudes, shape (streams, 4, bins), of samples (streams, 576)."""
        mirrored = heard[:, -CONTEXT_SAMPLES - 1 : -1].flip(1)
        frames = torch.cat((heard, mirrored), dim=1).unfold(1, _FFT, _HOP)
        waves = F.linear(frames, self.basis.squeeze(1))
        return torch.sqrt(waves[..., :_BINS] ** 2 + waves[..., _BINS:] ** 2)


def _convolve(x: Tensor, conv: nn.Module) -> Tensor:
    """Applies a width-3 convolution, padded by one frame, to (streams, frames, channels)."""
    assert isinstance(conv, nn.Conv1d)
    windows = F.pad(x, (0, 0, 1, 1)).unfold(1, 3, conv.stride[0])
    return F.linear(windows.flatten(2), conv.weight.flatten(1), conv.bias)


def load_silero_vad(archive: Path) -> SileroVad:
    """Reads the weights out of `silero_vad.jit`; every tensor must be there.

    The package's safetensors file holds an older generation of weights than its TorchScript
    and ONNX files (probabilities differ by up to 0.33 on clean speech), so it is not used.
    """
    with warnings.catch_warnings():
        # torch.export, which torch recommends instead, cannot read this format.
        warnings.simplefilter("ignore", DeprecationWarning)
        module = torch.jit.load(archive, map_location="cpu")  # type: ignore[no-untyped-call]  # torch has no type for it
    stored = module.state_dict()
    network = SileroVad()
    network.load_state_dict(
        {ours: stored[f"_model.{theirs}"] for theirs, ours in _NAMES_IN_ARCHIVE.items()}
    )
    return network.eval().requires_grad_(False)
