"""Small engines at the border: runners whose steps a test writes down."""

import asyncio
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field

from engines.base import Capabilities, EngineStats, FinishReason, Ticket, TokenDelta
from engines.errors import BadRequest
from engines.torch.step_engine import Output, Request, StepEngine, Urgency


@dataclass(frozen=True, slots=True)
class Ask:
    """Is a request with nothing but a ticket."""

    ticket: Ticket


def ask(request_id: str, due_in_s: float = 1.0, timeout_s: float = 30.0) -> Ask:
    return Ask(Ticket(request_id, due_in_s=due_in_s, timeout_s=timeout_s))


async def until(condition: Callable[[], object]) -> None:
    """Returns once something holds on the host's thread, which no asyncio event can tell."""
    async with asyncio.timeout(20.0):
        while not condition():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.001)


Script = Callable[[Request], Generator[object | None, None, None]]


@dataclass
class ScriptedRunner:
    """Runs a script per request and keeps count of the generators that are alive.

    Attributes:
        script: makes the steps of a request.
        alive: ids of generators started and neither exhausted nor closed.
        stepped: request ids in the order in which their steps ran.
    """

    script: Script
    name: str = "scripted"
    alive: set[str] = field(default_factory=set)
    stepped: list[str] = field(default_factory=list)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(name=self.name, max_context=64)

    def check(self, request: Request) -> None:
        if request.ticket.request_id == "malformed":
            raise BadRequest("malformed on purpose")

    def run(self, request: Request) -> Iterator[object | None]:
        request_id = request.ticket.request_id
        self.alive.add(request_id)
        try:
            with closing(self.script(request)) as steps:
                for payload in steps:
                    self.stepped.append(request_id)
                    yield payload
        finally:
            self.alive.discard(request_id)

    def cache_bytes(self) -> int:
        return 100 * len(self.alive)


def counting(count: int, finish: bool = True) -> Script:
    """Delivers the ids 0..count-1, one a step, the last one with `finish`."""

    def script(request: Request) -> Generator[object | None, None, None]:
        request_id = request.ticket.request_id
        for number in range(count):
            last = finish and number == count - 1
            yield TokenDelta(request_id, (number,), finish=FinishReason.STOP if last else None)

    return script


def endless(request: Request) -> Generator[object | None, None, None]:
    """Delivers one id a step for ever."""
    while True:
        yield TokenDelta(request.ticket.request_id, (7,))


def silent(request: Request) -> Generator[object | None, None, None]:
    """Works for ever and delivers nothing."""
    while True:
        yield None


def gated(gate: threading.Event) -> Script:
    """Holds its only step until the gate opens, then delivers one id."""

    def script(request: Request) -> Generator[object | None, None, None]:
        assert gate.wait(20.0)
        yield TokenDelta(request.ticket.request_id, (1,), finish=FinishReason.STOP)

    return script


class BrokenEngine(StepEngine):
    """Takes requests and raises in every step."""

    capabilities = Capabilities(name="broken")

    def __init__(self) -> None:
        self.held: set[str] = set()

    def add(self, request: Request, now_s: float) -> None:
        self.held.add(request.ticket.request_id)

    def abort(self, request_id: str) -> bool:
        known = request_id in self.held
        self.held.discard(request_id)
        return known

    def urgency(self, now_s: float) -> Urgency | None:
        return Urgency(False, 0.0) if self.held else None

    def step(self, now_s: float) -> list[Output]:
        raise RuntimeError("broken on purpose")

    def expire(self, now_s: float) -> list[Output]:
        return []

    def stats(self) -> EngineStats:
        return EngineStats(running=len(self.held))
