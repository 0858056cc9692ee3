"""Voice activity detection for all sessions at once: one forward scores every stream.

The state of a stream lives here, in one row of three tensors. A stream is a lease: if
nobody pushes for a while, it is taken back.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch

from engines.base import Capabilities, EngineStats, Ticket, Tier
from engines.errors import AntiphonError, BadRequest, NotFound, Overloaded, Timeout
from engines.torch.messages import VadClose, VadOpen, VadPush
from engines.torch.models.silero_vad import CHUNK_SAMPLES, SileroVad, VadState
from engines.torch.step_engine import Output, Request, StepEngine, Urgency

# Rows times rounds of one step. 64 rows once, or one row 64 times: 1 to 8 ms on one core.
_CHUNKS_PER_STEP = 64


@dataclass(slots=True)
class _Push:
    """Is a push that waits or is half done.

    Attributes:
        chunks: shape (chunks, 512).
        scores: probabilities of the chunks done so far.
    """

    request_id: str
    chunks: torch.Tensor
    due_s: float
    ends_s: float
    scores: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _Stream:
    """Is one lease: its row in the state tensors and the pushes that wait, in order."""

    ticket: Ticket
    row: int
    lease_ends_s: float
    pushes: deque[_Push] = field(default_factory=deque)

    def urgency(self) -> Urgency:
        return Urgency(self.ticket.tier is Tier.BATCH, self.pushes[0].due_s)


class VadEngine(StepEngine):
    """Batches the waiting pushes of different streams; those of one stream run in order.

    Args:
        network: the loaded network.
        max_streams: streams open at once; one more is refused with `Overloaded`.
        lease_s: a stream that is not pushed for this long is closed. Shorter frees rows of
            clients that vanished sooner; longer keeps the state of clients that pause.
    """

    capabilities = Capabilities(name="silero-vad")

    def __init__(self, network: SileroVad, max_streams: int = 256, lease_s: float = 300.0) -> None:
        self._network = network
        self._lease_s = lease_s
        self._state = VadState.fresh(max_streams)
        self._free_rows = list(range(max_streams))
        self._streams: dict[str, _Stream] = {}
        self._answers: list[Output] = []
        self._finished = 0
        self._aborted = 0
        self._failed = 0

    def add(self, request: Request, now_s: float) -> None:
        """Takes a `VadOpen`, `VadPush` or `VadClose`; opening and closing work at once.

        Raises:
            BadRequest: not one of these, an id in use, or not whole chunks.
            NotFound: a push to a stream that is not open.
            Overloaded: all rows are taken.
        """
        match request:
            case VadOpen(ticket):
                self._open(ticket, now_s)
            case VadPush():
                self._push(request, now_s)
            case VadClose(ticket, stream_id):
                self._free(stream_id, NotFound(f"Stream {stream_id} was closed."))
                self._answer(ticket.request_id, stream_id)
            case _:
                raise BadRequest(f"{type(request).__name__} is not a request of this engine.")

    def abort(self, request_id: str) -> bool:
        """Drops a waiting push, or the stream that a `VadOpen` of this id has opened."""
        if request_id in self._streams:
            self._free(request_id, NotFound(f"Stream {request_id} was aborted."))
            self._aborted += 1
            return True
        for stream in self._streams.values():
            for push in stream.pushes:
                if push.request_id == request_id:
                    stream.pushes.remove(push)
                    self._aborted += 1
                    return True
        return False

    def urgency(self, now_s: float) -> Urgency | None:
        if self._answers:
            return Urgency(is_batch=False, due_s=0.0)  # they cost nothing
        return min((stream.urgency() for stream in self._ready()), default=None)

    def step(self, now_s: float) -> list[Output]:
        """Scores waiting chunks, most urgent streams first, up to the bound of a step."""
        budget = _CHUNKS_PER_STEP
        with _one_core():
            while budget > 0 and (batch := sorted(self._ready(), key=_Stream.urgency)[:budget]):
                self._advance(batch)
                budget -= len(batch)
        answers, self._answers = self._answers, []
        return answers

    def expire(self, now_s: float) -> list[Output]:
        """Takes leases back, and ends pushes that are past their time with `Timeout`."""
        for stream_id, stream in tuple(self._streams.items()):
            if now_s >= stream.lease_ends_s:
                self._free(stream_id, NotFound(f"The lease of stream {stream_id} has ended."))
            for push in [push for push in stream.pushes if now_s >= push.ends_s]:
                stream.pushes.remove(push)
                self._fail(push, Timeout("The samples were not scored in time."))
        answers, self._answers = self._answers, []
        return answers

    def stats(self) -> EngineStats:
        """Counts open streams as running and answered requests as finished."""
        row_bytes = sum(part[0].nbytes for part in self._state)
        return EngineStats(
            running=len(self._streams),
            finished=self._finished,
            aborted=self._aborted,
            failed=self._failed,
            cache_bytes=len(self._streams) * row_bytes,
        )

    # ------------------------------------------------------------ inside

    def _open(self, ticket: Ticket, now_s: float) -> None:
        if ticket.request_id in self._streams:
            raise BadRequest(f"Stream {ticket.request_id} is already open.")
        if not self._free_rows:
            raise Overloaded("All voice activity streams are taken.")
        row = self._free_rows.pop()
        for part in self._state:
            part[row] = 0.0
        self._streams[ticket.request_id] = _Stream(ticket, row, now_s + self._lease_s)
        self._answer(ticket.request_id, ticket.request_id)

    def _push(self, request: VadPush, now_s: float) -> None:
        samples, ticket = request.samples, request.ticket
        if samples.ndim != 1 or not samples.size or samples.size % CHUNK_SAMPLES:
            raise BadRequest(f"Samples must be one or more chunks of {CHUNK_SAMPLES}.")
        stream = self._streams.get(request.stream_id)
        if stream is None:
            raise NotFound(f"Stream {request.stream_id} is not open.")
        stream.lease_ends_s = now_s + self._lease_s
        # A copy: the sender may reuse its buffer, and torch wants a writable one.
        chunks = torch.tensor(samples, dtype=torch.float32).view(-1, CHUNK_SAMPLES)
        due_s, ends_s = now_s + ticket.due_in_s, now_s + ticket.timeout_s
        stream.pushes.append(_Push(ticket.request_id, chunks, due_s, ends_s))

    def _ready(self) -> Iterable[_Stream]:
        return (stream for stream in self._streams.values() if stream.pushes)

    def _advance(self, batch: list[_Stream]) -> None:
        """Scores the next chunk of each stream in one forward."""
        rows = torch.tensor([stream.row for stream in batch])
        chunks = torch.stack([_next_chunk(stream.pushes[0]) for stream in batch])
        before = VadState(*(part[rows] for part in self._state))
        scores, after = self._network(chunks, before)
        for part, fresh in zip(self._state, after, strict=True):
            part[rows] = fresh
        for stream, score in zip(batch, scores.tolist(), strict=True):
            push = stream.pushes[0]
            push.scores.append(score)
            if len(push.scores) == len(push.chunks):
                stream.pushes.popleft()
                self._answer(push.request_id, np.array(push.scores, dtype=np.float32))

    def _free(self, stream_id: str, reason: AntiphonError) -> None:
        stream = self._streams.pop(stream_id, None)
        if stream is None:
            return
        self._free_rows.append(stream.row)
        for push in stream.pushes:
            self._fail(push, type(reason)(reason.message))
        stream.pushes.clear()

    def _answer(self, request_id: str, payload: object) -> None:
        self._finished += 1
        self._answers.append(Output(request_id, payload, last=True))

    def _fail(self, push: _Push, error: AntiphonError) -> None:
        self._failed += 1
        self._answers.append(Output(push.request_id, last=True, error=error))


@contextmanager
def _one_core() -> Iterator[None]:
    """Keeps small products on the calling thread.

    A second core saves a fraction of a millisecond here. When other work holds that core,
    the barrier between the two waits for it: hundreds of milliseconds at the 99th percentile.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _next_chunk(push: _Push) -> torch.Tensor:
    return push.chunks[len(push.scores)]
