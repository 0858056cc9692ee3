"""The realtime door behind the real web server: what only TCP can show."""

import asyncio
import json
import socket as sockets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import numpy as np
import uvicorn
from starlette.applications import Starlette
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from protocols.auth import Access, KeyRing, Principal, allowed_origins
from protocols.server import REALTIME_PATH, ProtocolSettings, protocol_routes
from streams.config import ResponseOptions
from streams.events import (
    AudioDelta,
    CreateResponse,
    EndInput,
    Item,
    OutputStarted,
    ResponseStarted,
    Role,
    SessionClosed,
    SessionInput,
    SessionOutput,
)
from tests.protocols.scripted_sessions import ScriptedFactory

LONG_DELTAS = 60
SECOND = np.zeros(24_000, dtype=np.float32)


def ends(event: SessionInput) -> Iterable[SessionOutput]:
    """Ends at `EndInput`; a `CreateResponse` gets far more audio than a socket buffers."""
    if isinstance(event, CreateResponse):
        yield ResponseStarted("r1", ResponseOptions())
        yield OutputStarted("r1", Item("a1", Role.ASSISTANT), None)
        for number in range(LONG_DELTAS):
            yield AudioDelta("r1", "a1", SECOND, 24_000, number * len(SECOND))
        yield SessionClosed()
    if isinstance(event, EndInput):
        yield SessionClosed()


class Running:
    """Is a server on a free port of loopback."""

    def __init__(self, factory: ScriptedFactory, port: int) -> None:
        self.factory = factory
        self.url = f"ws://127.0.0.1:{port}{REALTIME_PATH}"

    async def call(self) -> ClientConnection:
        socket = await connect(self.url, max_size=None)
        assert json.loads(await socket.recv())["type"] == "session.created"
        return socket

    async def freed(self, index: int) -> None:
        async with asyncio.timeout(10):
            await self.factory.sessions[index].freed.wait()

    async def still_serves(self) -> None:
        socket = await self.call()
        await socket.send('{"type": "antiphon.input.end"}')
        await socket.wait_closed()
        assert socket.close_code == 1000


@asynccontextmanager
async def running(keys: dict[str, Principal] | None = None) -> AsyncIterator[Running]:
    factory = ScriptedFactory(ends)
    access = Access(KeyRing(keys or {}), allowed_origins("127.0.0.1", 0))
    routes = protocol_routes(factory, ProtocolSettings(access), lambda name, amount: None)
    listener = sockets.create_server(("127.0.0.1", 0))
    app = Starlette(routes=routes)
    config = uvicorn.Config(app, ws="websockets-sansio", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield Running(factory, listener.getsockname()[1])
    finally:
        server.should_exit = True
        await task


async def test_reset_connection_frees_its_session() -> None:
    async with running() as server:
        socket = await server.call()
        socket.transport.abort()
        await server.freed(0)
        await server.still_serves()


async def test_20_mb_frame_is_closed_1009_and_the_server_lives() -> None:
    async with running() as server:
        socket = await server.call()
        try:
            await socket.send("a" * 20_000_000)
            await socket.recv()
        except ConnectionClosedError:
            pass
        await socket.wait_closed()
        assert socket.close_code == 1009
        await server.freed(0)
        await server.still_serves()


async def test_upgrade_without_a_key_gets_401_over_http() -> None:
    async with running({"secret": Principal("anna")}) as server:
        try:
            await connect(server.url)
        except InvalidStatus as refused:
            assert refused.response.status_code == 401
            assert b"invalid_api_key" in (refused.response.body or b"")
        else:
            raise AssertionError("the upgrade was let in")


async def test_many_broken_frames_at_once_are_each_answered() -> None:
    async with running() as server:
        socket = await server.call()
        for number in range(200):
            await socket.send(json.dumps({"type": "nonsense", "event_id": f"e{number}"}))
        errors = [json.loads(await socket.recv())["error"]["event_id"] for _ in range(200)]
        assert errors == [f"e{number}" for number in range(200)]
        await socket.close()
        await server.freed(0)


async def test_slow_reader_gets_everything_before_the_close_though_it_keeps_talking() -> None:
    async with running() as server:
        socket = await server.call()
        await socket.send('{"type": "response.create"}')
        for _ in range(20):
            await socket.send('{"type": "input_audio_buffer.append", "audio": ""}')
        deltas = 0
        async for frame in socket:
            deltas += json.loads(frame)["type"] == "response.output_audio.delta"
        assert deltas == LONG_DELTAS
        assert socket.close_code == 1000
