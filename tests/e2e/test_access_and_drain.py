"""Who may connect to a server with keys, and how it goes down with people inside."""

import asyncio
import signal
import urllib.error
from collections.abc import Iterator

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from antiphon.checks import Verdict, check_port
from antiphon.server_process import ServerProcess, server_process
from tests.e2e.wire import wire

pytestmark = pytest.mark.e2e

KEY = "0123456789abcdef-alice"
BEARER = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    arguments = [
        *("--set", f"access.keys=[{{name: alice, key: {KEY}, tier: paid}}]"),
        *("--set", "server.drain_s=1.5"),
        *("--set", "server.allowed_origins=['https://voice.example.com']"),
    ]
    log = tmp_path_factory.mktemp("guarded") / "server.log"
    with server_process(log, arguments=arguments) as running:
        yield running


async def refusal(url: str, **options: object) -> int:
    with pytest.raises(InvalidStatus) as refused:
        async with connect(url, proxy=None, **options):  # type: ignore[arg-type]
            pass
    return refused.value.response.status_code


async def test_key_is_needed_and_taken_from_header_or_subprotocol(
    guarded_server: ServerProcess,
) -> None:
    url = guarded_server.ws_url
    assert await refusal(url) == 401
    assert await refusal(url, additional_headers={"Authorization": "Bearer guess"}) == 401
    twilio = f"ws://127.0.0.1:{guarded_server.port}/twilio"
    assert await refusal(twilio) == 401
    async with wire(url, additional_headers=BEARER):
        pass
    offered = ["realtime", f"openai-insecure-api-key.{KEY}"]
    async with wire(url, subprotocols=offered) as client:
        assert client.socket.subprotocol == "realtime"


async def test_page_of_a_foreign_origin_is_refused_even_with_a_key(
    guarded_server: ServerProcess,
) -> None:
    url = guarded_server.ws_url
    evil = {"additional_headers": BEARER, "origin": "https://evil.example.com"}
    assert await refusal(url, **evil) == 403
    async with wire(url, additional_headers=BEARER, origin="https://voice.example.com"):
        pass
    async with wire(url, additional_headers=BEARER, origin=guarded_server.base_url):
        pass


async def test_foreign_page_cannot_use_an_open_server_on_loopback(server: ServerProcess) -> None:
    assert await refusal(server.ws_url, origin="https://evil.example.com") == 403
    rebound = f"http://evil.example.com:{server.port}"
    assert await refusal(server.ws_url, origin=rebound) == 403


def test_page_and_health_are_open_and_say_so_over_grpc_too(guarded_server: ServerProcess) -> None:
    assert "<html" in guarded_server.get("/")
    assert "ok" in guarded_server.get("/healthz")
    assert "ready" in guarded_server.get("/readyz")
    assert "antiphon_sessions" in guarded_server.get("/metrics")
    for port in (guarded_server.port, guarded_server.grpc_port):
        finding = check_port("127.0.0.1", port, "port")
        assert finding.verdict is Verdict.OK
        assert "running" in finding.found
    with grpc.insecure_channel(f"127.0.0.1:{guarded_server.grpc_port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=5)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_sigterm_lets_nobody_in_waits_and_tells_those_who_are_left(
    guarded_server: ServerProcess,
) -> None:
    """Runs last: the server is gone afterwards."""
    url = guarded_server.ws_url
    async with wire(url, additional_headers=BEARER) as client:
        guarded_server.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.5)
        assert not client.closed
        with pytest.raises(urllib.error.HTTPError) as unready:
            await asyncio.to_thread(guarded_server.get, "/readyz")
        assert unready.value.code == 503
        async with connect(url, proxy=None, additional_headers=BEARER) as late:
            await late.wait_closed()
            assert late.close_code == 1013
        await client.wait(lambda: client.closed, "the close", timeout_s=10)
        assert client.socket.close_code == 1012
    status = await asyncio.to_thread(guarded_server.process.wait, 15)
    assert status == 0
    written = await asyncio.to_thread(guarded_server.log.read_text)
    assert "Traceback" not in written
