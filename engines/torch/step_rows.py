"""How the rows of one step are shared out among those who may run."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from engines.torch import pace
from engines.torch.capacity import CapacityModel
from engines.torch.pace import Turn, turn_of
from engines.torch.sequence import Sequence
from engines.torch.step_plan import Part

_LEAST_CHUNK = 16  # prompt rows that a step takes however urgent its listeners are
_MARGIN_S = 0.05  # what should be left of the smallest lead after a step


class RowLimits(Protocol):
    """Is what this file needs of the scheduler's configuration."""

    @property
    def chunk_tokens(self) -> int: ...

    @property
    def interactive_wait_s(self) -> float: ...

    @property
    def batch_wait_s(self) -> float: ...

    @property
    def pace(self) -> bool: ...


def fill_step(
    ready: list[Sequence], limits: RowLimits, capacity: CapacityModel, now_s: float
) -> Iterator[Part]:
    """Yields one part for each sequence that runs.

    Everybody decodes together, since a step's constant cost is shared; only where a listener
    would run dry meanwhile do unpaced sequences stay out. Prompts share a chunk in the order
    of urgency, which shrinks for the same reason.

    Args:
        ready: who may run, most urgent first.
        limits: sizes and patience.
        capacity: predicts how long the step will take.
        now_s: the present.
    """
    bound_s = _bound_s(ready, now_s) if limits.pace and capacity.is_fitted else None
    left = limits.chunk_tokens
    sequences = context = prefill_rows = 0
    for sequence in ready:
        count = min(sequence.pending, left + 1)
        if bound_s is not None:
            fits = _rows_that_fit(capacity, bound_s, sequences + 1, context, prefill_rows)
            if fits < 0 and _yields(sequence, limits, now_s):
                continue
            count = min(count, 1 + max(fits, _LEAST_CHUNK - prefill_rows, 0))
        yield Part(sequence, sequence.computed, count)
        left -= count - 1
        sequences, context = sequences + 1, context + sequence.computed
        prefill_rows += count - 1


def _bound_s(ready: Iterable[Sequence], now_s: float) -> float | None:
    """Returns how long the step may take for the listener who has least; None if there is none."""
    leads = [pace.lead_s(s, now_s) for s in ready if s.playing_since_s is not None]
    return min(leads) - _MARGIN_S if leads else None


def _rows_that_fit(
    capacity: CapacityModel, bound_s: float, sequences: int, context: int, prefill_rows: int
) -> int:
    """Returns the prompt rows that can be added; negative if the step is too long already."""
    left_s = bound_s - capacity.predict_upper(sequences, context, prefill_rows)
    if left_s < 0:
        return -1
    row_s = capacity.coefficients[3]
    return int(min(left_s / row_s, 1e6)) if row_s > 0 else 1_000_000


def _yields(sequence: Sequence, limits: RowLimits, now_s: float) -> bool:
    """Whether a sequence stays out of a step that is too long: unpaced, and not for ever."""
    turn = turn_of(sequence, now_s)
    if turn < Turn.INTERACTIVE:
        return False
    patience_s = limits.batch_wait_s if turn is Turn.BATCH else limits.interactive_wait_s
    return now_s - sequence.stepped_s < patience_s
