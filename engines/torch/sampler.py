"""Chooses the next id of one request from its logits."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from engines.base import Sampling
from engines.errors import BadRequest, EngineFailed

# Sorting a whole vocabulary for top-p costs milliseconds; the likeliest ids nearly always
# hold the wanted probability already.
_TOP_P_CANDIDATES = 512


@dataclass(frozen=True, slots=True)
class IdRules:
    """Says which ids may never come, or not come first.

    Attributes:
        suppress: never.
        begin_suppress: not first.
        allowed_first: if not empty, the first id is one of these.
    """

    suppress: tuple[int, ...] = ()
    begin_suppress: tuple[int, ...] = ()
    allowed_first: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """Is a chosen id and its log-probability.

    The log-probability is taken after the id rules and the repetition penalty, and before
    temperature, top-k and top-p, so that it is comparable between requests.
    """

    token: int
    logprob: float


def check_sampling(sampling: Sampling) -> None:
    """Raises `BadRequest` for values that mean nothing."""
    if not (math.isfinite(sampling.temperature) and sampling.temperature >= 0):
        raise BadRequest("The temperature must be 0 or more.", param="sampling.temperature")
    if sampling.top_k < 0:
        raise BadRequest("top_k must be 0 or more.", param="sampling.top_k")
    if not 0 < sampling.top_p <= 1:
        raise BadRequest("top_p must be above 0 and at most 1.", param="sampling.top_p")
    if not (math.isfinite(sampling.repetition_penalty) and sampling.repetition_penalty > 0):
        raise BadRequest(
            "The repetition penalty must be above 0.", param="sampling.repetition_penalty"
        )


class Sampler:
    """Holds what choosing needs to remember of one request: seed, ids seen, first or not.

    Args:
        sampling: how to choose.
        rules: which ids are out.
        prompt_ids: ids that the repetition penalty counts as present from the start.
    """

    def __init__(
        self, sampling: Sampling, rules: IdRules = IdRules(), prompt_ids: tuple[int, ...] = ()
    ) -> None:
        self._sampling = sampling
        self._suppress = _index(rules.suppress)
        self._begin_suppress = _index(rules.begin_suppress)
        self._allowed_first = _index(rules.allowed_first)
        self._is_first = True
        self._seen = _SeenIds(prompt_ids) if sampling.repetition_penalty != 1.0 else None
        self._generator = torch.Generator()
        if sampling.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(sampling.seed % 2**64)

    @property
    def is_greedy(self) -> bool:
        """Whether the same logits always give the same id."""
        return self._sampling.temperature == 0.0

    def choose(self, logits: Tensor) -> Choice:
        """Chooses one id.

        Args:
            logits: (vocab,), float32; overwritten.

        Raises:
            EngineFailed: the logits are not numbers, or every id is suppressed.
        """
        self._apply_rules(logits)
        token = int(logits.argmax()) if self.is_greedy else self._draw(logits)
        logprob = float(logits[token] - logits.logsumexp(-1))
        if not math.isfinite(logprob):
            raise EngineFailed("The model's output leaves no id to choose.")
        self._is_first = False
        if self._seen is not None:
            self._seen.add(token)
        return Choice(token, logprob)

    def _apply_rules(self, logits: Tensor) -> None:
        if self._seen is not None:
            ids = self._seen.ids
            penalty = self._sampling.repetition_penalty
            values = logits[ids]
            logits[ids] = torch.where(values > 0, values / penalty, values * penalty)
        if self._suppress is not None:
            logits.index_fill_(0, self._suppress, -math.inf)
        if not self._is_first:
            return
        if self._begin_suppress is not None:
            logits.index_fill_(0, self._begin_suppress, -math.inf)
        if self._allowed_first is not None:
            kept = logits[self._allowed_first]
            logits.fill_(-math.inf).index_copy_(0, self._allowed_first, kept)

    def _draw(self, logits: Tensor) -> int:
        sampling = self._sampling
        probabilities = (logits / sampling.temperature).softmax(-1)
        if not bool(probabilities.isfinite().all()):
            raise EngineFailed("The model's output leaves no id to choose.")
        if sampling.top_k == 0 and sampling.top_p == 1.0:
            return int(probabilities.multinomial(1, generator=self._generator))
        likely, ids = self._likeliest(probabilities)
        if sampling.top_p < 1.0:
            # The id that crosses the line is kept, so the set reaches top_p.
            before = likely.cumsum(-1) - likely
            likely = likely.masked_fill(before >= sampling.top_p * self._mass(likely), 0.0)
        return int(ids[likely.multinomial(1, generator=self._generator)])

    def _likeliest(self, probabilities: Tensor) -> tuple[Tensor, Tensor]:
        vocab = probabilities.shape[0]
        top_k, top_p = self._sampling.top_k, self._sampling.top_p
        if top_k:
            likely, ids = probabilities.topk(min(top_k, vocab))
        else:
            likely, ids = probabilities.topk(min(_TOP_P_CANDIDATES, vocab))
            if float(likely.sum()) < top_p:
                likely, ids = probabilities.sort(descending=True)
        return likely, ids

    def _mass(self, likely: Tensor) -> float:
        # After top-k the rest is renormalised; without it the candidates are a part of all.
        return float(likely.sum()) if self._sampling.top_k else 1.0


def no_speech_probability(logits: Tensor, no_speech_id: int) -> float:
    """Returns the probability of one id under untouched logits, (vocab,)."""
    return float((logits[no_speech_id] - logits.logsumexp(-1)).exp())


def _index(ids: tuple[int, ...]) -> Tensor | None:
    return torch.tensor(ids, dtype=torch.int64) if ids else None


class _SeenIds:
    """Keeps distinct ids in a tensor that grows by doubling, so no step scans the past."""

    def __init__(self, ids: tuple[int, ...]) -> None:
        distinct = list(dict.fromkeys(ids))
        self._known = set(distinct)
        self._buffer = torch.zeros(max(64, 2 * len(distinct)), dtype=torch.int64)
        self._buffer[: len(distinct)] = torch.tensor(distinct, dtype=torch.int64)

    @property
    def ids(self) -> Tensor:
        return self._buffer[: len(self._known)]

    def add(self, token: int) -> None:
        if token in self._known:
            return
        count = len(self._known)
        if count == self._buffer.shape[0]:
            self._buffer = torch.cat((self._buffer, torch.zeros_like(self._buffer)))
        self._buffer[count] = token
        self._known.add(token)
