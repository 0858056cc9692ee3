"""The realtime door over a real ASGI socket, with a scripted session behind it."""

import base64
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient, WebSocketDenialResponse, WebSocketTestSession
from starlette.websockets import WebSocketDisconnect

from protocols.auth import Access, KeyRing, Principal, allowed_origins
from protocols.server import REALTIME_PATH, ProtocolSettings, protocol_routes
from streams.config import Tier
from streams.errors import Overloaded, SessionErrorCode
from streams.events import (
    AudioIn,
    EndInput,
    SessionClosed,
    SessionInput,
    SessionOutput,
    SessionUpdated,
    TranscriptCompleted,
    UpdateSession,
)
from tests.protocols.scripted_sessions import Answer, ScriptedFactory

ANNA = Principal("anna", Tier.PAID)


class Door:
    """Is an app with only the protocols' routes, and what came of them."""

    def __init__(self, factory: ScriptedFactory, keys: dict[str, Principal] | None = None) -> None:
        self.factory = factory
        self.counts: Counter[str] = Counter()
        access = Access(KeyRing(keys or {}), allowed_origins("127.0.0.1", 8000))
        routes = protocol_routes(factory, ProtocolSettings(access), self.count)
        self.client = TestClient(Starlette(routes=routes))

    def count(self, name: str, amount: int) -> None:
        self.counts[name] += amount

    def connect(self, query: str = "", **more: Any) -> WebSocketTestSession:
        return self.client.websocket_connect(f"{REALTIME_PATH}{query}", **more)

    def denied(self, **more: Any) -> WebSocketDenialResponse:
        with pytest.raises(WebSocketDenialResponse) as caught, self.connect(**more):
            pass
        assert self.factory.opened == []
        return caught.value


def answers(event: SessionInput) -> Iterable[SessionOutput]:
    match event:
        case UpdateSession(config):
            yield SessionUpdated(config)
        case EndInput():
            yield TranscriptCompleted("u1", "the last word", 1.0)
            yield SessionClosed()


def door(answer: Answer = answers, keys: dict[str, Principal] | None = None) -> Door:
    return Door(ScriptedFactory(answer), keys)


def closed(socket: WebSocketTestSession) -> WebSocketDisconnect:
    with pytest.raises(WebSocketDisconnect) as caught:
        socket.receive_json()
    return caught.value


# ---------------------------------------------------------------- who may come in


def test_key_in_the_header_opens_a_session_of_its_tier() -> None:
    behind = door(keys={"secret": ANNA})
    with behind.connect(headers={"Authorization": "Bearer secret"}) as socket:
        assert socket.receive_json()["type"] == "session.created"
    assert behind.factory.opened == [
        {"protocol": "realtime", "tenant": "anna", "tier": Tier.PAID, "telephony": False}
    ]


def test_key_in_a_subprotocol_is_answered_by_realtime_only() -> None:
    behind = door(keys={"secret": ANNA})
    offered = ["realtime", "openai-insecure-api-key.secret", "openai-agents-sdk.0.20.0"]
    with behind.connect(subprotocols=offered) as socket:
        assert socket.accepted_subprotocol == "realtime"
        assert socket.receive_json()["type"] == "session.created"


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic secret"])
def test_without_a_valid_key_the_upgrade_is_refused_with_401(header: str | None) -> None:
    refused = door(keys={"secret": ANNA}).denied(headers={"Authorization": header or ""})
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert refused.json()["error"]["code"] == "invalid_api_key"


def test_foreign_page_is_refused_with_403_even_without_keys() -> None:
    refused = door().denied(headers={"Origin": "http://evil.example"})
    assert refused.status_code == 403
    assert refused.json()["error"]["code"] == "origin_not_allowed"


def test_own_page_may_connect_whatever_the_host_header_says() -> None:
    headers = {"Origin": "http://localhost:8000", "Host": "rebound.example:8000"}
    with door().connect(headers=headers) as socket:
        assert socket.receive_json()["type"] == "session.created"
    rebound = {"Origin": "http://rebound.example:8000", "Host": "rebound.example:8000"}
    assert door().denied(headers=rebound).status_code == 403


def test_full_server_says_when_to_come_back_and_closes_1013() -> None:
    behind = Door(ScriptedFactory(refusal=Overloaded("All is full.", retry_after_s=5)))
    with behind.connect() as socket:
        error = socket.receive_json()["error"]
        assert error["code"] == "rate_limit_exceeded"
        assert "again in 5s" in error["message"]
        assert closed(socket).code == 1013


# ---------------------------------------------------------------- while it runs


def test_query_decides_about_the_kind_of_session() -> None:
    behind = door()
    with behind.connect("?intent=transcription&model=x") as socket:
        created = socket.receive_json()["session"]
        assert (created["type"], created["object"]) == (
            "transcription",
            "realtime.transcription_session",
        )
    assert behind.factory.sessions[0].config.respond is False


def test_events_reach_the_session_and_answers_the_client() -> None:
    behind = door()
    with behind.connect() as socket:
        socket.receive_json()
        session = {"type": "realtime", "instructions": "Sing."}
        socket.send_json({"type": "session.update", "session": session})
        assert socket.receive_json()["session"]["instructions"] == "Sing."
        audio = base64.b64encode(bytes(480)).decode()
        socket.send_json({"type": "input_audio_buffer.append", "audio": audio})
        socket.send_json({"type": "antiphon.input.end"})
        assert socket.receive_json()["transcript"] == "the last word"
        assert closed(socket).code == 1000
    update, audio_in, end = behind.factory.sessions[0].received
    assert isinstance(update, UpdateSession) and isinstance(end, EndInput)
    assert isinstance(audio_in, AudioIn) and len(audio_in.samples) == 240


def test_broken_frames_are_answered_and_counted_and_the_session_goes_on() -> None:
    behind = door()
    with behind.connect() as socket:
        socket.receive_json()
        socket.send_text("not json")
        assert socket.receive_json()["error"]["code"] == "invalid_value"
        socket.send_bytes(b"\x00\x01")
        assert socket.receive_json()["error"]["code"] == "invalid_type"
        socket.send_json({"type": "input_audio_buffer.append", "audio": "QQ=="})
        socket.send_json({"type": "antiphon.input.end"})
        assert socket.receive_json()["transcript"] == "the last word"
        assert closed(socket).code == 1000
    assert behind.counts == {"events_refused": 2, "odd_bytes_dropped": 1}


def test_client_that_leaves_frees_its_session() -> None:
    behind = door()
    with behind.connect() as socket:
        socket.receive_json()
    session = behind.factory.sessions[0]
    assert session.closes == 1


@pytest.mark.parametrize(
    ("code", "told", "close_code"),
    [
        (SessionErrorCode.IDLE, "session_idle_timeout", 4408),
        (SessionErrorCode.DRAINING, None, 1012),
        (SessionErrorCode.EXPIRED, "session_expired", 1001),
    ],
)
def test_session_that_ends_closes_the_socket_by_its_reason(
    code: SessionErrorCode, told: str | None, close_code: int
) -> None:
    behind = door(lambda event: [SessionClosed(code, "That was it.")])
    with behind.connect() as socket:
        socket.receive_json()
        socket.send_json({"type": "input_audio_buffer.commit"})
        if told:
            assert socket.receive_json()["error"]["code"] == told
        end = closed(socket)
        assert (end.code, end.reason) == (close_code, "That was it.")
    assert behind.factory.sessions[0].closes == 1


def test_failure_inside_closes_1011_and_frees_the_session(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def breaks(event: SessionInput) -> Iterable[SessionOutput]:
        raise ArithmeticError("broken")

    behind = door(breaks)
    with behind.connect() as socket:
        socket.receive_json()
        socket.send_json({"type": "input_audio_buffer.commit"})
        assert closed(socket).code == 1011
    assert behind.factory.sessions[0].closes == 1
    assert "exchange failed" in caplog.text
