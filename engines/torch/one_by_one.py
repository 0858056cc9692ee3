"""Runs any `RequestRunner` as a step engine: every step advances one request.

There is no batch here. Concurrent requests interleave step by step, most urgent first.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from engines.base import Capabilities, EngineStats, Ticket, Tier, TokenDelta
from engines.errors import AntiphonError, BadRequest, EngineFailed, Overloaded, Timeout
from engines.torch.step_engine import Output, Request, RequestRunner, StepEngine, Urgency

logger = logging.getLogger(__name__)

_END = object()


@dataclass(slots=True)
class _Work:
    """Is one admitted request: its generator, when it is due and when it is useless."""

    ticket: Ticket
    steps: Iterator[object | None]
    due_s: float
    ends_s: float

    def urgency(self) -> Urgency:
        return Urgency(self.ticket.tier is Tier.BATCH, self.due_s)

    def rank(self) -> tuple[Urgency, Tier]:
        return self.urgency(), self.ticket.tier


class OneByOneEngine(StepEngine):
    """Holds one generator per request.

    Args:
        runner: turns a request into a generator of bounded steps.
        max_running: requests held at once; one more is refused with `Overloaded`.
    """

    def __init__(self, runner: RequestRunner, max_running: int) -> None:
        self._runner = runner
        self._max_running = max_running
        self._works: dict[str, _Work] = {}
        self._tokens = 0
        self._finished = 0
        self._aborted = 0
        self._failed = 0

    @property
    def capabilities(self) -> Capabilities:
        return self._runner.capabilities

    def add(self, request: Request, now_s: float) -> None:
        """Takes a request in. Raises `BadRequest` or `Overloaded`; then nothing is kept."""
        ticket = request.ticket
        self._runner.check(request)
        if ticket.request_id in self._works:
            raise BadRequest(f"Request {ticket.request_id} is already running.")
        if len(self._works) >= self._max_running:
            raise Overloaded(f"{self.capabilities.name} runs {self._max_running} requests already.")
        self._works[ticket.request_id] = _Work(
            ticket, self._runner.run(request), now_s + ticket.due_in_s, now_s + ticket.timeout_s
        )

    def abort(self, request_id: str) -> bool:
        """Closes the generator of a request, which frees its cache; False if unknown."""
        if request_id not in self._works:
            return False
        self._aborted += 1
        self._drop(request_id)
        return True

    def urgency(self, now_s: float) -> Urgency | None:
        """Says when the most urgent request is due; None if there is none."""
        return min((work.urgency() for work in self._works.values()), default=None)

    def step(self, now_s: float) -> list[Output]:
        """Advances the most urgent request by one `next()`.

        A request that delivered is due again `due_in_s` later, so that a long reply keeps
        its rhythm beside short ones; so is one that is late, or its many steps would hold
        up everybody else's. A payload that is no `TokenDelta` is the whole result.
        """
        if not self._works:
            return []
        work = min(self._works.values(), key=_Work.rank)
        request_id = work.ticket.request_id
        try:
            payload = next(work.steps, _END)
        except AntiphonError as error:
            return [self._fail(request_id, error)]
        except Exception:
            logger.exception("request %s of %s failed", request_id, self.capabilities.name)
            return [self._fail(request_id, EngineFailed(f"{self.capabilities.name} failed."))]
        if payload is _END:
            return [self._finish(request_id, None)]
        if payload is not None or work.due_s < now_s:
            work.due_s = now_s + work.ticket.due_in_s
        if payload is None:
            return []
        if not isinstance(payload, TokenDelta):
            return [self._finish(request_id, payload)]
        self._tokens += len(payload.ids)
        if payload.finish is not None:
            return [self._finish(request_id, payload)]
        return [Output(request_id, payload)]

    def expire(self, now_s: float) -> list[Output]:
        """Ends requests that are past their time with `Timeout`."""
        late = [name for name, work in self._works.items() if now_s >= work.ends_s]
        return [self._fail(name, Timeout("The request was not done in time.")) for name in late]

    def stats(self) -> EngineStats:
        return EngineStats(
            running=len(self._works),
            tokens=self._tokens,
            finished=self._finished,
            aborted=self._aborted,
            failed=self._failed,
            cache_bytes=self._runner.cache_bytes(),
        )

    def _finish(self, request_id: str, payload: object | None) -> Output:
        self._finished += 1
        self._drop(request_id)
        return Output(request_id, payload, last=True)

    def _fail(self, request_id: str, error: AntiphonError) -> Output:
        self._failed += 1
        self._drop(request_id)
        # A traceback would keep the request's frames, and with them its cache, alive for
        # as long as anyone holds the error.
        error.__traceback__ = error.__cause__ = error.__context__ = None
        return Output(request_id, last=True, error=error)

    def _drop(self, request_id: str) -> None:
        steps = self._works.pop(request_id).steps
        close = getattr(steps, "close", None)
        if close is None:
            return
        try:
            close()
        except Exception:
            logger.exception("request %s failed while it was closed", request_id)
