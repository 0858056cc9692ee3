"""What the engine host asks of everything that it runs: bounded steps, one at a time.

All methods are called on the host's thread only, and none of them waits. A step is short
(about 50 ms on a CPU wherever the work can be cut), because nothing else runs meanwhile.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from engines.base import Capabilities, EngineStats, Ticket
from engines.errors import AntiphonError


class Request(Protocol):
    """Is any message that carries a ticket."""

    @property
    def ticket(self) -> Ticket: ...


@dataclass(frozen=True, slots=True)
class Output:
    """Is one result of a step for one request.

    Attributes:
        request_id: whose it is.
        payload: a delta, samples or scores; None where only the end is told.
        last: nothing more comes for this request.
        error: why the request failed; implies `last`.
    """

    request_id: str
    payload: object | None = None
    last: bool = False
    error: AntiphonError | None = None


@dataclass(frozen=True, slots=True, order=True)
class Urgency:
    """Orders waiting steps: batch work after all else, then by the time they are due."""

    is_batch: bool
    due_s: float


class StepEngine(Protocol):
    """Owns its requests and advances them by bounded steps.

    What has a body here suits an engine without paced streams and without a cache that
    outlives its requests; such engines inherit it.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    def add(self, request: Request, now_s: float) -> None:
        """Takes a request in. Raises `BadRequest` or `Overloaded`; then nothing is kept."""
        ...

    def abort(self, request_id: str) -> bool:
        """Drops a request and frees what it held; False if it is not here."""
        ...

    def playout(self, request_id: str, routed_s: float, paused_s: float, now_s: float) -> None:
        """Takes note of what the listener of a paced stream has got; ignores other ids."""
        return

    def urgency(self, now_s: float) -> Urgency | None:
        """Says how urgent the most urgent waiting step is; None if there is nothing to do."""
        ...

    def wakes_s(self, now_s: float) -> float | None:
        """Says when `urgency` will change though no message comes; None if it will not."""
        return None

    def step(self, now_s: float) -> list[Output]:
        """Runs the most urgent step and returns what came out of it."""
        ...

    def expire(self, now_s: float) -> list[Output]:
        """Ends what has run out of time: requests with `Timeout`, leases without a word."""
        ...

    def restart(self) -> None:
        """Drops all state but weights and figures; called after `step` or `expire` raised."""
        return

    def stats(self) -> EngineStats:
        """Counts the work; `steps` and `busy_s` are the host's, which holds the clock."""
        ...


class RequestRunner(Protocol):
    """Runs one request from start to end as a generator of bounded steps.

    Each `next()` is one step; a yielded None means that the step delivered nothing yet.
    Closing the generator frees all that the request held.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    def check(self, request: Request) -> None:
        """Raises `BadRequest` if the request can never run."""
        ...

    def run(self, request: Request) -> Iterator[object | None]: ...

    def cache_bytes(self) -> int:
        """Returns the bytes of per-request state held now."""
        ...
