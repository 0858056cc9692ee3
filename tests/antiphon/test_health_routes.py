from collections.abc import Callable

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.testclient import TestClient

from antiphon.gateway import Gateway
from antiphon.health_routes import health_routes
from antiphon.metrics import Metrics
from streams.admission import AdmissionConfig
from streams.config import SessionConfig, Tier
from streams.sessions import SessionManager
from tests.support.session_driver import ScriptedServer

KEY = {"Authorization": "Bearer key"}


def has_key(request: Request) -> bool:
    return request.headers.get("authorization") == KEY["Authorization"]


def orchestrator(
    gateway: Gateway, host: str = "127.0.0.1", authorize: Callable[[Request], bool] = has_key
) -> TestClient:
    app = Starlette(routes=health_routes(gateway, Metrics(), authorize))
    return TestClient(app, client=(host, 50_000))


def serving(max_sessions: int) -> Gateway:
    gateway = Gateway()
    admission = AdmissionConfig(max_sessions=max_sessions, paid_reserve=0)
    gateway.serve(SessionManager(ScriptedServer().services, admission))
    return gateway


def draining() -> Gateway:
    gateway = serving(4)
    gateway.close()
    return gateway


@pytest.mark.parametrize("gateway", [Gateway(), draining()], ids=["starting", "draining"])
def test_server_that_lives_is_healthy_whatever_it_does(gateway: Gateway) -> None:
    answer = orchestrator(gateway).get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("make", "status_code", "status"),
    [
        (Gateway, 503, "starting"),
        (lambda: serving(4), 200, "ready"),
        (draining, 503, "draining"),
    ],
    ids=["starting", "ready", "draining"],
)
def test_readiness_tells_the_state_by_status_and_by_name(
    make: Callable[[], Gateway], status_code: int, status: str
) -> None:
    answer = orchestrator(make()).get("/readyz")
    assert answer.status_code == status_code
    assert answer.json() == {"status": status, "sessions": 0}


async def test_full_server_is_not_ready_and_says_how_many_are_in() -> None:
    gateway = serving(1)
    session = await gateway.open(SessionConfig(), protocol="test", tenant="anna", tier=Tier.FREE)
    answer = orchestrator(gateway).get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"status": "full", "sessions": 1}
    await session.close()
    assert orchestrator(gateway).get("/readyz").status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1"])
def test_metrics_are_open_to_this_machine(host: str) -> None:
    answer = orchestrator(Gateway(), host).get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert "antiphon_sessions" in answer.text


@pytest.mark.parametrize(
    ("host", "headers"),
    [
        ("192.0.2.7", {}),
        ("::ffff:192.0.2.7", {}),
        ("testclient", {}),  # a peer without an address, as on a unix socket
        ("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}),
        ("192.0.2.7", {"Authorization": "Bearer other"}),
    ],
)
def test_metrics_are_closed_to_others_unless_they_bring_a_key(
    host: str, headers: dict[str, str]
) -> None:
    client = orchestrator(Gateway(), host)
    refused = client.get("/metrics", headers=headers)
    assert refused.status_code == 401
    assert "antiphon_sessions" not in refused.text
    assert client.get("/metrics", headers={**headers, **KEY}).status_code == 200


def test_probes_need_no_key_from_anywhere() -> None:
    client = orchestrator(serving(4), "192.0.2.7")
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200
