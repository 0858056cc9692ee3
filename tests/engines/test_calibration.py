"""The choice of a weight layout: by measured time, and never at the cost of a value."""

import pytest
import torch

from engines.torch import calibration
from engines.torch.calibration import calibrate
from engines.torch.layers.weight_formats import Kernel, WeightFormat, can_pack

needs_both = pytest.mark.skipif(
    not (can_pack(WeightFormat.FLOAT32) and can_pack(WeightFormat.FLOAT16)),
    reason="needs float32 and float16 kernels",
)


def _float16_weight() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(64, 32).half().float()


def _times(monkeypatch: pytest.MonkeyPatch, float16_decode: float, float16_prefill: float) -> None:
    """Replaces the stop-watch: float32 takes 1 s for everything."""

    def pack(_weight: torch.Tensor, _bias: None, weight_format: WeightFormat) -> Kernel:
        return {WeightFormat.FLOAT32: torch.abs}.get(weight_format, torch.neg)

    def seconds(kernels: list[Kernel], _inputs: int, rows: tuple[int, ...]) -> float:
        if kernels[0] is torch.abs:
            return 1.0
        return float16_prefill if max(rows) > 100 else float16_decode

    monkeypatch.setattr(calibration, "pack", pack)
    monkeypatch.setattr(calibration, "_seconds", seconds)


@needs_both
def test_quicker_lossless_layout_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    _times(monkeypatch, float16_decode=0.5, float16_prefill=0.8)
    found = calibrate(_float16_weight())
    assert found is not None
    assert found.packing.decode is found.packing.prefill is WeightFormat.FLOAT16
    assert (found.decode_gain, found.prefill_gain) == (2.0, 1.25)


@needs_both
@pytest.mark.parametrize(("decode", "prefill"), [(0.95, 0.5), (0.5, 1.5)])
def test_layout_that_gains_little_or_loses_in_prefill_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, decode: float, prefill: float
) -> None:
    _times(monkeypatch, decode, prefill)
    found = calibrate(_float16_weight())
    assert found is not None
    assert found.packing.decode is WeightFormat.FLOAT32
    assert found.decode_gain == 1.0


@needs_both
def test_layout_that_would_round_is_never_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    _times(monkeypatch, float16_decode=0.1, float16_prefill=0.1)
    found = calibrate(_float16_weight() + 2**-14)
    assert found is not None
    assert found.packing.decode is WeightFormat.FLOAT32


def test_gain_of_this_processor_is_a_positive_number() -> None:
    found = calibrate(_float16_weight())
    if found is None:
        pytest.skip("nothing can be packed here")
    assert found.decode_gain > 0 and found.prefill_gain > 0
