"""What all WebSocket doors share: refusing an upgrade, and moving frames both ways.

A codec (`RealtimeProtocol`, `TwilioProtocol`) translates and a session works; between them
there are two tasks for each socket, a reader and a writer, both ended and awaited before
`exchange` returns. Both may send, one frame at a time: an answer to a frame that was
refused is sent by the reader, so a client that does not read its errors is not read either.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any, Protocol

from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from protocols.auth import Access, origin_allowed
from protocols.errors import INTERNAL_CLOSE, Close, OriginNotAllowed, error_body, wire_error
from streams.errors import AntiphonError
from streams.events import SessionInput, SessionOutput
from streams.sessions import SessionHandle

log = logging.getLogger(__name__)

SEND_TIMEOUT_S = 30.0
"""A client whose socket takes no frame for this long is gone, whatever its kernel says."""

CLOSE_TIMEOUT_S = 5.0
"""A client that does not even take the close frame keeps no task of ours."""

Count = Callable[[str, int], None]
"""Takes the name of something thrown away and how much of it."""


class Codec(Protocol):
    """Is the pure half of a door."""

    @property
    def close(self) -> Close | None: ...

    @property
    def counters(self) -> dict[str, int]: ...

    def receive_text(self, data: str) -> list[SessionInput]: ...

    def receive_binary(self, data: bytes) -> list[SessionInput]: ...

    def receive_output(self, output: SessionOutput) -> None: ...

    def events_to_send(self) -> list[dict[str, Any]]: ...


class Gone(Exception):
    """Says that the client is no longer there."""


class Wire:
    """Moves frames between one socket and its codec.

    Attributes:
        client_ended: a frame of the client's made the codec close, so that nobody waits
            for what the session still has to say.
    """

    def __init__(self, socket: WebSocket, codec: Codec) -> None:
        self._socket = socket
        self._codec = codec
        self.client_ended = False
        self._gone = False
        self._turn = asyncio.Lock()  # the reader's answers and the writer's events take turns

    async def receive(self) -> list[SessionInput]:
        """Waits for a frame and returns what it means. Raises `Gone`."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            self._gone = True
            raise Gone
        was_open = self._codec.close is None
        text = message.get("text")
        if text is not None:
            inputs = self._codec.receive_text(text)
        else:
            inputs = self._codec.receive_binary(message.get("bytes") or b"")
        self.client_ended = was_open and self._codec.close is not None
        return inputs

    async def flush(self) -> None:
        """Sends what the codec has ready; does not wait where that is nothing.

        Raises:
            Gone: the client is not there.
        """
        events = self._codec.events_to_send()
        if not events:
            return  # a reader with nothing to answer must not wait for the writer's turn
        async with self._turn:
            for event in events:
                await self._send(json.dumps(event, separators=(",", ":")))

    async def end(self, close: Close) -> None:
        """Closes the socket, if the client has not."""
        if self._gone:
            return
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._socket.close(close.code, close.reason)
        except (WebSocketDisconnect, OSError, RuntimeError, TimeoutError):
            log.debug("the client left while its socket was being closed")

    async def _send(self, text: str) -> None:
        if self._gone:
            raise Gone
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await self._socket.send_text(text)
        except (WebSocketDisconnect, OSError, RuntimeError, TimeoutError) as error:
            # RuntimeError is what servers raise where the close frame was quicker.
            self._gone = True
            raise Gone from error


async def exchange(wire: Wire, codec: Codec, handle: SessionHandle, count: Count) -> None:
    """Runs a socket and its session until either ends; both are freed on return."""
    failed = False
    try:
        async with asyncio.TaskGroup() as group:
            tasks = {group.create_task(_read(wire, handle))}
            tasks.add(group.create_task(_write(wire, codec, handle)))
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
    except* Gone:
        pass
    except* Exception:
        log.exception("a socket's exchange failed")
        failed = True
    finally:
        await handle.close()
        for name, amount in codec.counters.items():
            if amount:
                count(name, amount)
    broken = Close(INTERNAL_CLOSE, "The server failed.")
    await wire.end(broken if failed else codec.close or Close())


async def turn_away(wire: Wire, codec: Codec) -> None:
    """Sends what a codec has to say where no session was opened, and closes."""
    try:
        await wire.flush()
    except Gone:
        return
    await wire.end(codec.close or Close())


async def from_allowed_page(socket: WebSocket, access: Access) -> bool:
    """Returns whether the upgrade comes from a page that may call; else it is refused."""
    origin = socket.headers.get("origin")
    if origin_allowed(origin, access.origins):
        return True
    error = OriginNotAllowed(f"Pages of '{origin}' may not connect; configure their origin.")
    await deny(socket, error)
    return False


async def deny(socket: WebSocket, error: AntiphonError, status: int | None = None) -> None:
    """Answers an upgrade by an HTTP error, with the status of its kind or the given one."""
    status = wire_error(error).http_status if status is None else status
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if "websocket.http.response" in socket.scope.get("extensions", {}):
        response = JSONResponse(error_body(error), status, headers=headers)
        await socket.send_denial_response(response)
    else:
        await socket.close()  # the server then answers 403


async def _read(wire: Wire, handle: SessionHandle) -> None:
    while not wire.client_ended:
        for event in await wire.receive():
            await handle.send(event)
        await wire.flush()


async def _write(wire: Wire, codec: Codec, handle: SessionHandle) -> None:
    async for output in handle.outputs():
        codec.receive_output(output)
        await wire.flush()
