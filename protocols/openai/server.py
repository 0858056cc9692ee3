"""The door for OpenAI Realtime clients: `/v1/realtime` over WebSocket."""

import time
from collections.abc import Callable

from starlette.websockets import WebSocket

from protocols.auth import Access, Credentials, Principal, credentials
from protocols.openai.realtime import RealtimeProtocol
from protocols.openai.realtime_session import RealtimeSettings
from protocols.websocket.server import Count, Wire, deny, exchange, from_allowed_page, turn_away
from streams.errors import AntiphonError, Unauthorized
from streams.sessions import SessionFactory


class RealtimeDoor:
    """Serves realtime sockets.

    Args:
        factory: opens the sessions.
        settings: the operator's.
        access: who may come in.
        count: told what was thrown away.
        unix_time_s: the wall clock, from which `expires_at` is counted.
    """

    def __init__(
        self,
        factory: SessionFactory,
        settings: RealtimeSettings,
        access: Access,
        *,
        count: Count,
        unix_time_s: Callable[[], float] = time.time,
    ) -> None:
        self._factory = factory
        self._settings = settings
        self._access = access
        self._count = count
        self._unix_time_s = unix_time_s

    async def serve(self, socket: WebSocket) -> None:
        """Serves one socket from its upgrade to its close."""
        offered = credentials(
            socket.headers.get("authorization"), socket.scope.get("subprotocols", [])
        )
        principal = await self._admit(socket, offered)
        if principal is None:
            return
        codec = RealtimeProtocol(self._settings)
        config = codec.start(socket.query_params, self._unix_time_s())
        await socket.accept(subprotocol=offered.subprotocol)
        wire = Wire(socket, codec)
        try:
            handle = await self._factory.open(
                config, protocol="realtime", tenant=principal.name, tier=principal.tier
            )
        except AntiphonError as error:
            codec.refuse(error)
            await turn_away(wire, codec)
            return
        await exchange(wire, codec, handle, self._count)

    async def _admit(self, socket: WebSocket, offered: Credentials) -> Principal | None:
        if not await from_allowed_page(socket, self._access):
            return None
        try:
            return self._access.keys.identify(offered.key)
        except Unauthorized as error:
            await deny(socket, error)
            return None
