"""Whisper's input layer: samples to log-mel frames (Radford et al. 2022, section 2.2)."""

import math

import torch
from torch import Tensor

SAMPLE_RATE_HZ = 16_000
FFT_SAMPLES = 400  # 25 ms
HOP_SAMPLES = 160  # 10 ms
DYNAMIC_RANGE = 8.0  # decades below the loudest bin that are kept
_FLOOR = 1e-10

# Slaney's Auditory Toolbox (1998): linear up to 1 kHz, then 27 mels per factor of 6.4.
_HZ_PER_MEL = 200.0 / 3.0
_LINEAR_END_HZ = 1000.0
_LINEAR_END_MEL = _LINEAR_END_HZ / _HZ_PER_MEL
_LOG_STEP = math.log(6.4) / 27.0


def _hz_to_mel(hz: float) -> float:
    if hz < _LINEAR_END_HZ:
        return hz / _HZ_PER_MEL
    return _LINEAR_END_MEL + math.log(hz / _LINEAR_END_HZ) / _LOG_STEP


def _mel_to_hz(mel: Tensor) -> Tensor:
    curved = _LINEAR_END_HZ * torch.exp(_LOG_STEP * (mel - _LINEAR_END_MEL))
    return torch.where(mel < _LINEAR_END_MEL, mel * _HZ_PER_MEL, curved)


def mel_filters(mels: int) -> Tensor:
    """Builds triangular filters of equal area, shape (mels, FFT_SAMPLES / 2 + 1), float32."""
    bins_hz = torch.linspace(0, SAMPLE_RATE_HZ / 2, FFT_SAMPLES // 2 + 1, dtype=torch.float64)
    top = _hz_to_mel(SAMPLE_RATE_HZ / 2)
    corners_hz = _mel_to_hz(torch.linspace(0, top, mels + 2, dtype=torch.float64))
    widths = corners_hz.diff()
    distance = corners_hz[:, None] - bins_hz[None, :]
    rising = -distance[:-2] / widths[:-1, None]
    falling = distance[2:] / widths[1:, None]
    triangles = torch.minimum(rising, falling).clamp(min=0.0)
    area = 2.0 / (corners_hz[2:] - corners_hz[:-2])
    return (triangles * area[:, None]).float()


class LogMel:
    """Turns samples into log-mel frames, normalised as Whisper was trained.

    Args:
        mels: 80, or 128 for the large-v3 family.
    """

    def __init__(self, mels: int) -> None:
        self.mels = mels
        self._filters = mel_filters(mels)
        self._window = torch.hann_window(FFT_SAMPLES)

    def __call__(self, samples: Tensor, window_samples: int) -> Tensor:
        """Pads the samples with silence to the window and analyses it.

        Args:
            samples: mono 16 kHz, shape (samples,), float32, at most `window_samples`.
            window_samples: a multiple of `HOP_SAMPLES`.

        Returns:
            (1, mels, window_samples / HOP_SAMPLES), float32.
        """
        padded = torch.nn.functional.pad(samples, (0, window_samples - samples.shape[0]))
        spectrum = torch.stft(
            padded, FFT_SAMPLES, HOP_SAMPLES, window=self._window, return_complex=True
        )
        # The last frame is centred on the end of the window and is not used.
        power = spectrum[:, :-1].abs().square()
        log_mel = (self._filters @ power).clamp(min=_FLOOR).log10()
        log_mel = torch.maximum(log_mel, log_mel.max() - DYNAMIC_RANGE)
        return ((log_mel + 4.0) / 4.0).unsqueeze(0)
