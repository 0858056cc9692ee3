"""Whisper's encoder and decoder (Radford et al. 2022).

Shapes carry a batch axis throughout, though one request at a time runs today. The model
knows no tokenizer, no audio format and no decoding rule.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from engines.torch.layers.attention import attend, causal_mask
from engines.torch.layers.kv_cache import KvCache, KvShape
from engines.torch.layers.linear import Linear, pack_linears


@dataclass(frozen=True, slots=True)
class WhisperConfig:
    """Gives the sizes of a checkpoint.

    Attributes:
        mels: bins of the log-mel input.
        width: hidden size of encoder and decoder.
        encoder_layers, encoder_heads, encoder_ffn: the encoder's depth, heads, inner width.
        decoder_layers, decoder_heads, decoder_ffn: the decoder's.
        vocab: ids.
        frames: encoder positions of the full window, 20 ms each.
        context: decoder positions.
        start_id: start of transcript, after which no-speech is read.
    """

    mels: int
    width: int
    encoder_layers: int
    encoder_heads: int
    encoder_ffn: int
    decoder_layers: int
    decoder_heads: int
    decoder_ffn: int
    vocab: int
    start_id: int
    frames: int = 1500
    context: int = 448


def _split_heads(x: Tensor, parts: int, heads: int) -> tuple[Tensor, ...]:
    """Cuts (batch, n, parts * width) into `parts` tensors (batch, heads, n, head_dim)."""
    batch, length, width = x.shape
    split = x.view(batch, length, parts, heads, width // (parts * heads))
    return split.permute(2, 0, 3, 1, 4).unbind(0)


def _merge_heads(x: Tensor) -> Tensor:
    """Puts (batch, heads, n, head_dim) back to (batch, n, heads * head_dim)."""
    return x.transpose(1, 2).flatten(2)


class EncoderLayer(nn.Module):
    """Is one pre-norm block: self-attention over all frames, then an MLP."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        width = config.width
        self.heads = config.encoder_heads
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = Linear(width, 3 * width)
        self.out = Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.fc1 = Linear(width, config.encoder_ffn)
        self.fc2 = Linear(config.encoder_ffn, width)

    def forward(self, hidden: Tensor) -> Tensor:
        """Maps (batch, frames, width) to the same shape."""
        queries, keys, values = _split_heads(self.qkv(self.attention_norm(hidden)), 3, self.heads)
        hidden = hidden + self.out(_merge_heads(attend(queries, keys, values)))
        inner = functional.gelu(self.fc1(self.mlp_norm(hidden)))
        hidden = hidden + self.fc2(inner)
        return hidden


class Encoder(nn.Module):
    """Turns log-mel frames into hidden states; callable whole, or layer by layer.

    Fewer frames than the full window are taken as its beginning: the position table is cut.
    """

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(config.mels, config.width, 3, padding=1)
        self.conv2 = nn.Conv1d(config.width, config.width, 3, stride=2, padding=1)
        self.positions = nn.Parameter(torch.empty(config.frames, config.width))
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.norm = nn.LayerNorm(config.width)

    def stem(self, mel: Tensor) -> Tensor:
        """Maps (batch, mels, 2 * frames) to (batch, frames, width), positions added."""
        hidden = functional.gelu(self.conv1(mel.to(self.positions.dtype)))
        hidden = functional.gelu(self.conv2(hidden)).transpose(1, 2)
        return hidden + self.positions[: hidden.shape[1]]

    def forward(self, mel: Tensor) -> Tensor:
        """Maps (batch, mels, 2 * frames) to (batch, frames, width)."""
        hidden = self.stem(mel)
        for layer in self.layers:
            hidden = layer(hidden)
        normed: Tensor = self.norm(hidden)
        return normed


class DecoderState:
    """Is what a running transcription holds between steps.

    Attributes:
        self_kv: keys and values of the ids so far.
        cross: per layer, keys and values of the audio, (batch, heads, frames, head_dim).
    """

    def __init__(self, self_kv: KvCache) -> None:
        self.self_kv = self_kv
        self.cross: list[tuple[Tensor, Tensor]] = []

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.self_kv.nbytes + sum(k.nbytes + v.nbytes for k, v in self.cross)


class DecoderLayer(nn.Module):
    """Is one pre-norm block: causal self-attention, attention to the audio, MLP."""

    def __init__(self, config: WhisperConfig, index: int) -> None:
        super().__init__()
        width = config.width
        self.index = index
        self.heads = config.decoder_heads
        self.self_norm = nn.LayerNorm(width)
        self.qkv = Linear(width, 3 * width)
        self.self_out = Linear(width, width)
        self.cross_norm = nn.LayerNorm(width)
        self.cross_q = Linear(width, width)
        self.cross_kv = Linear(width, 2 * width)
        self.cross_out = Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.fc1 = Linear(width, config.decoder_ffn)
        self.fc2 = Linear(config.decoder_ffn, width)

    def read_audio(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """Projects (batch, frames, width) to this layer's cross keys and values."""
        keys, values = _split_heads(self.cross_kv(encoded), 2, self.heads)
        return keys.contiguous(), values.contiguous()

    def forward(self, hidden: Tensor, state: DecoderState, mask: Tensor | None) -> Tensor:
        """Maps (batch, n, width) to the same shape and writes n positions to the cache."""
        queries, keys, values = _split_heads(self.qkv(self.self_norm(hidden)), 3, self.heads)
        keys, values = state.self_kv.write(self.index, keys, values)
        hidden = hidden + self.self_out(_merge_heads(attend(queries, keys, values, mask)))
        (queries,) = _split_heads(self.cross_q(self.cross_norm(hidden)), 1, self.heads)
        seen = attend(queries, *state.cross[self.index])
        hidden = hidden + self.cross_out(_merge_heads(seen))
        inner = functional.gelu(self.fc1(self.mlp_norm(hidden)))
        hidden = hidden + self.fc2(inner)
        return hidden


class Decoder(nn.Module):
    """Predicts the next id from the ids so far and the audio."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Parameter(torch.empty(config.vocab, config.width))
        self.positions = nn.Parameter(torch.empty(config.context, config.width))
        self.layers = nn.ModuleList(
            DecoderLayer(config, index) for index in range(config.decoder_layers)
        )
        self.norm = nn.LayerNorm(config.width)
        self.head = Linear(config.width, config.vocab, bias=False)

    def new_state(self, capacity: int, batch: int = 1) -> DecoderState:
        """Allocates a state for `capacity` ids; `read_audio` must follow."""
        config = self.config
        shape = KvShape(
            layers=config.decoder_layers,
            heads=config.decoder_heads,
            head_dim=config.width // config.decoder_heads,
            dtype=self.tokens.dtype,
            batch=batch,
        )
        return DecoderState(KvCache(shape, capacity, config.context))

    def read_audio(self, state: DecoderState, encoded: Tensor) -> None:
        """Computes the cross keys and values of (batch, frames, width), once a request."""
        encoded = encoded.to(self.tokens.dtype)
        layers = cast(Iterable[DecoderLayer], self.layers)
        state.cross = [layer.read_audio(encoded) for layer in layers]

    def forward(self, ids: Tensor, state: DecoderState, first_logits: int = 0) -> Tensor:
        """Appends ids to the state.

        Args:
            ids: (batch, n), int64; n at least 1.
            state: changed: it holds n more positions afterwards.
            first_logits: logits of the positions before this one are not computed.

        Returns:
            (batch, n - first_logits, vocab), float32.
        """
        past, new = state.self_kv.length, ids.shape[1]
        state.self_kv.reserve(new)
        hidden = functional.embedding(ids, self.tokens) + self.positions[past : past + new]
        mask = causal_mask(new, past, hidden)
        for layer in self.layers:
            hidden = layer(hidden, state, mask)
        state.self_kv.advance(new)
        logits: Tensor = self.head(self.norm(hidden[:, first_logits:]))
        return logits.float()


class Whisper(nn.Module):
    """Holds both halves of a checkpoint.

    Weights come in through `load_state_dict(..., assign=True)` and are packed by `freeze`.
    """

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)

    def freeze(self) -> None:
        """Makes the weights ready for inference; they cannot be changed afterwards."""
        self.eval().requires_grad_(False)
        pack_linears(self)
