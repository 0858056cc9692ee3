"""Where a generation ends: at a stop id, at a sequence of ids, or at its length."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engines.base import FinishReason


@dataclass(frozen=True, slots=True)
class Taken:
    """Is what is left of some chosen ids.

    Attributes:
        ids: to be delivered, some of them perhaps from earlier steps.
        logprobs: one an id.
        finish: why the generation has ended; None if it goes on.
        stop_logprob: of the stop id, if one came.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: FinishReason | None = None
    stop_logprob: float | None = None


class StopRules:
    """Follows the ids of one request.

    Args:
        stop_ids: any of these ends the request and is not delivered.
        max_tokens: ids generated at most.
        sequences: any of these ends the request and is not delivered; ids that begin one
            are held back until it is clear that they do not complete it.
    """

    def __init__(
        self,
        stop_ids: frozenset[int],
        max_tokens: int,
        sequences: Iterable[Sequence[int]] = (),
    ) -> None:
        self._stop_ids = stop_ids
        self._left = max_tokens
        self._sequences = [tuple(sequence) for sequence in sequences]
        self._held: list[int] = []
        self._held_logprobs: list[float] = []

    def take(self, ids: Sequence[int], logprobs: Sequence[float]) -> Taken:
        """Takes the ids of a step in order; nothing may be taken after a finish."""
        for token, logprob in zip(ids, logprobs, strict=True):
            if token in self._stop_ids:
                return self._end(FinishReason.STOP, 0, logprob)
            self._held.append(token)
            self._held_logprobs.append(logprob)
            self._left -= 1
            for sequence in self._sequences:
                if tuple(self._held[-len(sequence) :]) == sequence:
                    return self._end(FinishReason.STOP, len(sequence), None)
            if self._left == 0:
                return self._end(FinishReason.LENGTH, 0, None)
        return self._release(len(self._held) - self._possible_start(), None, None)

    def _end(self, reason: FinishReason, dropped: int, logprob: float | None) -> Taken:
        return self._release(len(self._held) - dropped, reason, logprob)

    def _release(self, count: int, finish: FinishReason | None, logprob: float | None) -> Taken:
        taken = Taken(
            tuple(self._held[:count]), tuple(self._held_logprobs[:count]), finish, logprob
        )
        del self._held[:count], self._held_logprobs[:count]
        return taken

    def _possible_start(self) -> int:
        """Returns how many of the last ids may yet become a stop sequence."""
        longest = 0
        for sequence in self._sequences:
            for length in range(min(len(sequence) - 1, len(self._held)), longest, -1):
                if tuple(self._held[-length:]) == sequence[:length]:
                    longest = length
                    break
        return longest
