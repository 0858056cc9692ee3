"""Chooses the next id of each request in a batch from its logits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engines.base import Sampling
from engines.errors import AntiphonError, BadRequest, EngineFailed

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


def check_sampling(sampling: Sampling, vocab: int) -> None:
    """Raises `BadRequest` for values that mean nothing, and ids that do not exist."""
    if not (math.isfinite(sampling.temperature) and sampling.temperature >= 0):
        raise BadRequest("The temperature must be 0 or more.", param="sampling.temperature")
    if sampling.top_k < 0:
        raise BadRequest("top_k must be 0 or more.", param="sampling.top_k")
    if not 0 < sampling.top_p <= 1:
        raise BadRequest("top_p must be above 0 and at most 1.", param="sampling.top_p")
    if not 0 <= sampling.min_p <= 1:
        raise BadRequest("min_p must be from 0 to 1.", param="sampling.min_p")
    if not all(0 <= token < vocab for token in sampling.suppress_ids):
        raise BadRequest("An id is outside of the vocabulary.", param="sampling.suppress_ids")
    for token, bias in sampling.logit_bias:
        if not (0 <= token < vocab and math.isfinite(bias)):
            raise BadRequest("A bias is no number, or of no id.", param="sampling.logit_bias")
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
        self._suppress = _index(rules.suppress + sampling.suppress_ids)
        biases = dict(sampling.logit_bias)
        self._biased = _index(tuple(biases))
        self._bias = torch.tensor(list(biases.values()), dtype=torch.float32)
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

    @property
    def is_plain(self) -> bool:
        """Whether the next id is just the likeliest one."""
        if not self.is_greedy or self._seen is not None:
            return False
        if self._suppress is not None or self._biased is not None:
            return False
        has_first_rules = self._begin_suppress is not None or self._allowed_first is not None
        return not (self._is_first and has_first_rules)

    def took(self, token: int) -> None:
        """Takes note of an id that was chosen elsewhere, for a plain sampler."""
        self._is_first = False

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
        if self._biased is not None:
            logits.index_add_(0, self._biased, self._bias)
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
        if sampling.min_p > 0.0:
            floor = sampling.min_p * probabilities.max()
            probabilities = probabilities.masked_fill(probabilities < floor, 0.0)
            probabilities /= probabilities.sum()
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


def choose(logits: Tensor, samplers: Sequence[Sampler]) -> list[Choice | AntiphonError]:
    """Chooses one id a row; a row that leaves none to choose fails by itself.

    Rows are independent: a request's seed gives the same ids whatever else is in the batch,
    as long as its logits are the same.

    Args:
        logits: (rows, vocab), float32; overwritten.
        samplers: one a row.
    """
    chosen: dict[int, Choice | AntiphonError] = {}
    plain = [row for row, sampler in enumerate(samplers) if sampler.is_plain]
    if plain:
        rows = logits if len(plain) == len(samplers) else logits[torch.tensor(plain)]
        best, tokens = rows.max(-1)
        logprobs = (best - rows.logsumexp(-1)).tolist()
        for row, token, logprob in zip(plain, tokens.tolist(), logprobs, strict=True):
            if math.isfinite(logprob):
                samplers[row].took(token)
                chosen[row] = Choice(token, logprob)
            else:
                chosen[row] = EngineFailed("The model's output leaves no id to choose.")
    for row, sampler in enumerate(samplers):
        if row not in chosen:
            chosen[row] = _choose_alone(logits[row], sampler)
    return [chosen[row] for row in range(len(samplers))]


def _choose_alone(logits: Tensor, sampler: Sampler) -> Choice | AntiphonError:
    try:
        return sampler.choose(logits)
    except AntiphonError as error:
        return error


def choose_in_order(logits: Tensor, sampler: Sampler, drafts: Sequence[int]) -> list[Choice]:
    """Chooses ids from row to row for as long as they are those that were guessed.

    This is exact for sampled ids, too: each is drawn from the model's own distribution, and
    the next row is valid if, and only if, the draw equals the guess.

    Args:
        logits: (1 + drafts, vocab), float32, each row after the guesses before it.
        sampler: of the request.
        drafts: the guesses.

    Returns:
        The accepted guesses and one id more.

    Raises:
        EngineFailed: a row leaves no id to choose.
    """
    choices: list[Choice] = []
    for row, drafted in enumerate((*drafts, None)):
        choices.append(sampler.choose(logits[row]))
        if choices[-1].token != drafted:
            break
    return choices


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
