import numpy as np
import pytest

from antiphon.spoken_turn import SpokenTurn, end_of_speech
from tests.support.scripted_realtime import WireEvent, one_turn


def take_all(turn: SpokenTurn, events: list[WireEvent]) -> None:
    for second, event in enumerate(events):
        turn.take(event, float(second))


def test_end_of_speech_is_the_last_sample_above_the_share_of_the_peak() -> None:
    samples = np.zeros(16_000, np.float32)
    samples[1_000:8_000] = 0.5
    samples[8_000:] = 0.005  # room, 40 dB below
    assert end_of_speech(samples, 16_000) == 0.5


def test_end_of_speech_of_silence_is_zero() -> None:
    assert end_of_speech(np.zeros(100, np.float32), 16_000) == 0.0


def test_turn_notes_words_sound_and_the_time_of_each_stage() -> None:
    turn = SpokenTurn(spoken_s=0.5, started_s=1.0)
    take_all(turn, one_turn("hello there", "General Kenobi."))
    assert (turn.transcript, turn.reply) == ("hello there", "General Kenobi.")
    assert (turn.stopped_s, turn.final_s) == (2.0, 4.0)
    assert (turn.first_text_s, turn.first_audio_s, turn.done_s) == (6.0, 7.0, 8.0)
    assert turn.after_speech_ms(turn.stopped_s) == 500.0
    assert len(turn.sound) == 12_000
    assert 0.2 < np.abs(turn.sound).max() < 0.25


def test_turn_is_settled_only_when_the_reply_is_done() -> None:
    turn = SpokenTurn()
    *most, last = one_turn()
    for event in most:
        turn.take(event, 1.0)
        assert not turn.settled
    turn.take(last, 1.0)
    assert turn.settled


def test_words_after_a_pause_take_the_first_reply_back() -> None:
    turn = SpokenTurn()
    take_all(turn, one_turn("ask not", "What?"))
    second = one_turn("what your country", "A fine speech.")
    for event in second:
        if event.get("item_id") == "u1":
            event["item_id"] = "u2"
    turn.take(second[0], 20.0)
    assert not turn.settled
    assert turn.done_s is None
    take_all(turn, second[1:])
    assert turn.transcript == "ask not what your country"
    assert turn.reply == "A fine speech."
    assert turn.settled


def test_cancelled_reply_does_not_settle_the_turn() -> None:
    turn = SpokenTurn()
    events = one_turn()
    events[-1] = {"type": "response.done", "response": {"status": "cancelled"}}
    take_all(turn, events)
    assert not turn.settled


def test_noise_without_words_settles_without_a_reply() -> None:
    turn = SpokenTurn()
    take_all(turn, [e for e in one_turn("") if not e["type"].startswith("response")])
    assert turn.settled
    assert turn.transcript == ""


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ({"type": "error", "error": {"message": "no room"}}, "no room"),
        (
            {
                "type": "response.done",
                "response": {
                    "status": "failed",
                    "status_details": {"error": {"message": "engine died"}},
                },
            },
            "engine died",
        ),
        (
            {
                "type": "conversation.item.input_audio_transcription.failed",
                "item_id": "u1",
                "error": {"message": "too slow"},
            },
            "too slow",
        ),
    ],
)
def test_failure_is_told_in_the_servers_words_and_settles(event: WireEvent, says: str) -> None:
    turn = SpokenTurn()
    turn.take(event, 1.0)
    assert turn.failure == says
    assert turn.settled
