"""Rotary position embedding (Su et al. 2021) in the half-split layout of Llama."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Stretches low frequencies, as Llama 3.1 does to reach longer contexts.

    Attributes:
        factor: how much the longest wavelengths are stretched.
        low_freq_factor: wavelengths above original_context / this are fully stretched.
        high_freq_factor: wavelengths below original_context / this are kept.
        original_context: positions of the pre-training.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int


def inverse_frequencies(head_dim: int, theta: float, scaling: Llama3Scaling | None) -> Tensor:
    """Returns the angle per position of each pair, shape (head_dim / 2,), float32."""
    frequencies = 1.0 / (theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim))
    if scaling is None:
        return frequencies
    turns = scaling.original_context * frequencies / (2 * math.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    # 1 keeps a frequency, 0 divides it by the factor, between them it is mixed.
    kept = ((turns - scaling.low_freq_factor) / span).clamp(0.0, 1.0)
    return kept * frequencies + (1.0 - kept) * frequencies / scaling.factor


Rotation = tuple[Tensor, Tensor]
"""Cosine and signed sine of each row's angles, each (rows, 1, head_dim)."""


class Rope:
    """Rotates queries and keys; its table grows with the longest position seen.

    Args:
        frequencies: angle per position, shape (head_dim / 2,).
        dtype: dtype of the table.
    """

    def __init__(self, frequencies: Tensor, dtype: torch.dtype) -> None:
        self._frequencies = frequencies
        self._dtype = dtype
        self._cos = torch.empty(0)
        self._sin = torch.empty(0)

    def reserve(self, positions: int, device: torch.device) -> None:
        """Makes the table cover positions below this one, on the device that will ask."""
        if positions > self._cos.shape[0]:
            self._grow(max(positions, 2 * self._cos.shape[0], 256))
        if self._cos.device != device:
            self._cos, self._sin = self._cos.to(device), self._sin.to(device)

    def at(self, positions: Tensor) -> Rotation:
        """Returns the rotation of each position, (rows,), int64; `reserve` came before."""
        return self._cos.index_select(0, positions), self._sin.index_select(0, positions)

    def _grow(self, positions: int) -> None:
        angles = torch.outer(torch.arange(positions, dtype=torch.float32), self._frequencies)
        cos, sin = angles.cos(), angles.sin()
        self._cos = torch.cat((cos, cos), -1).unsqueeze(1).to(self._dtype)
        self._sin = torch.cat((-sin, sin), -1).unsqueeze(1).to(self._dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns each pair (i, i + head_dim / 2) of x, (rows, heads, head_dim)."""
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), sin)
