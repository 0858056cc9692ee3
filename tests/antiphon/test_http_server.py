import asyncio
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from antiphon.config_sections import ServerSection
from antiphon.http_server import bind, http_server
from antiphon.web_routes import web_routes
from engines.errors import BadRequest

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


async def echo(websocket: WebSocket) -> None:
    await websocket.accept()
    try:
        while True:
            await websocket.send_text(await websocket.receive_text())
    except WebSocketDisconnect:
        pass


async def greet(_: object) -> Response:
    return Response("hello")


@asynccontextmanager
async def running(settings: ServerSection | None = None) -> AsyncIterator[str]:
    """Serves the page and two routes on a free port; yields host and port."""
    routes = [*web_routes(), Route("/hello", greet), WebSocketRoute("/echo", echo)]
    with bind("127.0.0.1", 0) as listener:
        async with http_server(Starlette(routes=routes), listener, settings or ServerSection()):
            yield f"127.0.0.1:{listener.getsockname()[1]}"


async def get(url: str) -> tuple[int, str, dict[str, str]]:
    def fetch() -> tuple[int, str, dict[str, str]]:
        with OPENER.open(url, timeout=10) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)

    return await asyncio.to_thread(fetch)


def test_taken_port_is_refused_in_one_line_with_the_way_out() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadRequest) as refused:
            bind("127.0.0.1", port)
    message = str(refused.value)
    assert message.startswith(f"cannot listen on 127.0.0.1:{port}: ")
    assert "--port" in message
    assert "\n" not in message


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_address_that_is_not_ours_is_refused_in_one_line(host: str) -> None:
    with pytest.raises(BadRequest, match=f"cannot listen on {host}:0"):
        bind(host, 0)


async def test_page_and_routes_are_served_and_end_with_the_block() -> None:
    async with running() as address:
        status, page, headers = await get(f"http://{address}/")
        assert status == 200
        assert "<title>" in page
        assert "content-security-policy" in {name.lower() for name in headers}
        assert "server" not in {name.lower() for name in headers}
        assert (await get(f"http://{address}/hello"))[1] == "hello"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            await get(f"http://{address}/nothing")
    with pytest.raises(urllib.error.URLError):
        await get(f"http://{address}/")


async def test_socket_of_a_client_who_stays_is_closed_when_the_server_ends() -> None:
    async with running() as address:
        client = await connect(f"ws://{address}/echo")
        await client.send("anyone?")
        assert await client.recv() == "anyone?"
    with pytest.raises(ConnectionClosed):
        await client.recv()


async def test_frame_over_the_operators_limit_closes_that_connection_alone() -> None:
    async with running(ServerSection(max_frame_bytes=1_000)) as address:
        async with connect(f"ws://{address}/echo") as client:
            await client.send("a" * 1_001)
            with pytest.raises(ConnectionClosed):
                await client.recv()
            assert client.close_code == 1009
        async with connect(f"ws://{address}/echo") as client:
            await client.send("a" * 1_000)
            assert len(await client.recv()) == 1_000


async def test_frames_are_not_compressed() -> None:
    async with running() as address, connect(f"ws://{address}/echo") as client:
        assert client.response is not None
        assert "Sec-WebSocket-Extensions" not in client.response.headers


async def test_listener_of_any_port_gives_the_port_that_was_bound() -> None:
    with bind("127.0.0.1", 0) as listener:
        host, port = listener.getsockname()
        assert host == "127.0.0.1" and port > 0
        with socket.create_connection((host, port), timeout=10):
            pass
