"""The Twilio door over a real ASGI socket, with a scripted session behind it."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient, WebSocketDenialResponse, WebSocketTestSession
from starlette.websockets import WebSocketDisconnect

from protocols.audio_formats import encode_base64
from protocols.auth import Access, KeyRing, Principal, allowed_origins
from protocols.server import TWILIO_PATH, ProtocolSettings, protocol_routes
from protocols.telephony.twilio import TwilioSettings
from streams.config import Tier
from streams.errors import Overloaded
from streams.events import AudioDelta, AudioIn, PlaybackCleared, SessionInput, SessionOutput
from tests.protocols.scripted_sessions import ScriptedFactory

SIGNATURE = "4qZsm0/0bGQYw36gQ+0YyAX07W0="  # of wss://example.com/twilio with token 12345
FRAME = encode_base64(b"\xff" * 160)


def speaks_then_yields(event: SessionInput) -> Iterable[SessionOutput]:
    """Answers the first audio by 100 ms of speech and then by a clear."""
    if isinstance(event, AudioIn):
        yield AudioDelta("r1", "i1", np.zeros(800, dtype=np.float32), 8_000, 0)
        yield PlaybackCleared("r1", "i1")


class Door:
    """Is an app with only the protocols' routes, and what came of them."""

    def __init__(
        self,
        factory: ScriptedFactory | None = None,
        keys: dict[str, Principal] | None = None,
        **settings: Any,
    ) -> None:
        self.factory = factory or ScriptedFactory(speaks_then_yields)
        self.counts: Counter[str] = Counter()
        access = Access(KeyRing(keys or {}), allowed_origins("127.0.0.1", 8000))
        twilio = TwilioSettings(**settings)
        whole = ProtocolSettings(access, twilio=twilio)
        routes = protocol_routes(self.factory, whole, self.count)
        self.client = TestClient(Starlette(routes=routes))

    def count(self, name: str, amount: int) -> None:
        self.counts[name] += amount

    def connect(self, **headers: str) -> WebSocketTestSession:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.websocket_connect(TWILIO_PATH, headers=named)

    def denied(self, **headers: str) -> int:
        with pytest.raises(WebSocketDenialResponse) as caught, self.connect(**headers):
            pass
        return caught.value.status_code


def start(socket: WebSocketTestSession, **parameters: str) -> None:
    socket.send_json({"event": "connected", "protocol": "Call", "version": "1.0.0"})
    details = {"streamSid": "MZ1", "callSid": "CA1", "customParameters": parameters}
    socket.send_json({"event": "start", "streamSid": "MZ1", "start": details})


def closed(socket: WebSocketTestSession) -> int:
    with pytest.raises(WebSocketDisconnect) as caught:
        socket.receive_json()
    return caught.value.code


def test_call_is_answered_and_its_hang_up_frees_the_session() -> None:
    door = Door(tier=Tier.PAID, stream_token="t0")
    with door.connect() as socket:
        start(socket, token="t0")
        media = {"track": "inbound", "chunk": "1", "timestamp": "5", "payload": FRAME}
        socket.send_json({"event": "media", "streamSid": "MZ1", "media": media})
        received = [socket.receive_json()["event"] for _ in range(6)]
        assert received == ["media"] * 5 + ["clear"]
        socket.send_json({"event": "brand-new", "streamSid": "MZ1"})
        socket.send_json({"event": "stop", "streamSid": "MZ1"})
        assert closed(socket) == 1000
    assert door.factory.opened == [
        {"protocol": "twilio", "tenant": "twilio", "tier": Tier.PAID, "telephony": True}
    ]
    assert door.factory.sessions[0].closes == 1
    assert door.counts == {"messages_ignored": 1}


def test_no_session_is_opened_before_start() -> None:
    door = Door()
    with door.connect() as socket:
        socket.send_json({"event": "connected"})
    assert door.factory.opened == []


def test_wrong_token_closes_1008_before_any_session() -> None:
    door = Door(stream_token="t0")
    with door.connect() as socket:
        start(socket, token="t1")
        assert closed(socket) == 1008
    assert door.factory.opened == []


def test_missing_start_closes_1008_when_its_time_is_over() -> None:
    door = Door(start_timeout_s=0.01)
    with door.connect() as socket:
        assert closed(socket) == 1008
    assert door.factory.opened == []


def test_full_server_closes_1013() -> None:
    door = Door(ScriptedFactory(refusal=Overloaded("All is full.")))
    with door.connect() as socket:
        start(socket)
        assert closed(socket) == 1013


@pytest.mark.parametrize("public_url", [None, "wss://example.com/twilio"])
def test_valid_signature_opens_the_door(public_url: str | None) -> None:
    door = Door(auth_token="12345", public_url=public_url)
    proxied = {"X_Twilio_Signature": SIGNATURE, "X_Forwarded_Host": "example.com"}
    with door.connect(**proxied) as socket:
        start(socket)
        socket.send_json({"event": "stop", "streamSid": "MZ1"})
        assert closed(socket) == 1000
    assert len(door.factory.opened) == 1


def test_missing_or_wrong_signature_is_refused_with_403() -> None:
    door = Door(auth_token="12345", public_url="wss://example.com/twilio")
    assert door.denied() == 403
    assert door.denied(X_Twilio_Signature=SIGNATURE.swapcase()) == 403


def test_without_a_twilio_secret_the_servers_own_keys_are_asked_for() -> None:
    door = Door(keys={"secret": Principal("anna", Tier.PAID)})
    assert door.denied() == 401
    with door.connect(Authorization="Bearer secret") as socket:
        start(socket)
        socket.send_json({"event": "stop", "streamSid": "MZ1"})
        assert closed(socket) == 1000
    assert door.factory.opened[0]["tenant"] == "anna"


def test_foreign_page_is_refused_with_403() -> None:
    assert Door().denied(Origin="http://evil.example") == 403


def test_sockets_that_wait_for_their_start_are_bounded() -> None:
    door = Door(max_waiting=1)
    with door.connect():
        assert door.denied() == 503
    with door.connect() as socket:  # the place is free again
        start(socket)
        socket.send_json({"event": "stop", "streamSid": "MZ1"})
        assert closed(socket) == 1000
