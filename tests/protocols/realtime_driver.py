"""Drives a `RealtimeProtocol` in the words of its wire, and checks all that it sends."""

import json
from typing import Any, get_args

from openai.types.realtime import realtime_server_event
from pydantic import BaseModel

from protocols.openai.realtime import RealtimeProtocol
from protocols.openai.realtime_session import RealtimeSettings
from streams.events import SessionInput, SessionOutput, SessionStarted

NOW_S = 1_800_000_000.0
MAY_BE_NULL = {
    "status_details",
    "usage",
    "metadata",
    "conversation_id",
    "previous_item_id",
    "code",
    "param",
    "event_id",
    "transcript",
    "turn_detection",
    "noise_reduction",
    "transcription",
}


def sdk_classes() -> dict[str, type[BaseModel]]:
    """Returns the SDK's class of each server event, by its type."""
    union = get_args(realtime_server_event.RealtimeServerEvent)[0]
    return {get_args(kind.model_fields["type"].annotation)[0]: kind for kind in get_args(union)}


def assert_clients_take(event: dict[str, Any], *, own_rate: bool = False) -> None:
    """Checks an event against the SDK's types, strictly, and the rules on null."""
    kind = sdk_classes()[event["type"]]
    shown = json.loads(json.dumps(event))
    if not own_rate:
        kind.model_validate(shown, strict=True)
    assert event["event_id"]
    assert nulls(event) <= MAY_BE_NULL


def nulls(value: object, key: str = "") -> set[str]:
    """Returns the keys that hold null, at any depth."""
    if value is None:
        return {key}
    if isinstance(value, dict):
        return set().union(*(nulls(part, name) for name, part in value.items()), set())
    if isinstance(value, list):
        return set().union(*(nulls(part, key) for part in value), set())
    return set()


class Driver:
    """Is a client and a session core at once, with the real protocol between them."""

    def __init__(self, query: dict[str, str] | None = None, **settings: Any) -> None:
        self.protocol = RealtimeProtocol(RealtimeSettings(**settings))
        self.config = self.protocol.start(query or {}, NOW_S)
        self.own_rate = False
        self.seen_ids: set[str] = set()

    def started(self) -> "Driver":
        """Lets the session begin and takes `session.created` away."""
        (created,) = self.say(SessionStarted("sess_0123456789abcdef", self.config))
        assert created["type"] == "session.created"
        return self

    def send(self, name: str, **fields: Any) -> list[SessionInput]:
        """Sends a client event and returns what the session gets."""
        return self.protocol.receive_text(json.dumps({"type": name, **fields}))

    def update(self, session: dict[str, Any], kind: str = "realtime") -> list[SessionInput]:
        """Sends a session.update."""
        return self.send("session.update", session={"type": kind, **session})

    def say(self, *outputs: SessionOutput) -> list[dict[str, Any]]:
        """Lets the session say something and returns what the client gets."""
        for output in outputs:
            self.protocol.receive_output(output)
        return self.sent()

    def sent(self) -> list[dict[str, Any]]:
        """Returns what goes to the client now, checked."""
        events = self.protocol.events_to_send()
        for event in events:
            assert_clients_take(event, own_rate=self.own_rate)
            assert event["event_id"] not in self.seen_ids
            self.seen_ids.add(event["event_id"])
        return events

    def error(self) -> dict[str, Any]:
        """Returns the one error that the client gets now."""
        (event,) = self.sent()
        assert event["type"] == "error"
        error: dict[str, Any] = event["error"]
        return error


def types(events: list[dict[str, Any]]) -> list[str]:
    """Returns the types of events, in order."""
    return [event["type"] for event in events]
