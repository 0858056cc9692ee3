"""How many guessed ids a step is worth: from measured acceptance and modelled step time.

A guess costs a row. In a small batch a row is nearly free, since the step's time goes into
reading the weights; in a full one it costs what it may gain, and guessing fades out.
"""

from dataclasses import dataclass

from engines.torch.capacity import CapacityModel

_MOST_DRAFTS = 8
_LEARNING = 0.2
_HOPE = 0.02  # share of the prior that comes back with each step without guesses
_PRIOR = 0.5


@dataclass(slots=True)
class Acceptance:
    """Follows how likely a guess is right for one sequence.

    Attributes:
        rate: chance that a guess is accepted if those before it were, 0..1.
        drafted, accepted: guesses so far.
    """

    rate: float = _PRIOR
    drafted: int = 0
    accepted: int = 0

    def saw(self, drafted: int, accepted: int) -> None:
        """Learns from a step; without guesses it slowly hopes again."""
        self.drafted += drafted
        self.accepted += accepted
        if not drafted:
            self.rate += _HOPE * (_PRIOR - self.rate)
            return
        tried = min(accepted + 1, drafted)
        self.rate += _LEARNING * (accepted / tried - self.rate)


def draft_depth(
    acceptance: Acceptance, capacity: CapacityModel, sequences: int, context: int, rows: int
) -> int:
    """Returns the guesses that make most ids a second; 0 if none do.

    Args:
        acceptance: of the sequence.
        capacity: predicts the step's time.
        sequences: in the step.
        context: cached positions that it reads.
        rows: computed beyond one a sequence already.
    """
    if not capacity.is_fitted:
        return 0
    best, best_speed = 0, sequences / max(capacity.predict(sequences, context, rows), 1e-6)
    expected = power = 1.0
    for depth in range(1, _MOST_DRAFTS + 1):
        power *= acceptance.rate
        expected += power
        time_s = max(capacity.predict(sequences, context, rows + depth), 1e-6)
        speed = (sequences - 1 + expected) / time_s
        if speed > best_speed:
            best, best_speed = depth, speed
    return best
