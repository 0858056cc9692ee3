"""Turns chosen ids into deltas and ends a request at a stop id or at its length."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from engines.base import FinishReason, TokenDelta
from engines.torch.sampler import Choice


@dataclass(slots=True)
class Delivery:
    """Follows one request from its first choice to its closing delta.

    Attributes:
        request_id: whose deltas these are.
        stop_ids: any of these ends the request and is not delivered.
        max_tokens: ids delivered at most.
        prompt_tokens: reported in the closing delta.
        cached_tokens: likewise.
        no_speech_prob: reported in the first delta, which may be the closing one.
    """

    request_id: str
    stop_ids: frozenset[int]
    max_tokens: int
    prompt_tokens: int
    cached_tokens: int = 0
    no_speech_prob: float | None = None
    _count: int = field(default=0, init=False)
    _finish: FinishReason | None = field(default=None, init=False)
    _stop_logprob: float | None = field(default=None, init=False)

    def run(
        self, first: Sequence[Choice], advance: Callable[[int], Choice]
    ) -> Iterator[TokenDelta]:
        """Yields one delta a step, and the closing one.

        Args:
            first: what the first step chose, one id or a verified draft.
            advance: runs a step that follows the given id.
        """
        choices = first
        while True:
            delta = self._take(choices)
            if delta is not None:
                yield delta
            if self._finish is not None:
                break
            choices = [advance(choices[-1].token)]
        yield self._closing()

    def _take(self, choices: Sequence[Choice]) -> TokenDelta | None:
        ids: list[int] = []
        logprob = 0.0
        for choice in choices[: self.max_tokens - self._count]:
            if choice.token in self.stop_ids:
                self._finish = FinishReason.STOP
                self._stop_logprob = choice.logprob
                break
            ids.append(choice.token)
            logprob += choice.logprob
        self._count += len(ids)
        if self._finish is None and self._count >= self.max_tokens:
            self._finish = FinishReason.LENGTH
        if not ids:
            return None
        return TokenDelta(
            self.request_id, tuple(ids), logprob, no_speech_prob=self._pop_no_speech()
        )

    def _closing(self) -> TokenDelta:
        return TokenDelta(
            self.request_id,
            logprob=self._stop_logprob,
            finish=self._finish,
            no_speech_prob=self._pop_no_speech(),
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
        )

    def _pop_no_speech(self) -> float | None:
        probability, self.no_speech_prob = self.no_speech_prob, None
        return probability
