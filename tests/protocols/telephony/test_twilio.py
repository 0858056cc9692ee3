"""Twilio dialogues, replayed frame by frame."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.audio_formats import Encoding, encode, encode_base64
from protocols.telephony.twilio import MAX_FRAME_BYTES, TwilioProtocol, TwilioSettings
from streams.config import ResponseOptions, SessionConfig
from streams.errors import Overloaded, SessionErrorCode
from streams.events import (
    AudioDelta,
    AudioIn,
    DtmfDigit,
    Item,
    ItemStatus,
    OutputDone,
    PlaybackCleared,
    PlaybackProgress,
    ResponseDone,
    ResponseStatus,
    Role,
    SessionClosed,
    SessionInput,
    SessionStarted,
    SpeechStarted,
    TextDelta,
)

TONE = (np.sin(np.arange(1_600) / 4) / 2).astype(np.float32)  # 200 ms
PAYLOAD = encode_base64(encode(TONE[:160], Encoding.MULAW))
ITEM = Item("i1", Role.ASSISTANT, (), ItemStatus.INCOMPLETE)


class Caller:
    """Is Twilio's side of a stream and the session core, the real protocol between."""

    def __init__(self, **settings: Any) -> None:
        self.protocol = TwilioProtocol(TwilioSettings(**settings))

    def sends(self, event: str, **fields: Any) -> list[SessionInput]:
        frame = {"event": event, "sequenceNumber": "4", "streamSid": "MZ1", **fields}
        return self.protocol.receive_text(json.dumps(frame))

    def starts(self, **more: Any) -> "Caller":
        self.sends("connected", protocol="Call", version="1.0.0")
        start = {
            "streamSid": "MZ1",
            "accountSid": "AC1",
            "callSid": "CA1",
            "tracks": ["inbound"],
            "customParameters": {},
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
        }
        assert self.sends("start", start={**start, **more}) == []
        return self

    def speaks(self, chunk: int | None, payload: str = PAYLOAD, **more: Any) -> list[SessionInput]:
        number = {} if chunk is None else {"chunk": str(chunk)}
        media = {"track": "inbound", "timestamp": "20", "payload": payload, **number, **more}
        return self.sends("media", media=media)

    def hears(self, *outputs: Any) -> list[dict[str, Any]]:
        for output in outputs:
            self.protocol.receive_output(output)
        return self.protocol.events_to_send()


def speech(start: int, samples: int = 1_600, reply: str = "r1") -> AudioDelta:
    return AudioDelta(reply, "i1", np.resize(TONE, samples), 8_000, start)


def events(messages: list[dict[str, Any]]) -> list[str]:
    return [message["event"] for message in messages]


# ---------------------------------------------------------------- the start


def test_start_names_the_call_and_opens_an_8_khz_session() -> None:
    base = SessionConfig(instructions="Be brief.", output_audio=False)
    caller = Caller(base=base).starts()
    call = caller.protocol.call
    assert call is not None and (call.stream_id, call.call_id) == ("MZ1", "CA1")
    assert caller.protocol.config() == SessionConfig(
        instructions="Be brief.", output_audio=True, output_rate_hz=8_000
    )


@pytest.mark.parametrize(
    ("parameters", "taken"),
    [({"token": "t0"}, True), ({"token": "t1"}, False), ({"token": "tü"}, False), ({}, False)],
)
def test_token_parameter_must_match_where_one_is_set(
    parameters: dict[str, str], taken: bool
) -> None:
    protocol = Caller(stream_token="t0").starts(customParameters=parameters).protocol
    assert (protocol.call is not None) is taken
    if not taken:
        assert protocol.close is not None and protocol.close.code == 1008


def test_media_before_start_is_refused() -> None:
    caller = Caller()
    assert caller.speaks(1) == []
    assert caller.protocol.close is not None and caller.protocol.close.code == 1008
    caller.starts()
    assert caller.protocol.call is None


def test_start_that_does_not_come_in_time_ends_the_stream() -> None:
    caller = Caller()
    caller.protocol.time_out()
    assert caller.protocol.close is not None and caller.protocol.close.code == 1008


def test_other_encoding_than_mulaw_is_refused_with_the_reason() -> None:
    line = {"encoding": "audio/l16", "sampleRate": 16000, "channels": 1}
    close = Caller().starts(mediaFormat=line).protocol.close
    assert close is not None and "audio/x-mulaw" in close.reason


# ---------------------------------------------------------------- from the caller


def test_media_becomes_audio_at_8_khz() -> None:
    (heard,) = Caller().starts().speaks(1)
    assert isinstance(heard, AudioIn) and heard.rate_hz == 8_000
    assert np.abs(heard.samples - TONE[:160]).max() < 0.02


def test_swapped_media_is_put_in_order_and_repeated_media_dropped() -> None:
    caller = Caller().starts()
    marked = [encode_base64(bytes([number]) * 160) for number in range(5)]
    heard = [caller.speaks(number, marked[number]) for number in (1, 3, 2, 2, 4)]
    assert [len(inputs) for inputs in heard] == [1, 0, 1, 0, 1]
    (late,) = heard[2]
    assert isinstance(late, AudioIn) and len(late.samples) == 320
    assert caller.protocol.counters["media_dropped"] == 1


def test_media_without_numbers_is_taken_as_it_comes() -> None:
    caller = Caller().starts()
    assert len(caller.speaks(None)) == len(caller.speaks(None)) == 1


def test_keys_marks_and_hang_up_are_told_to_the_session() -> None:
    caller = Caller().starts()
    assert caller.sends("dtmf", dtmf={"track": "inbound_track", "digit": "#"}) == [DtmfDigit("#")]
    assert caller.sends("mark", mark={"name": "never-sent"}) == []
    assert caller.protocol.close is None
    assert caller.sends("stop", stop={"accountSid": "AC1", "callSid": "CA1"}) == []
    assert caller.protocol.close is not None and caller.protocol.close.code == 1000
    assert caller.speaks(1) == []


@pytest.mark.parametrize(
    "frame",
    [
        "not json",
        "[]",
        '{"event": "brand-new"}',
        '{"event": "media"}',
        '{"event": "media", "streamSid": "MZ1", "media": {"payload": "!!"}}',
        '{"event": "media", "streamSid": "MZ2", "media": {"payload": "/w=="}}',
        '{"event": "media", "streamSid": "MZ1", "media": {"payload": "/w==", "track": "outbound"}}',
        '{"event": "dtmf", "dtmf": {"digit": "12"}}',
        '{"event": "start", "streamSid": "MZ9", "start": {}}',
        "[" * 60_000,
    ],
)
def test_what_is_unknown_or_broken_is_ignored_and_counted(frame: str) -> None:
    caller = Caller().starts()
    assert caller.protocol.receive_text(frame) == []
    assert caller.protocol.counters["messages_ignored"] == 1
    assert caller.protocol.close is None
    assert caller.speaks(1)


def test_oversized_message_ends_the_stream_with_1009() -> None:
    caller = Caller().starts()
    assert caller.protocol.receive_text(" " * (MAX_FRAME_BYTES + 1)) == []
    assert caller.protocol.close is not None and caller.protocol.close.code == 1009


# ---------------------------------------------------------------- to the caller


def test_reply_goes_out_in_20_ms_frames_with_marks_that_report_its_playback() -> None:
    caller = Caller().starts()
    sent = caller.hears(
        SessionStarted("sess_1", caller.protocol.config()),
        TextDelta("r1", "i1", "Hello"),
        speech(0),
        speech(1_600, 700),
        OutputDone("r1", ITEM, None),
        ResponseDone("r1", ResponseStatus.COMPLETED, (ITEM,), ResponseOptions()),
    )
    assert events(sent) == ["media"] * 10 + ["mark"] + ["media"] * 5 + ["mark"]
    assert {message["streamSid"] for message in sent} == {"MZ1"}
    assert sent[0] == {
        "event": "media",
        "streamSid": "MZ1",
        "media": {"payload": encode_base64(encode(TONE[:160], Encoding.MULAW))},
    }
    names = [message["mark"]["name"] for message in sent if message["event"] == "mark"]
    progress = [caller.sends("mark", mark={"name": name})[0] for name in names]
    assert progress == [PlaybackProgress("i1", 200), PlaybackProgress("i1", 287)]


def test_barge_in_drops_what_is_queued_then_clears_and_ignores_returning_marks() -> None:
    caller = Caller().starts()
    first = caller.hears(speech(0))
    caller.protocol.receive_output(speech(1_600))  # made, not sent yet
    sent = caller.hears(
        SpeechStarted("u2", 900),
        PlaybackCleared("r1", "i1"),
        speech(3_200),
        OutputDone("r1", ITEM, None),
    )
    assert sent == [{"event": "clear", "streamSid": "MZ1"}]
    (mark,) = [message["mark"] for message in first if message["event"] == "mark"]
    assert caller.sends("mark", mark=mark) == []
    assert events(caller.hears(speech(0, reply="r2"))) == ["media"] * 10 + ["mark"]


def test_clear_is_sent_even_when_the_reply_was_complete() -> None:
    caller = Caller().starts()
    done = ResponseDone("r1", ResponseStatus.COMPLETED, (ITEM,), ResponseOptions())
    caller.hears(speech(0), OutputDone("r1", ITEM, None), done)
    assert events(caller.hears(PlaybackCleared("r1", "i1"))) == ["clear"]


@pytest.mark.parametrize(
    ("code", "close_code"),
    [(None, 1000), (SessionErrorCode.IDLE, 4408), (SessionErrorCode.DRAINING, 1012)],
)
def test_end_of_the_session_ends_the_stream(code: SessionErrorCode | None, close_code: int) -> None:
    caller = Caller().starts()
    assert caller.hears(SessionClosed(code, "Why.")) == []
    assert caller.protocol.close is not None and caller.protocol.close.code == close_code


def test_full_server_ends_the_stream_with_1013() -> None:
    caller = Caller().starts()
    caller.protocol.refuse(Overloaded("All is full."))
    assert caller.protocol.close is not None and caller.protocol.close.code == 1013


NUMBERS = st.integers() | st.text(max_size=5) | st.none()
FIELDS = st.fixed_dictionaries(
    {"event": st.sampled_from(["start", "media", "mark", "dtmf", "stop", "connected", "x"])},
    optional={
        "streamSid": st.sampled_from(["MZ1", "", "\ud800"]) | NUMBERS,
        "media": st.dictionaries(st.sampled_from(["payload", "chunk", "track"]), NUMBERS),
        "start": st.dictionaries(
            st.sampled_from(["customParameters", "mediaFormat"]),
            NUMBERS | st.dictionaries(st.just("token"), NUMBERS | st.just("\ud800")),
        ),
        "mark": st.dictionaries(st.just("name"), NUMBERS),
        "dtmf": st.dictionaries(st.just("digit"), NUMBERS),
    },
)


@given(st.lists(FIELDS, max_size=6), st.booleans())
def test_no_message_raises(messages: list[dict[str, Any]], started: bool) -> None:
    caller = Caller(stream_token=None if started else "t")
    if started:
        caller.starts()
    for message in messages:
        caller.protocol.receive_text(json.dumps(message))
    json.dumps(caller.protocol.events_to_send())
