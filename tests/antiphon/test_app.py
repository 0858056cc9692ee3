"""The web application as it begins; the whole server is shown by the end-to-end tests."""

import pytest
from starlette.testclient import TestClient

from antiphon.app import build_app
from antiphon.config import load_config
from antiphon.gateway import Gateway
from antiphon.metrics import Metrics

KEY = "0123456789abcdef0123"


def visitor(host: str, *, keys: bool) -> TestClient:
    listed = [{"name": "anna", "key": KEY}] if keys else []
    app = build_app(load_config(flags={"access.keys": listed}), Gateway(), Metrics())
    return TestClient(app, client=(host, 50_000))


def test_page_and_probes_answer_before_any_model_is_loaded() -> None:
    client = visitor("192.0.2.7", keys=True)
    assert client.get("/").status_code == 200
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").json()["status"] == "starting"
    assert client.get("/v1/realtime").status_code == 404


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (None, 401),
        (f"Bearer {KEY}", 200),
        (f"bearer  {KEY} ", 200),
        (f"Bearer {KEY[:-1]}", 401),
        (KEY, 401),
        (f"Basic {KEY}", 401),
    ],
)
def test_metrics_from_afar_want_a_configured_key(authorization: str | None, status: int) -> None:
    headers = {"Authorization": authorization} if authorization else {}
    client = visitor("192.0.2.7", keys=True)
    assert client.get("/metrics", headers=headers).status_code == status


def test_metrics_of_a_server_without_keys_are_as_open_as_the_server() -> None:
    forwarded = {"X-Forwarded-For": "192.0.2.7"}
    assert visitor("127.0.0.1", keys=False).get("/metrics", headers=forwarded).status_code == 200
