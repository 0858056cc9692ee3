"""How a conversation is told to clients, event by event."""

from streams.events import (
    AudioCleared,
    AudioCommitted,
    Item,
    ItemAdded,
    ItemDeleted,
    ItemDone,
    ItemRetrieved,
    ItemStatus,
    ItemTruncated,
    Part,
    PartKind,
    Role,
    SessionUpdated,
    SpeechStarted,
    SpeechStopped,
    TranscriptCompleted,
    TranscriptDelta,
    TranscriptFailed,
)
from tests.protocols.realtime_driver import Driver, types


def user_item(item_id: str, text: str | None = None) -> Item:
    return Item(item_id, Role.USER, (Part(PartKind.AUDIO, text),))


def test_voice_turn_is_told_in_upstreams_order() -> None:
    driver = Driver().started()
    item = user_item("u1")
    events = driver.say(
        SpeechStarted("u1", 320),
        SpeechStopped("u1", 1500),
        AudioCommitted("u1", None),
        ItemAdded(item, None),
        ItemDone(item, None),
        TranscriptDelta("u1", "Hel"),
        TranscriptDelta("u1", "lo"),
        TranscriptCompleted("u1", "Hello", 1.5, "en"),
    )
    transcription = "conversation.item.input_audio_transcription"
    assert types(events) == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        f"{transcription}.delta",
        f"{transcription}.delta",
        f"{transcription}.completed",
    ]
    assert events[0]["audio_start_ms"] == 320 and events[1]["audio_end_ms"] == 1500
    assert events[2]["previous_item_id"] is None
    assert events[3]["item"] == {
        "id": "u1",
        "object": "realtime.item",
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_audio", "transcript": None}],
    }
    assert events[7]["transcript"] == "Hello"
    assert events[7]["usage"] == {"type": "duration", "seconds": 1.5}
    assert events[7]["languages"] == [{"code": "en"}]


def test_failed_transcript_names_its_item_and_reason() -> None:
    (event,) = Driver().started().say(TranscriptFailed("u1", "The engine broke."))
    assert event["type"].endswith(".failed")
    assert event["error"] == {"type": "server_error", "message": "The engine broke."}
    assert (event["item_id"], event["content_index"]) == ("u1", 0)


def test_transcripts_are_not_sent_once_they_were_switched_off() -> None:
    driver = Driver().started()
    driver.update({"audio": {"input": {"transcription": None}}})
    driver.say(SessionUpdated(driver.config))
    assert driver.say(TranscriptDelta("u1", "x"), TranscriptCompleted("u1", "x", 1.0)) == []


def test_item_requests_are_confirmed() -> None:
    driver = Driver().started()
    texts = (Part(PartKind.TEXT, "a"),)
    events = driver.say(
        AudioCleared(),
        ItemAdded(Item("s1", Role.SYSTEM, texts), "u1"),
        ItemDeleted("u1"),
        ItemRetrieved(Item("a1", Role.ASSISTANT, texts, ItemStatus.INCOMPLETE)),
        ItemTruncated("a1", 1480, 0),
    )
    assert types(events) == [
        "input_audio_buffer.cleared",
        "conversation.item.added",
        "conversation.item.deleted",
        "conversation.item.retrieved",
        "conversation.item.truncated",
    ]
    assert events[1]["previous_item_id"] == "u1"
    assert events[1]["item"]["content"] == [{"type": "input_text", "text": "a"}]
    assert events[3]["item"]["content"] == [{"type": "output_text", "text": "a"}]
    assert events[3]["item"]["status"] == "incomplete"
    assert events[4]["audio_end_ms"] == 1480
