"""Turns chosen ids into deltas and ends a request at a stop id or at its length."""

from collections.abc import Callable, Iterator, Sequence

from engines.base import TokenDelta
from engines.torch.sampler import Choice
from engines.torch.stop_rules import StopRules, Taken


class Delivery:
    """Follows one request from its first choice to its closing delta.

    Args:
        request_id: whose deltas these are.
        rules: where it ends.
        prompt_tokens: reported in the closing delta.
    """

    def __init__(self, request_id: str, rules: StopRules, prompt_tokens: int) -> None:
        self.request_id = request_id
        self.prompt_tokens = prompt_tokens
        self.cached_tokens = 0
        """Reported in the closing delta."""
        self.no_speech_prob: float | None = None
        """Reported in the first delta, which may be the closing one."""
        self._rules = rules

    def deltas(self, choices: Sequence[Choice]) -> list[TokenDelta]:
        """Returns what a step's choices deliver: nothing, a delta, and the closing one."""
        taken = self._rules.take(
            [choice.token for choice in choices], [choice.logprob for choice in choices]
        )
        deltas: list[TokenDelta] = []
        if taken.ids:
            logprob = sum(taken.logprobs)
            deltas.append(
                TokenDelta(
                    self.request_id, taken.ids, logprob, no_speech_prob=self._pop_no_speech()
                )
            )
        if taken.finish is not None:
            deltas.append(self._closing(taken))
        return deltas

    def run(
        self, first: Sequence[Choice], advance: Callable[[int], Choice]
    ) -> Iterator[TokenDelta]:
        """Yields the deltas of one step after another.

        Args:
            first: what the first step chose, one id or a verified draft.
            advance: runs a step that follows the given id.
        """
        choices = first
        while True:
            for delta in self.deltas(choices):
                yield delta
                if delta.finish is not None:
                    return
            choices = [advance(choices[-1].token)]

    def _closing(self, taken: Taken) -> TokenDelta:
        return TokenDelta(
            self.request_id,
            logprob=taken.stop_logprob,
            finish=taken.finish,
            no_speech_prob=self._pop_no_speech(),
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
        )

    def _pop_no_speech(self) -> float | None:
        probability, self.no_speech_prob = self.no_speech_prob, None
        return probability
