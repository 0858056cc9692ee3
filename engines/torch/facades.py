"""The protocols of `engines.base`, spoken over a connection to the engine host."""

import itertools
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engines.base import (
    Capabilities,
    EngineStats,
    FinishReason,
    GenerateRequest,
    ReleaseRequest,
    Samples,
    SpeechRequest,
    Ticket,
    TokenDelta,
    WaveformRequest,
)
from engines.errors import EngineFailed, Timeout
from engines.torch.messages import Playout, VadClose, VadOpen, VadPush
from engines.torch.step_engine import Request

logger = logging.getLogger(__name__)

_VAD_DUE_S = 0.05  # a barge-in is noticed no later than the next few chunks
_VAD_TIMEOUT_S = 10.0


class Link(Protocol):
    """Is what a facade needs of the connection."""

    def capabilities(self, name: str) -> Capabilities: ...

    def stats(self, name: str) -> EngineStats: ...

    def stream(self, engine: str, request: Request) -> AsyncGenerator[object, None]: ...

    async def call(self, engine: str, request: Request) -> object: ...

    def tell(self, message: Playout) -> None: ...

    async def abort(self, engine: str, request_id: str) -> None: ...


class _Facade:
    def __init__(self, link: Link, name: str) -> None:
        self._link = link
        self._name = name

    @property
    def capabilities(self) -> Capabilities:
        return self._link.capabilities(self._name)

    def stats(self) -> EngineStats:
        return self._link.stats(self._name)


class _DeltaFacade(_Facade):
    def __init__(self, link: Link, name: str) -> None:
        super().__init__(link, name)
        self._running: set[str] = set()

    async def abort(self, request_id: str) -> None:
        """Ends a request and returns once it is gone; does nothing if it is not running."""
        await self._link.abort(self._name, request_id)

    async def close(self) -> None:
        """Ends what was started here; the engine itself belongs to the host."""
        for request_id in tuple(self._running):
            await self.abort(request_id)

    async def _deltas(self, request: Request) -> AsyncGenerator[TokenDelta, None]:
        """Yields deltas; after somebody else's abort the last one says `ABORTED`."""
        request_id = request.ticket.request_id
        finish: FinishReason | None = None
        self._running.add(request_id)
        try:
            async with aclosing(self._link.stream(self._name, request)) as payloads:
                async for payload in payloads:
                    if not isinstance(payload, TokenDelta):
                        raise EngineFailed(f"The engine {self._name} made no token delta.")
                    finish = payload.finish
                    yield payload
        finally:
            self._running.discard(request_id)
        if finish is None:
            yield TokenDelta(request_id, finish=FinishReason.ABORTED)


class TokenFacade(_DeltaFacade):
    """Is a `TokenEngine` in the host."""

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenDelta, None]:
        """Yields deltas until one has `finish`; closing the generator aborts the request."""
        async with aclosing(self._deltas(request)) as deltas:
            async for delta in deltas:
                yield delta

    async def release(self, request: ReleaseRequest) -> None:
        """Frees the session's caches; returns once they are gone."""
        await self._link.call(self._name, request)

    async def playout(self, request_id: str, routed_s: float, paused_s: float) -> None:
        """Tells how far a paced request's audio has got; ignored once it has ended."""
        self._link.tell(Playout(self._name, request_id, routed_s, paused_s))


class TranscribeFacade(_DeltaFacade):
    """Is a `Seq2SeqEngine` in the host."""

    async def transcribe(self, request: SpeechRequest) -> AsyncGenerator[TokenDelta, None]:
        """Yields deltas until one has `finish`; closing the generator aborts the request."""
        async with aclosing(self._deltas(request)) as deltas:
            async for delta in deltas:
                yield delta


class VadFacade(_Facade):
    """Is a `VoiceActivityEngine` in the host, where the state of the streams lives."""

    def __init__(self, link: Link, name: str) -> None:
        super().__init__(link, name)
        self._numbers = itertools.count()

    async def open(self, ticket: Ticket) -> str:
        """Starts a stream and returns its id, which is the ticket's request id."""
        return str(await self._link.call(self._name, VadOpen(ticket)))

    async def push(self, stream_id: str, samples: Samples) -> NDArray[np.float32]:
        """Returns speech probabilities, shape (chunks,), for samples (chunks * 512,).

        Pushes of one stream are answered in order, also if several wait.

        Raises:
            BadRequest: the samples are not one or more whole chunks.
            NotFound: the stream is closed, or was not pushed for longer than its lease.
        """
        request = VadPush(self._ticket(stream_id), stream_id, samples)
        return np.asarray(await self._link.call(self._name, request), dtype=np.float32)

    async def close(self, stream_id: str) -> None:
        """Frees the stream's state; does nothing for an unknown id or in a host gone down."""
        try:
            await self._link.call(self._name, VadClose(self._ticket(stream_id), stream_id))
        except (EngineFailed, Timeout) as error:  # called in cleanup; the lease ends it anyway
            logger.warning("stream %s could not be closed: %s", stream_id, error)

    def _ticket(self, stream_id: str) -> Ticket:
        request_id = f"{stream_id}#{next(self._numbers)}"
        return Ticket(request_id, due_in_s=_VAD_DUE_S, timeout_s=_VAD_TIMEOUT_S)


class WaveformFacade(_Facade):
    """Is a `WaveformEngine` in the host."""

    @property
    def sample_rate_hz(self) -> int:
        return self.capabilities.sample_rate_hz

    async def synthesize(self, request: WaveformRequest) -> Samples:
        """Returns the utterance at `sample_rate_hz`. Cancelling the await aborts it."""
        return np.asarray(await self._link.call(self._name, request), dtype=np.float32)
