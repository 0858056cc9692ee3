"""A linear layer whose weights are laid out once for the processor's matrix kernels."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

# oneDNN adds up a whole row of products one after the other. In float32 that alone put the
# logits of a 30-layer model 1.6e-4 away from the exact ones (inner width 1,536); in pieces
# of this many terms they are within 0.9e-4, as with the plain product.
_FLOAT32_TERMS = 288


def can_pack(dtype: torch.dtype) -> bool:
    """Says whether oneDNN can hold weights of this dtype in its own layout here."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]  # torch
        return False
    ops = torch.ops.mkldnn
    if not (hasattr(ops, "_reorder_linear_weight") and hasattr(ops, "_linear_pointwise")):
        return False
    if dtype == torch.bfloat16:
        return bool(ops._is_mkldnn_bf16_supported())
    return dtype == torch.float32


class Linear(nn.Module):
    """Computes x W^T + b over the last axis.

    A plain weight is reordered by the library at each call, which for a single decode step
    costs more than the product itself. `pack` does that once. The operators are those that
    torch's own compiler emits for frozen weights; where they are missing the plain product
    is used.

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
        self._packed: list[Tensor] = []
        self._piece = inputs

    def pack(self) -> None:
        """Moves the weight into oneDNN's layout; does nothing where that is impossible."""
        if self.weight is None or self.weight.device.type != "cpu":
            return
        if not can_pack(self.weight.dtype):
            return
        inputs = self.weight.shape[1]
        if self.weight.dtype == torch.float32:
            pieces = math.ceil(inputs / _FLOAT32_TERMS)
            self._piece = math.ceil(inputs / pieces)
        # No batch size is named: the layout then serves one row and hundreds alike.
        self._packed = [
            torch.ops.mkldnn._reorder_linear_weight(part.contiguous(), None)
            for part in torch.split(self.weight.detach(), self._piece, 1)
        ]
        self.weight = None

    def forward(self, x: Tensor) -> Tensor:
        if not self._packed:
            assert self.weight is not None
            return functional.linear(x, self.weight, self.bias)
        product = torch.ops.mkldnn._linear_pointwise
        parts = torch.split(x, self._piece, -1)
        y: Tensor = product(parts[0], self._packed[0], self.bias, "none", [], "")
        for part, weight in zip(parts[1:], self._packed[1:], strict=True):
            y = product.binary(part, y, weight, None, "add")
        return y


def pack_linears(model: nn.Module) -> None:
    """Packs every `Linear` below `model`. The weights are then frozen and not in its state."""
    for module in model.modules():
        if isinstance(module, Linear):
            module.pack()
