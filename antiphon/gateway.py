"""The door of the server: closed while it starts and drains, open in between.

Protocol servers run from the first moment and ask here for sessions, so that a client
who comes too early gets an answer and not a refused connection.
"""

from enum import StrEnum

from streams.config import SessionConfig, Tier
from streams.errors import Overloaded
from streams.sessions import RunningSession, SessionManager

STARTING_RETRY_S = 5.0


class GatewayState(StrEnum):
    """Says whether sessions can be had."""

    STARTING = "starting"
    READY = "ready"
    FULL = "full"
    DRAINING = "draining"


class Gateway:
    """Implements `streams.sessions.SessionFactory` over the life of the server."""

    def __init__(self) -> None:
        self._manager: SessionManager | None = None
        self._draining = False

    @property
    def state(self) -> GatewayState:
        """Whether the next session would be let in, and why not."""
        if self._draining:
            return GatewayState.DRAINING
        if self._manager is None:
            return GatewayState.STARTING
        return GatewayState.READY if self._manager.has_room else GatewayState.FULL

    @property
    def open_sessions(self) -> int:
        """How many sessions are open."""
        return self._manager.open_sessions if self._manager else 0

    def serve(self, manager: SessionManager) -> None:
        """Opens the door: every engine has run once."""
        self._manager = manager

    def close(self) -> None:
        """Closes it: the server is going down."""
        self._draining = True
        if self._manager is not None:
            self._manager.shut()

    async def open(
        self,
        config: SessionConfig,
        *,
        protocol: str,
        tenant: str,
        tier: Tier,
        telephony: bool = False,
    ) -> RunningSession:
        """Opens a session. Raises `Overloaded` while the server starts, drains or is full."""
        if self._manager is None:
            raise Overloaded("the server is starting", retry_after_s=STARTING_RETRY_S)
        return await self._manager.open(
            config, protocol=protocol, tenant=tenant, tier=tier, telephony=telephony
        )
