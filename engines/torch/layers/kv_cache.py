"""Keys and values of one sequence batch, contiguous, growing by doubling."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class KvShape:
    """Says what one cached position consists of, in all layers."""

    layers: int
    heads: int
    head_dim: int
    dtype: torch.dtype
    batch: int = 1

    @property
    def bytes_per_token(self) -> int:
        """Bytes that keys and values of one position take."""
        return 2 * self.layers * self.batch * self.heads * self.head_dim * self.dtype.itemsize


class KvCache:
    """Holds keys and values per layer as (batch, heads, capacity, head_dim).

    A forward pass first calls `reserve`, then `write` once per layer, then `advance`: the
    length changes only after all layers have written, so a pass that raises leaves the
    cache as it was.

    Args:
        shape: what a position consists of.
        capacity: positions to allocate at once.
        limit: positions that will never be exceeded; doubling stops there.
    """

    def __init__(self, shape: KvShape, capacity: int, limit: int) -> None:
        self.shape = shape
        self.length = 0
        self._limit = limit
        self._capacity = min(max(capacity, 1), limit)
        self._keys = [self._allocate() for _ in range(shape.layers)]
        self._values = [self._allocate() for _ in range(shape.layers)]

    def _allocate(self) -> Tensor:
        shape = self.shape
        return torch.empty(
            shape.batch, shape.heads, self._capacity, shape.head_dim, dtype=shape.dtype
        )

    @property
    def nbytes(self) -> int:
        """Bytes allocated, used or not."""
        return self._capacity * self.shape.bytes_per_token

    def reserve(self, tokens: int) -> None:
        """Makes room for `tokens` more positions. Raises ValueError past the limit."""
        needed = self.length + tokens
        if needed > self._limit:
            raise ValueError(f"{needed} positions do not fit into a cache of {self._limit}.")
        if needed <= self._capacity:
            return
        self._capacity = min(self._limit, max(needed, 2 * self._capacity))
        self._keys = [self._grown(old) for old in self._keys]
        self._values = [self._grown(old) for old in self._values]

    def _grown(self, old: Tensor) -> Tensor:
        new = self._allocate()
        new[:, :, : self.length] = old[:, :, : self.length]
        return new

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Stores new positions, (batch, heads, new, head_dim), behind the present length.

        Returns:
            All keys and all values of the layer so far, new ones included, as views.
        """
        start, end = self.length, self.length + keys.shape[2]
        all_keys = self._keys[layer][:, :, :end]
        all_values = self._values[layer][:, :, :end]
        all_keys[:, :, start:] = keys
        all_values[:, :, start:] = values
        return all_keys, all_values

    def advance(self, tokens: int) -> None:
        """Counts `tokens` positions in that every layer has written."""
        self.length += tokens

    def truncate(self, length: int) -> None:
        """Forgets all positions from `length` on."""
        self.length = min(self.length, length)
