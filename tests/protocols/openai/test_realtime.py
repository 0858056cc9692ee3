"""What clients send: each event becomes its input, or gets one error."""

from typing import Any

import pytest

from streams.config import ResponseOptions
from streams.events import (
    CancelResponse,
    ClearAudio,
    CommitAudio,
    CreateItem,
    CreateResponse,
    DeleteItem,
    EndInput,
    Item,
    KeepAlive,
    Part,
    PartKind,
    RetrieveItem,
    Role,
    SessionInput,
    TruncateItem,
)
from tests.protocols.realtime_driver import Driver


def message(role: str, *content: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": list(content), **fields}


ITEM_CREATE = "conversation.item.create"
HI = Part(PartKind.TEXT, "Hi")
RULE = Part(PartKind.TEXT, "S")
SILENCE = "AAAA"


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("input_audio_buffer.commit", {}, CommitAudio("input_audio_buffer.commit e")),
        ("input_audio_buffer.clear", {}, ClearAudio("input_audio_buffer.clear e")),
        ("output_audio_buffer.clear", {}, KeepAlive()),
        ("antiphon.input.end", {}, EndInput()),
        ("response.cancel", {}, CancelResponse(None, "response.cancel e")),
        ("response.cancel", {"response_id": "r"}, CancelResponse("r", "response.cancel e")),
        ("response.create", {}, CreateResponse(ResponseOptions(), "response.create e")),
        (
            "conversation.item.delete",
            {"item_id": "i"},
            DeleteItem("i", "conversation.item.delete e"),
        ),
        (
            "conversation.item.retrieve",
            {"item_id": "i"},
            RetrieveItem("i", "conversation.item.retrieve e"),
        ),
        (
            "conversation.item.truncate",
            {"item_id": "i", "content_index": 0, "audio_end_ms": 1500.0},
            TruncateItem("i", 1500, 0, "conversation.item.truncate e"),
        ),
        (
            ITEM_CREATE,
            {"item": message("user", {"type": "input_text", "text": "Hi"}, id="i1")},
            CreateItem(Item("i1", Role.USER, (HI,)), None, f"{ITEM_CREATE} e"),
        ),
        (
            ITEM_CREATE,
            {
                "item": message("assistant", {"type": "output_audio", "transcript": "Yes"}),
                "previous_item_id": "root",
            },
            CreateItem(
                Item("", Role.ASSISTANT, (Part(PartKind.AUDIO, "Yes"),)), "root", f"{ITEM_CREATE} e"
            ),
        ),
        (
            ITEM_CREATE,
            {"item": message("system", {"type": "input_text", "text": "S"}, phase="new")},
            CreateItem(Item("", Role.SYSTEM, (RULE,)), None, f"{ITEM_CREATE} e"),
        ),
    ],
)
def test_client_event_becomes_its_input(
    name: str, fields: dict[str, Any], expected: SessionInput
) -> None:
    driver = Driver().started()
    assert driver.send(name, event_id="e", some_new_key=1, **fields) == [expected]
    assert driver.sent() == []


def test_reply_in_a_foreign_voice_is_spoken_by_the_servers_own() -> None:
    response = {"audio": {"output": {"voice": "marin"}}}
    driver = Driver(voices=frozenset({"cedar"})).started()
    (event,) = driver.send("response.create", response=response)
    assert isinstance(event, CreateResponse)
    assert event.options.voice == "default"


def test_response_create_carries_all_its_options() -> None:
    response = {
        "instructions": "Short.",
        "output_modalities": ["text"],
        "max_output_tokens": 20,
        "audio": {"output": {"voice": "cedar", "format": {"type": "audio/pcm", "rate": 24000}}},
        "metadata": {"client_event_id": "c1"},
        "conversation": "auto",
        "tools": [],
    }
    driver = Driver(voices=frozenset({"cedar"})).started()
    (event,) = driver.send("response.create", response=response)
    assert isinstance(event, CreateResponse)
    assert event.options == ResponseOptions(
        instructions="Short.",
        output_audio=False,
        max_output_tokens=20,
        voice="cedar",
        metadata=(("client_event_id", "c1"),),
    )


@pytest.mark.parametrize(
    ("name", "fields", "code", "param"),
    [
        ("nonsense", {}, "invalid_value", "type"),
        ("transcription_session.update", {"session": {}}, "invalid_value", "type"),
        ("session.update", {}, "missing_required_parameter", "session"),
        ("session.update", {"session": []}, "invalid_type", "session"),
        ("input_audio_buffer.append", {}, "missing_required_parameter", "audio"),
        ("input_audio_buffer.append", {"audio": 5}, "invalid_type", "audio"),
        ("input_audio_buffer.append", {"audio": "QQ=!"}, "invalid_value", "audio"),
        ("input_audio_buffer.append", {"audio": "\ud800"}, "invalid_value", "audio"),
        ("conversation.item.delete", {}, "missing_required_parameter", "item_id"),
        (
            "conversation.item.truncate",
            {"item_id": "i", "audio_end_ms": -1},
            "invalid_value",
            "audio_end_ms",
        ),
        (ITEM_CREATE, {"item": 1}, "invalid_type", "item"),
        (
            ITEM_CREATE,
            {"item": {"type": "function_call_output", "call_id": "c", "output": ""}},
            "invalid_value",
            "item.type",
        ),
        (ITEM_CREATE, {"item": message("user", id="no spaces")}, "invalid_value", "item.id"),
        (ITEM_CREATE, {"item": message("tool")}, "invalid_value", "item.role"),
        (
            ITEM_CREATE,
            {"item": message("user", {"type": "input_text"})},
            "missing_required_parameter",
            "item.content.0.text",
        ),
        (
            ITEM_CREATE,
            {"item": message("user", {"type": "input_audio", "audio": "QQ=="})},
            "missing_required_parameter",
            "item.content.0.transcript",
        ),
        (
            ITEM_CREATE,
            {"item": message("assistant", {"type": "input_text", "text": "x"})},
            "invalid_value",
            "item.content.0.type",
        ),
        (
            ITEM_CREATE,
            {"item": message("user", {"type": "input_image", "image_url": "data:"})},
            "invalid_value",
            "item.content.0.type",
        ),
        (
            "response.create",
            {"response": {"conversation": "none"}},
            "invalid_value",
            "response.conversation",
        ),
        ("response.create", {"response": {"input": []}}, "invalid_value", "response.input"),
        (
            "response.create",
            {"response": {"metadata": {"k": 5}}},
            "invalid_type",
            "response.metadata.k",
        ),
        (
            "response.create",
            {"response": {"audio": {"output": {"format": {"type": "audio/pcmu"}}}}},
            "invalid_value",
            "response.audio.output.format",
        ),
    ],
)
def test_wrong_event_gets_one_error_with_its_id_and_the_session_lives(
    name: str, fields: dict[str, Any], code: str, param: str
) -> None:
    driver = Driver().started()
    assert driver.send(name, event_id="e7", **fields) == []
    error = driver.error()
    assert (error["code"], error["param"], error["event_id"]) == (code, param, "e7")
    assert driver.protocol.close is None
    assert driver.send("input_audio_buffer.append", audio=SILENCE)
    assert driver.protocol.counters["events_refused"] == 1


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("", "invalid_value"),
        ("not json", "invalid_value"),
        ("[]", "invalid_type"),
        ('"text"', "invalid_type"),
        ("null", "invalid_type"),
        ("{}", "missing_required_parameter"),
        ('{"type": 5}', "invalid_type"),
        ('{"type": "response.cancel", "event_id": 5}', "invalid_type"),
        ('{"type": "input_audio_buffer.commit", "n": NaN}', "invalid_value"),
        ('{"n": ' + "9" * 5000 + "}", "invalid_value"),
        (
            '{"type": "session.update", "session": ' + '{"a":' * 100 + "1" + "}" * 101,
            "invalid_value",
        ),
        ("[" * 200_000, "invalid_value"),
    ],
)
def test_frame_that_is_no_event_gets_one_error_and_the_session_lives(frame: str, code: str) -> None:
    driver = Driver().started()
    assert driver.protocol.receive_text(frame) == []
    error = driver.error()
    assert (error["code"], error["event_id"]) == (code, None)
    assert len(error["message"]) < 500
    assert driver.send("input_audio_buffer.append", audio=SILENCE)


def test_binary_frame_gets_one_error_that_says_where_audio_goes() -> None:
    driver = Driver().started()
    assert driver.protocol.receive_binary(b"\0" * 10) == []
    assert "input_audio_buffer.append" in driver.error()["message"]


def test_transcription_session_refuses_to_reply() -> None:
    driver = Driver({"intent": "transcription"}).started()
    assert driver.send("response.create", event_id="r1") == []
    error = driver.error()
    assert (error["code"], error["event_id"]) == ("invalid_parameter", "r1")
