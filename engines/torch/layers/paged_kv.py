"""The memory of a paged KV cache: keys and values of all layers, addressed by slot.

A slot is one position's place; slots of a block lie side by side, so blocks that follow
each other can be read as one view. Which sequence owns which block is decided elsewhere
(`engines.torch.kv_cache`); here are only tensors.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from engines.torch.kv_dtype import KvDtype
from engines.torch.layers.ragged_batch import LayerViews

_INT8_TOP = 127.0
_FP8_TOP = 448.0  # largest finite value of float8_e4m3fn


@dataclass(frozen=True, slots=True)
class KvLayout:
    """Says what one cached position consists of.

    Attributes:
        layers, heads, head_dim: sizes of the model's keys and values.
        model_dtype: what the model computes in.
        kept_as: how they are held.
    """

    layers: int
    heads: int
    head_dim: int
    model_dtype: torch.dtype = torch.float32
    kept_as: KvDtype = KvDtype.MODEL

    @property
    def dtype(self) -> torch.dtype:
        """Element type in memory."""
        match self.kept_as:
            case KvDtype.MODEL:
                return self.model_dtype
            case KvDtype.BFLOAT16:
                return torch.bfloat16
            case KvDtype.INT8:
                return torch.int8
            case KvDtype.FP8:
                return torch.float8_e4m3fn

    @property
    def has_scales(self) -> bool:
        """Whether each position and head carries a scale."""
        return self.kept_as in (KvDtype.INT8, KvDtype.FP8)

    @property
    def bytes_per_position(self) -> int:
        """Bytes of keys and values of one position in all layers, scales included."""
        per_head = self.head_dim * self.dtype.itemsize + (4 if self.has_scales else 0)
        return 2 * self.layers * self.heads * per_head


class PagedKv:
    """Holds keys and values, per layer (heads, slots, head_dim).

    The memory is reserved at once and taken from the system as slots are first written.

    Args:
        layout: what a position consists of.
        blocks: how many blocks there are.
        block_size: positions in a block.
        device: where they lie.
    """

    def __init__(
        self, layout: KvLayout, blocks: int, block_size: int, device: torch.device | None = None
    ) -> None:
        self.layout = layout
        self.block_size = block_size
        self.slots = blocks * block_size
        shape = (layout.layers, layout.heads, self.slots, layout.head_dim)
        self._all_keys = torch.empty(shape, dtype=layout.dtype, device=device)
        self._all_values = torch.empty_like(self._all_keys)
        self._keys = list(self._all_keys.unbind(0))
        self._values = list(self._all_values.unbind(0))
        self._key_scales: list[Tensor] = []
        self._value_scales: list[Tensor] = []
        if layout.has_scales:
            scales = (layout.heads, self.slots, 1)
            self._key_scales = [torch.empty(scales, device=device) for _ in range(layout.layers)]
            self._value_scales = [torch.empty_like(scales) for scales in self._key_scales]

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Stores positions.

        Args:
            layer: which.
            slots: (rows,), int64, each at most once.
            keys: (rows, heads, head_dim).
            values: as `keys`.
        """
        self._store(self._keys, self._key_scales, layer, slots, keys.transpose(0, 1))
        self._store(self._values, self._value_scales, layer, slots, values.transpose(0, 1))

    def _store(
        self, store: list[Tensor], scales: list[Tensor], layer: int, slots: Tensor, x: Tensor
    ) -> None:
        if scales:
            x, scale = self._narrow(x)
            scales[layer].index_copy_(1, slots, scale)
        if store[layer].dtype is torch.float8_e4m3fn:
            # torch has no index_copy_ for float8; the bytes are moved as what they are.
            store[layer].view(torch.uint8).index_copy_(1, slots, x.view(torch.uint8))
            return
        store[layer].index_copy_(1, slots, x.to(store[layer].dtype))

    def _narrow(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Scales each position of each head to the range of the narrow type."""
        is_int8 = self.layout.kept_as is KvDtype.INT8
        top = _INT8_TOP if is_int8 else _FP8_TOP
        scale = x.float().abs().amax(-1, keepdim=True).clamp(min=1e-12) / top
        scaled = x.float() / scale
        return (scaled.round() if is_int8 else scaled).to(self.layout.dtype), scale

    def read(self, layer: int, first: int, count: int) -> tuple[Tensor, Tensor]:
        """Returns `count` keys and values from slot `first`, each (heads, count, head_dim).

        Views where the cache holds what the model computes in, else widened copies.
        """
        keys = self._keys[layer].narrow(1, first, count)
        values = self._values[layer].narrow(1, first, count)
        if self.layout.kept_as is KvDtype.MODEL:
            return keys, values
        dtype = self.layout.model_dtype
        if not self._key_scales:
            return keys.to(dtype), values.to(dtype)
        key_scales = self._key_scales[layer].narrow(1, first, count)
        value_scales = self._value_scales[layer].narrow(1, first, count)
        return (keys.float() * key_scales).to(dtype), (values.float() * value_scales).to(dtype)

    def views(self, first: int, count: int) -> LayerViews | None:
        """Returns what `read` does, of all layers at once: two calls instead of two a layer.

        None where the cache does not hold what the model computes in.
        """
        if self.layout.kept_as is not KvDtype.MODEL:
            return None
        keys = self._all_keys.narrow(2, first, count).transpose(2, 3)
        return keys.unbind(0), self._all_values.narrow(2, first, count).unbind(0)

    def gather(self, layer: int, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Returns copies of keys and values of any slots, each (heads, len(slots), head_dim)."""
        dtype = self.layout.model_dtype
        found = []
        for store, scales in (
            (self._keys[layer], self._key_scales),
            (self._values[layer], self._value_scales),
        ):
            if store.dtype is torch.float8_e4m3fn:
                x = store.view(torch.uint8).index_select(1, slots).view(store.dtype)
            else:
                x = store.index_select(1, slots)
            if scales:
                x = x.float() * scales[layer].index_select(1, slots)
            found.append(x.to(dtype))
        return found[0], found[1]

    def copy_block(self, source: int, destination: int) -> None:
        """Copies a block in all layers, before its copy is written to."""
        size = self.block_size
        for tensor in (*self._keys, *self._values, *self._key_scales, *self._value_scales):
            tensor[:, destination * size : (destination + 1) * size] = tensor[
                :, source * size : (source + 1) * size
            ]
