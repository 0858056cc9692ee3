"""What one step of a language model computes, and what came out of it."""

from dataclasses import dataclass, field

from engines.torch.sequence import Sequence


@dataclass(slots=True)
class Part:
    """Is the work of one sequence in a step.

    Attributes:
        sequence: whose.
        start: first position computed; equal to the sequence's `computed`.
        count: known positions computed, at least 1.
        drafts: ids guessed to follow the last known position, computed as well and kept
            only as far as the model agrees; empty unless the part ends at `known`.
    """

    sequence: Sequence
    start: int
    count: int
    drafts: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """Position after the last known one computed, drafts left out."""
        return self.start + self.count

    @property
    def chooses(self) -> bool:
        """Whether the part reaches the last known position, so that an id is chosen."""
        return self.end == self.sequence.known

    @property
    def rows(self) -> int:
        """Positions computed, drafts included."""
        return self.count + len(self.drafts)


@dataclass(slots=True)
class StepPlan:
    """Is who runs in a step, most urgent first.

    Attributes:
        parts: the work, one part a sequence.
        copies: (source, destination) block pairs, to be copied in this order before
            anything is written, also if there are no parts.
    """

    parts: list[Part] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Positions computed in all."""
        return sum(part.rows for part in self.parts)

    @property
    def prefill_rows(self) -> int:
        """Positions beyond the one that each sequence computes in a plain decode step."""
        return self.rows - len(self.parts)

    @property
    def context(self) -> int:
        """Cached positions that the step reads, all sequences together."""
        return sum(part.start for part in self.parts)
