"""A batch of sequences of different lengths, laid out as rows without padding."""

from dataclasses import dataclass

import torch
from torch import Tensor

SlotRuns = tuple[tuple[int, int], ...]
"""(first slot, slots) pairs that together hold a sequence's positions in order."""

LayerViews = tuple[tuple[Tensor, ...], tuple[Tensor, ...]]
"""Keys (heads, head_dim, count) and values (heads, count, head_dim) of each layer."""


@dataclass(slots=True, eq=False)
class RaggedPart:
    """Is what one sequence has in the batch.

    Attributes:
        first_row: its first row; its rows follow each other.
        rows: new positions.
        past: cached positions before them.
        runs: where all `past + rows` positions lie in the cache.
        mask: added to the scores of all query heads of a group, (group * rows, past + rows);
            None for a single row, which sees everything.
        views: keys and values where one run holds them all and they need no copy.
    """

    first_row: int
    rows: int
    past: int
    runs: SlotRuns
    mask: Tensor | None = None
    views: LayerViews | None = None

    @property
    def length(self) -> int:
        """Positions that its last row sees, itself included."""
        return self.past + self.rows


@dataclass(slots=True, eq=False)
class RaggedBatch:
    """Is a batch as all layers see it.

    Attributes:
        parts: one a sequence, in the order of their rows.
        slots: where each row's keys and values go, (rows,), int64.
        positions: each row's position in its sequence, (rows,), int64.
    """

    parts: list[RaggedPart]
    slots: Tensor
    positions: Tensor

    @property
    def longest(self) -> int:
        """Length of the longest sequence."""
        return max(part.length for part in self.parts)

    @property
    def is_decode(self) -> bool:
        """Whether every sequence has just one row."""
        return len(self.parts) == self.slots.shape[0]


def slot_runs(block_runs: tuple[tuple[int, int], ...], block_size: int, length: int) -> SlotRuns:
    """Turns runs of blocks into runs of slots, cut off after `length` positions."""
    if len(block_runs) == 1:
        return ((block_runs[0][0] * block_size, length),)
    runs: list[tuple[int, int]] = []
    for first, count in block_runs:
        slots = min(count * block_size, length)
        if slots <= 0:
            break
        runs.append((first * block_size, slots))
        length -= slots
    return tuple(runs)


def causal_rows(rows: int, past: int, group: int, like: Tensor) -> Tensor | None:
    """Builds the mask of `RaggedPart.mask`: each new position sees itself and what precedes."""
    if rows == 1:
        return None
    mask = torch.full((rows, past + rows), float("-inf"), dtype=like.dtype).triu_(past + 1)
    return mask.repeat(group, 1).to(like.device)
