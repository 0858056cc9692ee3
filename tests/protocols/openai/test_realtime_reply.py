"""How a reply is told: its order, its deltas, its end."""

import base64
from typing import Any

import numpy as np
import pytest

from protocols.audio_formats import AudioDecoder, AudioFormat, Encoding, Samples
from streams.config import ResponseOptions
from streams.errors import SessionErrorCode
from streams.events import (
    AudioDelta,
    Item,
    ItemStatus,
    OutputDone,
    OutputStarted,
    Part,
    PartKind,
    PlaybackCleared,
    ResponseDone,
    ResponseReason,
    ResponseStarted,
    ResponseStatus,
    Role,
    SessionOutput,
    SessionUpdated,
    TextDelta,
    UpdateSession,
    Usage,
)
from tests.protocols.realtime_driver import Driver, types

TONE = (np.sin(np.arange(2_400) / 10) / 2).astype(np.float32)


def begun(options: ResponseOptions = ResponseOptions()) -> list[SessionOutput]:  # noqa: B008
    item = Item("a1", Role.ASSISTANT, (), ItemStatus.IN_PROGRESS)
    return [ResponseStarted("r1", options), OutputStarted("r1", item, "u1")]


def ended(
    status: ResponseStatus = ResponseStatus.COMPLETED,
    kind: PartKind = PartKind.AUDIO,
    options: ResponseOptions = ResponseOptions(),  # noqa: B008
    **more: Any,
) -> list[SessionOutput]:
    complete = status is ResponseStatus.COMPLETED
    item_status = ItemStatus.COMPLETED if complete else ItemStatus.INCOMPLETE
    item = Item("a1", Role.ASSISTANT, (Part(kind, "Hello there"),), item_status)
    return [
        OutputDone("r1", item, "u1"),
        ResponseDone("r1", status, (item,), options, **more),
    ]


def audio_in(events: list[dict[str, Any]], wire: AudioFormat) -> Samples:
    decoder = AudioDecoder(wire)
    pieces = [
        decoder.push(base64.b64decode(event["delta"]))
        for event in events
        if event["type"] == "response.output_audio.delta"
    ]
    decoder.finish()
    assert decoder.dropped_bytes == 0
    return np.concatenate(pieces)


def test_spoken_reply_is_told_in_upstreams_order() -> None:
    driver = Driver().started()
    events = driver.say(
        *begun(),
        TextDelta("r1", "a1", "Hello"),
        AudioDelta("r1", "a1", TONE, 24_000, 0),
        TextDelta("r1", "a1", " there"),
        AudioDelta("r1", "a1", TONE, 24_000, 2_400),
        *ended(usage=Usage(120, 7, 100, 200)),
    )
    assert types(events) == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    created, added, done = events[0]["response"], events[1], events[-1]["response"]
    assert created["status"] == "in_progress"
    assert created["output"] == [] and created["usage"] is None
    assert added["item"]["status"] == "in_progress" and added["item"]["content"] == []
    assert events[2]["previous_item_id"] == "u1"
    assert events[3]["part"] == {"type": "audio", "transcript": ""}
    assert events[9]["transcript"] == "Hello there"
    assert events[10]["part"] == {"type": "audio", "transcript": "Hello there"}
    assert done["output"] == [events[11]["item"]] == [events[12]["item"]]
    assert done["output"][0]["content"] == [{"type": "output_audio", "transcript": "Hello there"}]
    assert (done["status"], done["status_details"]) == ("completed", None)
    assert done["conversation_id"].startswith("conv_")
    assert {event["response_id"] for event in events if "response_id" in event} == {"r1"}


def test_usage_holds_every_count() -> None:
    driver = Driver().started()
    done = driver.say(*begun(), *ended(usage=Usage(120, 7, 100, 1_250)))[-1]["response"]
    assert done["usage"] == {
        "total_tokens": 152,
        "input_tokens": 120,
        "output_tokens": 32,
        "input_token_details": {
            "text_tokens": 120,
            "audio_tokens": 0,
            "image_tokens": 0,
            "cached_tokens": 100,
            "cached_tokens_details": {"text_tokens": 100, "audio_tokens": 0, "image_tokens": 0},
        },
        "output_token_details": {"text_tokens": 7, "audio_tokens": 25},
    }


@pytest.mark.parametrize("by_session", [True, False])
def test_text_reply_has_text_events_and_no_audio(by_session: bool) -> None:
    driver = Driver().started()
    options = ResponseOptions(output_audio=None if by_session else False)
    if by_session:
        driver.update({"output_modalities": ["text"]})
        driver.say(SessionUpdated(driver.config))
    events = driver.say(
        *begun(options),
        TextDelta("r1", "a1", "Hello there"),
        *ended(kind=PartKind.TEXT, options=options),
    )
    assert types(events) == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    assert events[3]["part"] == {"type": "text", "text": ""}
    assert events[5]["text"] == "Hello there"
    assert events[-1]["response"]["output_modalities"] == ["text"]


def test_metadata_is_echoed_from_created_to_done() -> None:
    options = ResponseOptions(metadata=(("client_event_id", "c1"),), max_output_tokens=9)
    events = Driver().started().say(*begun(options), *ended(options=options))
    responses = [event["response"] for event in events if "response" in event]
    assert [shown["metadata"] for shown in responses] == [{"client_event_id": "c1"}] * 2
    assert [shown["max_output_tokens"] for shown in responses] == [9, 9]


@pytest.mark.parametrize(
    ("wire", "audio_format", "tolerance"),
    [
        ({"type": "audio/pcm", "rate": 24000}, AudioFormat(Encoding.PCM16, 24_000), 1e-4),
        ({"type": "audio/pcm", "rate": 48000}, AudioFormat(Encoding.PCM16, 48_000), 1e-4),
        ({"type": "audio/pcmu"}, AudioFormat(Encoding.MULAW, 8_000), 0.02),
        ({"type": "audio/pcma"}, AudioFormat(Encoding.ALAW, 8_000), 0.02),
    ],
)
def test_audio_goes_out_in_the_sessions_format(
    wire: dict[str, Any], audio_format: AudioFormat, tolerance: float
) -> None:
    driver = Driver().started()
    driver.own_rate = True
    (update,) = driver.update({"audio": {"output": {"format": wire}}})
    assert isinstance(update, UpdateSession)
    assert update.config.output_rate_hz == audio_format.rate_hz
    driver.say(SessionUpdated(update.config))
    events = driver.say(*begun(), AudioDelta("r1", "a1", TONE, audio_format.rate_hz, 0))
    assert np.abs(audio_in(events, audio_format) - TONE).max() < tolerance


def test_long_audio_is_cut_into_small_frames_of_whole_samples() -> None:
    driver = Driver().started()
    long = np.tile(TONE, 200)  # 20 s at once
    events = driver.say(*begun(), AudioDelta("r1", "a1", long, 24_000, 0))
    deltas = [event["delta"] for event in events if "audio.delta" in event["type"]]
    assert max(map(len, deltas)) < 256 * 1024 - 1024
    assert all(len(base64.b64decode(delta)) % 2 == 0 for delta in deltas)
    assert len(audio_in(events, AudioFormat(Encoding.PCM16, 24_000))) == len(long)


def test_reply_keeps_the_format_that_it_began_with() -> None:
    driver = Driver().started()
    driver.say(*begun())
    (update,) = driver.update({"audio": {"output": {"format": {"type": "audio/pcmu"}}}})
    assert isinstance(update, UpdateSession)
    driver.say(SessionUpdated(update.config))
    events = driver.say(AudioDelta("r1", "a1", TONE, 24_000, 0))
    assert len(audio_in(events, AudioFormat(Encoding.PCM16, 24_000))) == len(TONE)


@pytest.mark.parametrize(
    ("status", "more", "details"),
    [
        (
            ResponseStatus.CANCELLED,
            {"reason": ResponseReason.TURN_DETECTED},
            {"type": "cancelled", "reason": "turn_detected"},
        ),
        (
            ResponseStatus.CANCELLED,
            {"reason": ResponseReason.CLIENT_CANCELLED},
            {"type": "cancelled", "reason": "client_cancelled"},
        ),
        (
            ResponseStatus.INCOMPLETE,
            {"reason": ResponseReason.MAX_OUTPUT_TOKENS},
            {"type": "incomplete", "reason": "max_output_tokens"},
        ),
        (
            ResponseStatus.FAILED,
            {"error_code": SessionErrorCode.TIMEOUT, "error_message": "Too slow."},
            {
                "type": "failed",
                "error": {"type": "server_error", "code": "timeout", "message": "Too slow."},
            },
        ),
    ],
)
def test_reply_that_did_not_complete_says_why(
    status: ResponseStatus, more: dict[str, Any], details: dict[str, Any]
) -> None:
    events = Driver().started().say(*begun(), *ended(status, **more))
    done = events[-1]["response"]
    assert done["status"] == str(status)
    assert done["status_details"] == details
    assert done["output"][0]["status"] == "incomplete"
    assert not [event for event in events if event["type"] == "error"]


def test_nothing_follows_the_end_of_an_interrupted_reply() -> None:
    driver = Driver().started()
    driver.say(*begun(), AudioDelta("r1", "a1", TONE, 24_000, 0))
    cancelled = ended(ResponseStatus.CANCELLED, reason=ResponseReason.TURN_DETECTED)
    events = driver.say(PlaybackCleared("r1", "a1"), *cancelled)
    assert types(events)[-1] == "response.done"
    late: list[SessionOutput] = [
        TextDelta("r1", "a1", "late"),
        AudioDelta("r1", "a1", TONE, 24_000, 2_400),
    ]
    assert driver.say(*late) == []


def test_reply_that_ended_before_its_item_lists_none() -> None:
    cancelled = ended(ResponseStatus.CANCELLED, reason=ResponseReason.CLIENT_CANCELLED)
    events = Driver().started().say(ResponseStarted("r1", ResponseOptions()), *cancelled)
    assert types(events) == ["response.created", "response.done"]
    assert events[1]["response"]["output"] == []
