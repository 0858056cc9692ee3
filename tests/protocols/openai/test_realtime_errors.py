"""Refusals by the session, and how sessions end."""

from typing import Any

import pytest

from streams.errors import Overloaded, SessionErrorCode, Unauthorized
from streams.events import (
    SessionClosed,
    SessionError,
)
from tests.protocols.realtime_driver import Driver

ITEM_CREATE = "conversation.item.create"
EMPTY_ITEM = {"type": "message", "role": "user", "content": []}


def refs_of(driver: Driver, name: str, **fields: Any) -> str | None:
    (event,) = driver.send(name, event_id="c2", **fields)
    ref: str | None = getattr(event, "ref", None)
    return ref


@pytest.mark.parametrize(
    ("name", "fields", "code", "wire_code", "param"),
    [
        (
            "input_audio_buffer.commit",
            {},
            SessionErrorCode.BUFFER_EMPTY,
            "input_audio_buffer_commit_empty",
            None,
        ),
        (
            "conversation.item.truncate",
            {"item_id": "x", "audio_end_ms": 1},
            SessionErrorCode.UNKNOWN_ITEM,
            "item_truncate_invalid_item_id",
            "item_id",
        ),
        (
            "conversation.item.delete",
            {"item_id": "x"},
            SessionErrorCode.UNKNOWN_ITEM,
            "item_delete_invalid_item_id",
            "item_id",
        ),
        (
            "conversation.item.retrieve",
            {"item_id": "x"},
            SessionErrorCode.UNKNOWN_ITEM,
            "item_retrieve_invalid_item_id",
            "item_id",
        ),
        (
            ITEM_CREATE,
            {"item": EMPTY_ITEM, "previous_item_id": "x"},
            SessionErrorCode.UNKNOWN_ITEM,
            "invalid_value",
            "previous_item_id",
        ),
        (
            "response.create",
            {},
            SessionErrorCode.RESPONSE_ACTIVE,
            "conversation_already_has_active_response",
            None,
        ),
    ],
)
def test_refusal_by_the_session_names_the_event_in_the_wires_words(
    name: str, fields: dict[str, Any], code: SessionErrorCode, wire_code: str, param: str | None
) -> None:
    driver = Driver().started()
    ref = refs_of(driver, name, **fields)
    driver.protocol.receive_output(SessionError(code, "At least 100 ms are needed.", ref))
    assert driver.error() == {
        "type": "invalid_request_error",
        "code": wire_code,
        "message": "At least 100 ms are needed.",
        "param": param,
        "event_id": "c2",
    }
    assert driver.protocol.close is None


@pytest.mark.parametrize("said", ["no active response", "Cancellation failed: no active response"])
def test_failed_cancel_begins_as_clients_expect(said: str) -> None:
    driver = Driver().started()
    ref = refs_of(driver, "response.cancel")
    driver.protocol.receive_output(SessionError(SessionErrorCode.NO_ACTIVE_RESPONSE, said, ref))
    error = driver.error()
    assert error["message"] == "Cancellation failed: no active response"
    assert error["code"] == "response_cancel_not_active"


def test_error_without_a_cause_from_the_client_has_no_event_id() -> None:
    driver = Driver().started()
    driver.protocol.receive_output(
        SessionError(SessionErrorCode.OVERLOADED, "No room.", retry_after_s=3)
    )
    error = driver.error()
    assert (error["code"], error["event_id"]) == ("rate_limit_exceeded", None)
    assert error["message"] == "No room. Please try again in 3s."


@pytest.mark.parametrize(
    ("code", "wire_code", "close_code"),
    [
        (SessionErrorCode.IDLE, "session_idle_timeout", 4408),
        (SessionErrorCode.EXPIRED, "session_expired", 1001),
        (SessionErrorCode.OVERLOADED, "rate_limit_exceeded", 1013),
        (SessionErrorCode.INTERNAL, "server_error", 1011),
        (SessionErrorCode.DRAINING, None, 1012),
        (SessionErrorCode.SLOW_CONSUMER, None, 1008),
        (None, None, 1000),
    ],
)
def test_end_of_a_session_is_told_and_closed_by_its_code(
    code: SessionErrorCode | None, wire_code: str | None, close_code: int
) -> None:
    driver = Driver().started()
    events = driver.say(SessionClosed(code, "Why it ended."))
    assert [event["error"]["code"] for event in events] == ([wire_code] if wire_code else [])
    close = driver.protocol.close
    assert close is not None
    assert (close.code, close.reason) == (close_code, "Why it ended.")


def test_refusal_at_the_door_is_an_error_event_and_a_close() -> None:
    driver = Driver()
    driver.protocol.refuse(Overloaded("All sessions are in use.", retry_after_s=5))
    error = driver.error()
    assert error["code"] == "rate_limit_exceeded"
    assert error["message"] == "All sessions are in use. Please try again in 5s."
    assert driver.protocol.close is not None and driver.protocol.close.code == 1013
    other = Driver()
    other.protocol.refuse(Unauthorized("No."))
    assert other.protocol.close is not None and other.protocol.close.code == 1008
