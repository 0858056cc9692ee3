"""Runs llama-family requests as bounded steps: a chunk of prefill, or one decode pass."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from engines.base import (
    Capabilities,
    EmbeddingSpan,
    GenerateRequest,
    ReleaseRequest,
    SpanAttention,
    TokenDelta,
)
from engines.errors import BadRequest, Unsupported
from engines.torch.delivery import Delivery
from engines.torch.layers.kv_cache import KvCache
from engines.torch.models.llama import Llama
from engines.torch.sampler import Choice, Sampler, check_sampling
from engines.torch.session_cache import PositionKey, SessionCache, SessionKey
from engines.torch.step_engine import Request

_CHUNK_GRAIN = 16  # chunks are a multiple of this, which suits matrix kernels


@dataclass(frozen=True, slots=True)
class LlamaRunnerConfig:
    """Tunes the runner.

    Attributes:
        name: model name for logs and `doctor`.
        step_gflop: arithmetic in one chunk of prefill; 18 keeps a step of a 135 M model
            near 100 ms on two cores in float32.
        session_cache_bytes: budget for caches of finished requests; 0 keeps none.
    """

    name: str = "llama"
    step_gflop: float = 18.0
    session_cache_bytes: int = 256 * 2**20


@dataclass(slots=True, eq=False)
class _Job:
    """Is what one running request holds.

    Attributes:
        positions: what each prompt position is computed from, then the generated ids.
        cache: None until the first step, and after the end.
    """

    request: GenerateRequest
    key: SessionKey
    positions: list[PositionKey]
    sampler: Sampler
    delivery: Delivery
    cache: KvCache | None = None


class LlamaRunner:
    """Implements `RequestRunner` for `GenerateRequest` and `ReleaseRequest`.

    Args:
        model: a frozen model.
        config: knobs.
    """

    def __init__(self, model: Llama, config: LlamaRunnerConfig | None = None) -> None:
        self._model = model
        self._config = config or LlamaRunnerConfig()
        self._sessions = SessionCache(self._config.session_cache_bytes)
        self._jobs: set[_Job] = set()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            name=f"torch/{self._config.name}",
            spans=True,
            max_context=self._model.config.context,
        )

    @property
    def chunk_tokens(self) -> int:
        """Positions in one chunk of prefill."""
        tokens = int(self._config.step_gflop * 1e9 / (2 * self._model.config.step_parameters))
        return min(max(tokens // _CHUNK_GRAIN, 1) * _CHUNK_GRAIN, 512)

    def cache_bytes(self) -> int:
        """Returns the bytes of KV held by running requests and kept for sessions."""
        running = sum(job.cache.nbytes for job in self._jobs if job.cache is not None)
        return running + self._sessions.nbytes

    def check(self, request: Request) -> None:
        """Raises `BadRequest`, or `Unsupported` for spans that this family does not have."""
        if isinstance(request, ReleaseRequest):
            return
        if not isinstance(request, GenerateRequest):
            raise BadRequest("A language model takes generate requests only.")
        config = self._model.config
        check_sampling(request.sampling)
        if not request.prompt_ids:
            raise BadRequest("The prompt is empty.", param="prompt_ids")
        if not 0 <= min(request.prompt_ids) <= max(request.prompt_ids) < config.vocab:
            raise BadRequest("An id is outside of the vocabulary.", param="prompt_ids")
        if request.max_tokens < 1:
            raise BadRequest("max_tokens must be at least 1.", param="max_tokens")
        if len(request.prompt_ids) + request.max_tokens > config.context:
            raise BadRequest(
                f"Prompt and max_tokens exceed the context of {config.context} ids.",
                param="max_tokens",
            )
        end = 0
        for span in sorted(request.spans, key=lambda span: span.position):
            self._check_span(span, end, len(request.prompt_ids))
            end = span.position + len(span.embeddings)

    def _check_span(self, span: EmbeddingSpan, start: int, end: int) -> None:
        if span.attention is not SpanAttention.CAUSAL:
            raise Unsupported("This model attends causally over embedding spans only.")
        if span.position_ids is not None or span.layer_features is not None:
            raise Unsupported("This model takes no position ids or layer features in spans.")
        shape = span.embeddings.shape
        if len(shape) != 2 or shape[1] != self._model.config.width:
            raise BadRequest(
                f"Span embeddings must be (length, {self._model.config.width}).", param="spans"
            )
        if span.position < start or span.position + shape[0] > end:
            raise BadRequest("Spans overlap or leave the prompt.", param="spans")
        if not np.isfinite(span.embeddings).all():
            raise BadRequest("A span holds values that are not numbers.", param="spans")

    def run(self, request: Request) -> Iterator[object | None]:
        """Yields None per chunk of prefill but the last, then a delta per decode step.

        The last chunk yields the first delta. What a request of a session computed is kept
        for the session's next one, whether it ends by itself or is closed, but not when a
        step raises. A `ReleaseRequest` frees that, and yields its session's id.
        """
        if isinstance(request, ReleaseRequest):
            self._sessions.drop(SessionKey(request.cache_salt, request.ticket.session_id))
            yield request.ticket.session_id
            return
        assert isinstance(request, GenerateRequest)
        job = self._new_job(request)
        self._jobs.add(job)
        try:
            yield from self._run(job)
        except Exception:
            job.cache = None
            raise
        finally:
            self._jobs.discard(job)
            if job.cache is not None:
                self._sessions.put(job.key, tuple(job.positions), job.cache)
                job.cache = None

    def _new_job(self, request: GenerateRequest) -> _Job:
        delivery = Delivery(
            request.ticket.request_id,
            frozenset(request.stop_ids),
            request.max_tokens,
            prompt_tokens=len(request.prompt_ids),
        )
        return _Job(
            request,
            SessionKey(request.cache_salt, request.ticket.session_id),
            _position_keys(request),
            Sampler(request.sampling, prompt_ids=request.prompt_ids),
            delivery,
        )

    def _run(self, job: _Job) -> Iterator[TokenDelta | None]:
        prompt_tokens = len(job.request.prompt_ids)
        job.cache = self._open_cache(job)
        start, chunk = job.cache.length, self.chunk_tokens
        job.delivery.cached_tokens = start
        while start + chunk < prompt_tokens:
            self._prefill(job, start, start + chunk)
            yield None
            start += chunk
        first = self._prefill(job, start, prompt_tokens)
        assert first is not None
        yield from job.delivery.run([first], partial(self._advance, job))

    @torch.inference_mode()
    def _open_cache(self, job: _Job) -> KvCache:
        reused = self._sessions.take(job.key, tuple(job.positions))
        if reused is not None:
            return reused
        return self._model.new_cache(len(job.request.prompt_ids) + _CHUNK_GRAIN)

    @torch.inference_mode()
    def _prefill(self, job: _Job, start: int, end: int) -> Choice | None:
        """Runs prompt positions start..end; chooses an id if they end the prompt."""
        assert job.cache is not None
        request = job.request
        hidden = self._model.embed(torch.tensor([request.prompt_ids[start:end]]))
        for span in request.spans:
            _put_span(hidden[0], span, start)
        is_last = end == len(request.prompt_ids)
        logits: Tensor = self._model(hidden, job.cache, end - start - is_last)
        return job.sampler.choose(logits[0, 0]) if is_last else None

    @torch.inference_mode()
    def _advance(self, job: _Job, token: int) -> Choice:
        assert job.cache is not None
        job.positions.append(token)
        logits: Tensor = self._model(self._model.embed(torch.tensor([[token]])), job.cache)
        return job.sampler.choose(logits[0, 0])


def _position_keys(request: GenerateRequest) -> list[PositionKey]:
    keys: list[PositionKey] = list(request.prompt_ids)
    for span in request.spans:
        for offset in range(len(span.embeddings)):
            keys[span.position + offset] = (span.content_hash, offset)
    return keys


def _put_span(hidden: Tensor, span: EmbeddingSpan, start: int) -> None:
    """Overwrites the part of a chunk, (n, width) from prompt index `start`, that a span has."""
    first = max(span.position, start)
    end = min(span.position + len(span.embeddings), start + hidden.shape[0])
    if first < end:
        part = span.embeddings[first - span.position : end - span.position]
        hidden[first - start : end - start] = torch.from_numpy(part.copy()).to(hidden.dtype)
