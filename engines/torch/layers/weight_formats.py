"""The layouts in which a linear layer's weights can be held, and their kernels.

Each packer takes a weight (outputs, inputs) and a bias and returns a function that maps
float rows (rows, inputs) to (rows, outputs) in the dtype of its input. Which of them is
quickest depends on the processor, the shape and the number of rows: see
`engines.torch.calibration`.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

Kernel = Callable[[Tensor], Tensor]

# oneDNN adds up a whole row of products one after the other. In float32 that alone put the
# logits of a 30-layer model 1.6e-4 away from the exact ones (inner width 1,536); in pieces
# of this many terms they are within 0.9e-4, as with the plain product.
_FLOAT32_TERMS = 288


class WeightFormat(StrEnum):
    """Names a layout; arithmetic is in float32 unless it says otherwise."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"  # half the bytes; loses nothing where the checkpoint is float16
    BFLOAT16 = "bfloat16"  # half the bytes, products in bfloat16
    INT8 = "int8"  # a quarter of the bytes; activations are rounded to 7 bits per call

    @property
    def weight_bytes(self) -> int:
        """Bytes that one weight takes."""
        return {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}[self.value]


@dataclass(frozen=True, slots=True)
class Packing:
    """Says how linear layers hold their weights, by kind of step.

    Attributes:
        decode: for calls of few rows.
        prefill: for calls of many rows; another layout than `decode` takes its own memory.
        many_rows: where many begin.
    """

    decode: WeightFormat = WeightFormat.FLOAT32
    prefill: WeightFormat = WeightFormat.FLOAT32
    many_rows: int = 32

    @classmethod
    def all(cls, weight_format: WeightFormat) -> "Packing":
        """Holds the weights once, for all kinds of step."""
        return cls(weight_format, weight_format)


def can_pack(weight_format: WeightFormat) -> bool:
    """Says whether this build of torch has kernels for the layout on this processor."""
    match weight_format:
        case WeightFormat.FLOAT32:
            return _has_mkldnn()
        case WeightFormat.BFLOAT16:
            return _has_mkldnn() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
        case WeightFormat.FLOAT16:
            return _has_fbgemm() and hasattr(torch.ops.quantized, "linear_prepack_fp16")
        case WeightFormat.INT8:
            return _has_fbgemm() and hasattr(torch, "_make_per_channel_quantized_tensor")


def pack(weight: Tensor, bias: Tensor | None, weight_format: WeightFormat) -> Kernel:
    """Lays out a weight, (outputs, inputs), on the CPU; `can_pack` has been asked before."""
    packer = {
        WeightFormat.FLOAT32: _pack_float32,
        WeightFormat.FLOAT16: _pack_float16,
        WeightFormat.BFLOAT16: _pack_bfloat16,
        WeightFormat.INT8: _pack_int8,
    }[weight_format]
    return packer(weight.detach(), bias)


def is_lossless(weight: Tensor, weight_format: WeightFormat) -> bool:
    """Says whether the layout holds exactly the values of this weight."""
    match weight_format:
        case WeightFormat.FLOAT32:
            return True
        case WeightFormat.FLOAT16:
            return torch.equal(weight.half().float(), weight.float())
        case WeightFormat.BFLOAT16 | WeightFormat.INT8:
            return False  # their products round the activations, too


def _has_mkldnn() -> bool:
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]  # torch
        return False
    ops = torch.ops.mkldnn
    return hasattr(ops, "_reorder_linear_weight") and hasattr(ops, "_linear_pointwise")


def _has_fbgemm() -> bool:
    return "fbgemm" in torch.backends.quantized.supported_engines


def _pack_float32(weight: Tensor, bias: Tensor | None) -> Kernel:
    pieces, piece = _pieces(weight)
    parts = [_reordered(part) for part in pieces]
    product = torch.ops.mkldnn._linear_pointwise
    if len(parts) == 1:
        return lambda x: product(x, parts[0], bias, "none", [], "")

    def multiply(x: Tensor) -> Tensor:
        x_parts = torch.split(x, piece, -1)
        y: Tensor = product(x_parts[0], parts[0], bias, "none", [], "")
        for x_part, w_part in zip(x_parts[1:], parts[1:], strict=True):
            y = product.binary(x_part, y, w_part, None, "add")
        return y

    return multiply


def _pieces(weight: Tensor) -> tuple[list[Tensor], int]:
    """Cuts a weight along its inputs, so that no float32 sum has too many terms."""
    inputs = weight.shape[1]
    piece = math.ceil(inputs / math.ceil(inputs / _FLOAT32_TERMS))
    return [part.float().contiguous() for part in torch.split(weight, piece, 1)], piece


def _pack_bfloat16(weight: Tensor, bias: Tensor | None) -> Kernel:
    packed = _reordered(weight.bfloat16())
    half_bias = None if bias is None else bias.bfloat16()
    product = torch.ops.mkldnn._linear_pointwise

    def multiply(x: Tensor) -> Tensor:
        y: Tensor = product(x.bfloat16(), packed, half_bias, "none", [], "")
        return y.to(x.dtype)

    return multiply


def _reordered(weight: Tensor) -> Tensor:
    # No batch size is named: the layout then serves one row and hundreds alike.
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
    return packed


def _pack_float16(weight: Tensor, bias: Tensor | None) -> Kernel:
    # fbgemm widens the weights in registers: float32 arithmetic on half the bytes.
    parts, piece = _pieces(weight)
    prepack = torch.ops.quantized.linear_prepack_fp16
    packed = [prepack(parts[0], bias), *(prepack(part, None) for part in parts[1:])]
    product = torch.ops.quantized.linear_dynamic_fp16.default  # skips the choice of overload
    if len(packed) == 1:
        return lambda x: product(x, packed[0])

    def multiply(x: Tensor) -> Tensor:
        x_parts = torch.split(x, piece, -1)
        y: Tensor = product(x_parts[0], packed[0])
        for x_part, w_part in zip(x_parts[1:], packed[1:], strict=True):
            y.add_(product(x_part, w_part))
        return y

    return multiply


def _pack_int8(weight: Tensor, bias: Tensor | None) -> Kernel:
    """Rounds each output's weights to 8 bits; activations follow, per call, to 7.

    fbgemm's AVX2 kernel adds pairs of products in 16 bits, which overflows with 8-bit
    activations (`reduce_range` of the operator keeps them to 7).
    """
    values = weight.float()
    scales = values.abs().amax(1).clamp(min=1e-12) / 127
    rounded = (values / scales[:, None]).round().to(torch.int8)
    with warnings.catch_warnings():
        # Quantized tensors are on their way out of torch; `can_pack` notices when they are.
        warnings.simplefilter("ignore", UserWarning)
        quantized = torch._make_per_channel_quantized_tensor(
            rounded, scales.double(), torch.zeros(len(scales), dtype=torch.int64), 0
        )
        packed = torch.ops.quantized.linear_prepack(quantized, bias)
    product = torch.ops.quantized.linear_dynamic
    return lambda x: product(x, packed, True)
