"""A linear layer whose weights are laid out once for the processor's matrix kernels."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from engines.torch.layers.weight_formats import (
    Kernel,
    Packing,
    WeightFormat,
    can_pack,
    pack,
)


class Linear(nn.Module):
    """Computes x W^T + b over the last axis.

    A plain weight is reordered by the library at each call, which for a single decode step
    costs more than the product itself. `pack` does that once. The operators are those that
    torch's own compiler emits for frozen weights, or fbgemm's; where they are missing the
    plain product is used.

    Args:
        inputs: width of the last axis of x.
        outputs: width of the last axis of the result.
        bias: whether there is a b.
    """

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight: nn.Parameter | None = nn.Parameter(
            torch.empty(outputs, inputs), requires_grad=False
        )
        self.bias = nn.Parameter(torch.empty(outputs), requires_grad=False) if bias else None
        self._decode: Kernel | None = None
        self._prefill: Kernel | None = None
        self._many_rows = 0
        self._decode_bytes: int | None = None

    @property
    def decode_bytes(self) -> int:
        """Bytes of weights that a call of few rows reads."""
        if self._decode_bytes is not None:
            return self._decode_bytes
        assert self.weight is not None
        return self.weight.nbytes

    def pack(self, packing: Packing | None = None) -> None:
        """Moves the weight into another layout; does nothing where that is impossible.

        Args:
            packing: which; None keeps the values as they are, in oneDNN's layout.
        """
        if self.weight is None:
            return
        if self.weight.device.type != "cpu":
            return
        packing = packing or _as_it_is(self.weight.dtype)
        if packing is None or not (can_pack(packing.decode) and can_pack(packing.prefill)):
            return
        weight, bias = self.weight.detach(), self.bias
        self._decode = self._prefill = pack(weight, bias, packing.decode)
        if packing.prefill is not packing.decode:
            self._prefill = pack(weight, bias, packing.prefill)
        self._many_rows = packing.many_rows
        self._decode_bytes = weight.numel() * packing.decode.weight_bytes
        self.weight = None

    def forward(self, x: Tensor) -> Tensor:
        if self._decode is None or self._prefill is None:
            assert self.weight is not None
            return functional.linear(x, self.weight, self.bias)
        many = x.numel() >= self._many_rows * x.shape[-1]
        return self._prefill(x) if many else self._decode(x)


def _as_it_is(dtype: torch.dtype) -> Packing | None:
    match dtype:
        case torch.float32:
            return Packing.all(WeightFormat.FLOAT32)
        case torch.bfloat16:
            return Packing.all(WeightFormat.BFLOAT16)
        case _:
            return None


def pack_linears(model: nn.Module, packing: Packing | None = None) -> None:
    """Packs every `Linear` below `model`. The weights are then frozen and not in its state."""
    for module in model.modules():
        if isinstance(module, Linear):
            module.pack(packing)
