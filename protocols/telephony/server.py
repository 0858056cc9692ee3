"""The door for telephone networks: Twilio Media Streams over WebSocket.

Nothing of an engine is touched before the call has proved itself: by the signature of its
upgrade, by the token in its `start` message, or, where neither is configured, by an API
key (which is not asked for while the server is open on loopback).
"""

import asyncio

from starlette.websockets import WebSocket

from protocols.auth import Access, Principal, credentials
from protocols.telephony.signature import valid_signature
from protocols.telephony.twilio import TwilioProtocol, TwilioSettings
from protocols.websocket.server import (
    Count,
    Gone,
    Wire,
    deny,
    exchange,
    from_allowed_page,
    turn_away,
)
from streams.errors import AntiphonError, Overloaded, Unauthorized
from streams.sessions import SessionFactory


class TwilioDoor:
    """Serves Twilio sockets.

    Args:
        factory: opens the sessions.
        settings: the operator's.
        access: who may come in where no Twilio secret is configured.
        count: told what was thrown away.
    """

    def __init__(
        self, factory: SessionFactory, settings: TwilioSettings, access: Access, *, count: Count
    ) -> None:
        self._factory = factory
        self._settings = settings
        self._access = access
        self._count = count
        self._waiting = 0  # sockets that have not sent `start` yet

    async def serve(self, socket: WebSocket) -> None:
        """Serves one socket from its upgrade to its close."""
        principal = await self._admit(socket)
        if principal is None:
            return
        codec = TwilioProtocol(self._settings)
        wire = Wire(socket, codec)
        self._waiting += 1
        try:
            await socket.accept()
            await self._await_start(wire, codec)
        except Gone:
            return
        finally:
            self._waiting -= 1
        if codec.call is None:
            await turn_away(wire, codec)
            return
        await self._talk(wire, codec, principal)

    async def _admit(self, socket: WebSocket) -> Principal | None:
        if not await from_allowed_page(socket, self._access):
            return None
        try:
            principal = self._identify(socket)
        except Unauthorized as error:
            await deny(socket, error, status=403 if self._settings.is_guarded else 401)
            return None
        if self._waiting >= self._settings.max_waiting:
            await deny(socket, Overloaded("Too many calls are being set up."), status=503)
            return None
        return principal

    def _identify(self, socket: WebSocket) -> Principal:
        settings = self._settings
        if not settings.is_guarded:
            offered = credentials(socket.headers.get("authorization"))
            return self._access.keys.identify(offered.key)
        if settings.auth_token is not None:
            signature = socket.headers.get("x-twilio-signature", "")
            url = settings.public_url or _asked_url(socket)
            if not valid_signature(settings.auth_token, url, signature):
                raise Unauthorized("The signature of the upgrade request is not valid.")
        return Principal("twilio", settings.tier)

    async def _await_start(self, wire: Wire, codec: TwilioProtocol) -> None:
        try:
            async with asyncio.timeout(self._settings.start_timeout_s):
                while codec.call is None and codec.close is None:
                    await wire.receive()
        except TimeoutError:
            codec.time_out()

    async def _talk(self, wire: Wire, codec: TwilioProtocol, principal: Principal) -> None:
        try:
            handle = await self._factory.open(
                codec.config(),
                protocol="twilio",
                tenant=principal.name,
                tier=principal.tier,
                telephony=True,
            )
        except AntiphonError as error:
            codec.refuse(error)
            await turn_away(wire, codec)
            return
        await exchange(wire, codec, handle, self._count)


def _asked_url(socket: WebSocket) -> str:
    """Returns the URL that the provider asked for, seen through a TLS proxy."""
    forwarded = socket.headers.get("x-forwarded-host", "").partition(",")[0].strip()
    host = forwarded or socket.headers.get("host", "")
    query = f"?{socket.url.query}" if socket.url.query else ""
    return f"wss://{host}{socket.url.path}{query}"
