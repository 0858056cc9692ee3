"""Every session is leased: without a sign of life from its client it is given back."""

from collections.abc import Callable

from streams.clock import Clock
from streams.config import SessionLimits
from streams.errors import SessionErrorCode
from streams.events import SessionClosed
from streams.outbox import Outbox

LOOK_S = 0.1
"""How often the lease is looked at; the time-outs are seconds."""


class Lease:
    """Says when a session has to end, and why."""

    def __init__(self, limits: SessionLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._began_s = clock.now_s()
        self._renewed_s = self._began_s
        self._ending: SessionClosed | None = None

    def renew(self) -> None:
        """Takes an event of the client as a sign of life."""
        self._renewed_s = self._clock.now_s()

    def end(self, code: SessionErrorCode, message: str) -> None:
        """Ends the lease from outside."""
        self._ending = self._ending or SessionClosed(code, message)

    async def watch(self, outbox: Outbox, is_audible: Callable[[], bool]) -> SessionClosed:
        """Waits until the lease is over and returns the reason.

        Args:
            outbox: tells whether the client still reads.
            is_audible: whether a reply is being made or heard; who listens is not idle.
        """
        while True:
            if is_audible():
                self.renew()
            closed = self._verdict(outbox.stalled_s())
            if closed is not None:
                return closed
            await self._clock.sleep(LOOK_S)

    def _verdict(self, stalled_s: float) -> SessionClosed | None:
        limits, now_s = self._limits, self._clock.now_s()
        if self._ending is not None:
            return self._ending
        if stalled_s >= limits.slow_consumer_s:
            message = f"the client has read nothing for {limits.slow_consumer_s:g} s"
            return SessionClosed(SessionErrorCode.SLOW_CONSUMER, message)
        if now_s - self._began_s >= limits.max_session_s:
            message = f"the session has reached its longest life of {limits.max_session_s:g} s"
            return SessionClosed(SessionErrorCode.EXPIRED, message)
        if now_s - self._renewed_s >= limits.idle_timeout_s:
            message = f"no event from the client for {limits.idle_timeout_s:g} s"
            return SessionClosed(SessionErrorCode.IDLE, message)
        return None
