"""All sessions of the server: opened through admission, ended together at a drain."""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Protocol

from streams.admission import Admission, AdmissionConfig
from streams.config import SessionConfig, Tier
from streams.context import CURRENT_SESSION, Identity, Services
from streams.errors import Overloaded, SessionErrorCode
from streams.events import SessionClosed, SessionInput, SessionOutput
from streams.session import Session

log = logging.getLogger(__name__)

TELEPHONY_AHEAD_S = 0.2
"""Audio handed to a telephone network ahead of playback, where it cannot be taken back."""

DRAIN_LOOK_S = 0.05

CLOSE_TIMEOUT_S = 10.0
"""A session that still gives things back after this long is cancelled once more."""


class SessionHandle(Protocol):
    """Is what a protocol's shell holds of a session."""

    async def send(self, event: SessionInput) -> None:
        """Gives an event to the session; waits while it has too many."""
        ...

    def outputs(self) -> AsyncIterator[SessionOutput]:
        """Yields what goes to the client; ends after `SessionClosed`."""
        ...

    async def close(self) -> None:
        """Says that the client is gone; returns once everything is freed."""
        ...


class SessionFactory(Protocol):
    """Opens sessions for the protocols."""

    async def open(
        self,
        config: SessionConfig,
        *,
        protocol: str,
        tenant: str,
        tier: Tier,
        telephony: bool = False,
    ) -> SessionHandle:
        """Opens a session.

        Args:
            config: what it begins with.
            protocol: by which door the client came, for logs and metrics.
            tenant: whose key it was.
            tier: what that key pays for.
            telephony: the transport plays what it gets at once, so audio is paced.

        Raises:
            Overloaded: there is no room for this tier.
        """
        ...


class RunningSession:
    """Is a session together with the task that it runs in."""

    def __init__(self, session: Session, task: "asyncio.Task[SessionClosed]") -> None:
        self._session = session
        self._task = task

    async def send(self, event: SessionInput) -> None:
        """Gives an event to the session."""
        await self._session.send(event)

    def outputs(self) -> AsyncIterator[SessionOutput]:
        """Yields what goes to the client."""
        return self._session.outputs()

    def end(self, code: SessionErrorCode, message: str) -> None:
        """Asks the session to close with a reason that the client is told."""
        self._session.end(code, message)

    async def close(self) -> None:
        """Ends the session at once and waits until it has given everything back."""
        if not self._session.is_ending:
            self._task.cancel()
        done, _ = await asyncio.wait({self._task}, timeout=CLOSE_TIMEOUT_S)
        if not done:
            log.error("session %s did not end by itself", self._session.session_id)
            self._task.cancel()
            await asyncio.wait({self._task})


class SessionManager:
    """Implements `SessionFactory` over the server's pipelines."""

    def __init__(self, services: Services, admission: AdmissionConfig) -> None:
        self._services = services
        self._admission = Admission(admission)
        self._running: dict[str, RunningSession] = {}

    @property
    def open_sessions(self) -> int:
        """How many sessions are open."""
        return self._admission.open_sessions

    @property
    def has_room(self) -> bool:
        """Whether another session would be let in."""
        return self._admission.has_room

    async def open(
        self,
        config: SessionConfig,
        *,
        protocol: str,
        tenant: str,
        tier: Tier,
        telephony: bool = False,
    ) -> RunningSession:
        """Opens a session. Raises `Overloaded` when there is no room for this tier."""
        session_id = f"sess_{uuid.uuid4().hex[:20]}"
        try:
            self._admission.admit(session_id, tier)
        except Overloaded as overloaded:
            self._services.observer.session_refused("overloaded")
            log.info("refused a session for %s: %s", tenant, overloaded.message)
            raise
        identity = Identity(session_id, tenant, tier, protocol)
        session = Session(identity, config, self._services_for(telephony=telephony))
        self._services.observer.session_opened(protocol)
        task = asyncio.create_task(self._run(session), name=session_id)
        running = RunningSession(session, task)
        self._running[session_id] = running
        task.add_done_callback(lambda ended: self._ended(identity, ended))
        return running

    def shut(self) -> None:
        """Lets nobody in any more; who is in stays."""
        self._admission.drain()

    async def drain(self, patience_s: float) -> None:
        """Lets nobody in, gives the sessions time to end, and then ends them."""
        self.shut()
        deadline_s = self._services.clock.now_s() + patience_s
        while self._running and self._services.clock.now_s() < deadline_s:
            await self._services.clock.sleep(DRAIN_LOOK_S)
        for running in list(self._running.values()):
            running.end(SessionErrorCode.DRAINING, "the server is going down for maintenance")
        await self._services.clock.sleep(2 * DRAIN_LOOK_S if self._running else 0)
        while self._running and self._services.clock.now_s() < deadline_s + 1.0:
            await self._services.clock.sleep(DRAIN_LOOK_S)
        await asyncio.gather(*(running.close() for running in list(self._running.values())))

    async def _run(self, session: Session) -> SessionClosed:
        CURRENT_SESSION.set(session.session_id)  # of this task and of all that it starts
        return await session.run()

    def _ended(self, identity: Identity, task: "asyncio.Task[SessionClosed]") -> None:
        """Gives the place back; also of a session that was cancelled before it began."""
        self._running.pop(identity.session_id, None)
        self._admission.release(identity.session_id)
        code = "disconnected"
        if not task.cancelled() and task.exception() is None:
            closed = task.result()
            code = str(closed.code) if closed.code else "ok"
        self._services.observer.session_closed(identity.protocol, code)
        log.info("session %s of %s ended: %s", identity.session_id, identity.tenant, code)

    def _services_for(self, *, telephony: bool) -> Services:
        if not telephony:
            return self._services
        limits = replace(self._services.limits, route_ahead_s=TELEPHONY_AHEAD_S)
        return replace(self._services, limits=limits)
