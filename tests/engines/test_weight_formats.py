"""Every layout of linear weights against the exact product."""

import pytest
import torch

from engines.torch.layers.linear import Linear
from engines.torch.layers.weight_formats import Packing, WeightFormat, can_pack, is_lossless

TOLERANCE = {
    WeightFormat.FLOAT32: 1e-5,
    WeightFormat.FLOAT16: 1e-5,
    WeightFormat.BFLOAT16: 2e-2,
    WeightFormat.INT8: 3e-2,
}


def _layer(inputs: int, bias: bool) -> tuple[Linear, torch.Tensor, torch.Tensor]:
    """Makes a layer whose weights float16 holds exactly."""
    torch.manual_seed(5)
    layer = Linear(inputs, 24, bias=bias).requires_grad_(False)
    assert layer.weight is not None
    layer.weight.normal_()
    layer.weight.copy_(layer.weight.half().float())
    offset = torch.zeros(24)
    if layer.bias is not None:
        layer.bias.normal_()
        offset = layer.bias.clone()
    return layer, layer.weight.clone(), offset


@pytest.mark.parametrize("weight_format", WeightFormat)
@pytest.mark.parametrize("rows", [1, 7, 40])
@pytest.mark.parametrize("bias", [True, False])
@torch.inference_mode()
def test_layout_gives_the_exact_product_within_its_rounding(
    weight_format: WeightFormat, rows: int, bias: bool
) -> None:
    if not can_pack(weight_format):
        pytest.skip(f"no {weight_format} kernels on this processor")
    layer, weight, offset = _layer(700, bias)
    x = torch.randn(rows, 700)
    layer.pack(Packing.all(weight_format))
    assert layer.weight is None
    exact = x.double() @ weight.double().T + offset.double()
    error = (layer(x).double() - exact).abs().max() / exact.abs().max()
    assert error < TOLERANCE[weight_format]


@torch.inference_mode()
def test_calls_of_many_rows_use_the_layout_for_prefill() -> None:
    if not (can_pack(WeightFormat.FLOAT32) and can_pack(WeightFormat.INT8)):
        pytest.skip("needs float32 and int8 kernels")
    layer, weight, offset = _layer(64, bias=True)
    layer.pack(Packing(WeightFormat.INT8, WeightFormat.FLOAT32, many_rows=4))
    x = torch.randn(4, 64)
    exact = x.double() @ weight.double().T + offset.double()
    few, many = layer(x[:3]).double(), layer(x).double()
    assert (many - exact).abs().max() < 1e-4
    assert (few - exact[:3]).abs().max() > 1e-3, "int8 rounds, and was not used"


def test_float16_loses_nothing_of_float16_values_only() -> None:
    exact = torch.tensor([[0.5, 1.0 + 2**-10]])
    finer = torch.tensor([[0.5, 1.0 + 2**-12]])
    too_large = torch.tensor([[1e6]])
    assert is_lossless(exact, WeightFormat.FLOAT16)
    assert not is_lossless(finer, WeightFormat.FLOAT16)
    assert not is_lossless(too_large, WeightFormat.FLOAT16)
    assert not is_lossless(exact, WeightFormat.INT8)
