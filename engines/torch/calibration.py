"""Measures which layout of linear weights is quickest on this processor."""

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from engines.torch.layers.weight_formats import (
    Kernel,
    Packing,
    WeightFormat,
    can_pack,
    is_lossless,
    pack,
)

_DECODE_ROWS = (1, 16)  # a lone reply, and a full batch
_PREFILL_ROWS = (256,)
_REPEATS = 5
_CACHE_BYTES = 2**26  # a model's weights come from memory in each step: no cache holds so many
_MOST_COPIES = 64
_WORTH_IT = 0.9  # another layout must take less than this share of float32's time


@dataclass(frozen=True, slots=True)
class Calibration:
    """Is what was chosen and what it gains.

    Attributes:
        packing: the layout by kind of step.
        decode_gain: time of float32 divided by time of the choice, in calls of few rows.
        prefill_gain: the same in calls of many rows.
    """

    packing: Packing
    decode_gain: float
    prefill_gain: float


@torch.inference_mode()
def calibrate(weight: Tensor) -> Calibration | None:
    """Chooses among the layouts that hold exactly the values of a weight.

    One layout serves both kinds of step, because two would take the memory of both: the one
    that is quickest in decode steps and does not lose in prefill.

    Args:
        weight: (outputs, inputs) on the CPU, one that stands for the model's others.

    Returns:
        None where nothing can be packed.
    """
    if not can_pack(WeightFormat.FLOAT32):
        return None
    usable = [f for f in WeightFormat if can_pack(f) and is_lossless(weight, f)]
    copies = min(_MOST_COPIES, -(-_CACHE_BYTES // (4 * weight.numel())))
    kernels = {f: [pack(weight, None, f) for _ in range(copies)] for f in usable}
    inputs = weight.shape[1]
    decode = {f: _seconds(kernel, inputs, _DECODE_ROWS) for f, kernel in kernels.items()}
    prefill = {f: _seconds(kernel, inputs, _PREFILL_ROWS) for f, kernel in kernels.items()}
    base = WeightFormat.FLOAT32
    best = min(decode, key=lambda f: decode[f])
    if decode[best] > _WORTH_IT * decode[base] or prefill[best] > prefill[base] / _WORTH_IT:
        best = base
    return Calibration(
        Packing.all(best), decode[base] / decode[best], prefill[base] / prefill[best]
    )


def _seconds(kernels: list[Kernel], inputs: int, rows: tuple[int, ...]) -> float:
    """Returns the least time of one call of each size, all sizes together."""
    return sum(_least(kernels, torch.ones(count, inputs)) for count in rows)


def _least(kernels: list[Kernel], x: Tensor) -> float:
    times = []
    for _ in range(_REPEATS + 1):  # the first is a warm-up
        started_s = time.perf_counter()
        for kernel in kernels:
            kernel(x)
        times.append((time.perf_counter() - started_s) / len(kernels))
    return min(times[1:])
