"""Replays speech probabilities chunk by chunk; one chunk is 512 samples, 32 ms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.config import CHUNK_SAMPLES, EndpointingConfig
from asr.endpointing import Endpointer, EndpointEvent, Pause, Resume, SpeechEnd, SpeechStart

VOICE, QUIET = 0.9, 0.02
NO_PREROLL = EndpointingConfig(prefix_padding_ms=0)


def replay(endpointer: Endpointer, probs: list[float]) -> list[EndpointEvent]:
    return [event for prob in probs for event in endpointer.push(prob)]


def test_two_voiced_chunks_start_a_turn_at_the_first_of_them():
    endpointer = Endpointer(NO_PREROLL)
    assert replay(endpointer, [QUIET] * 10 + [VOICE]) == []
    assert endpointer.push(VOICE) == [SpeechStart(10 * CHUNK_SAMPLES)]
    assert endpointer.in_speech


def test_onset_is_known_after_64_ms_of_voice():
    endpointer = Endpointer(EndpointingConfig())
    replay(endpointer, [QUIET] * 100)
    voiced = 0
    while not endpointer.in_speech:
        endpointer.push(VOICE)
        voiced += 1
    assert voiced * 32 == 64


def test_one_loud_chunk_is_a_click_and_starts_nothing():
    assert replay(Endpointer(NO_PREROLL), [QUIET, 1.0, QUIET, 1.0, QUIET]) == []


def test_preroll_is_subtracted_from_the_start():
    endpointer = Endpointer(EndpointingConfig(prefix_padding_ms=320))
    events = replay(endpointer, [QUIET] * 20 + [VOICE] * 2)
    assert events == [SpeechStart(20 * CHUNK_SAMPLES - 5120)]


def test_preroll_stops_at_the_beginning_of_the_stream():
    assert replay(Endpointer(EndpointingConfig()), [VOICE] * 2) == [SpeechStart(0)]


def test_preroll_stops_at_the_end_of_the_turn_before():
    endpointer = Endpointer(EndpointingConfig(silence_ms=96, prefix_padding_ms=5000))
    events = replay(endpointer, [VOICE] * 5 + [QUIET] * 4 + [VOICE] * 2)
    assert events[1:] == [SpeechEnd(5 * CHUNK_SAMPLES), SpeechStart(5 * CHUNK_SAMPLES)]


def test_silence_gives_a_pause_then_the_end_where_speech_ended():
    endpointer = Endpointer(EndpointingConfig(pause_ms=160, silence_ms=500))
    replay(endpointer, [VOICE] * 10)
    seen = [(index, endpointer.push(QUIET)) for index in range(1, 20)]
    told = [(index, events) for index, events in seen if events]
    end = 10 * CHUNK_SAMPLES
    # 160 ms are 5 chunks; 500 ms are reached in the 16th.
    assert told == [(5, [Pause(end)]), (16, [SpeechEnd(end)])]
    assert not endpointer.in_speech


def test_voice_after_a_pause_resumes_and_a_second_pause_is_told_again():
    endpointer = Endpointer(NO_PREROLL)
    events = replay(endpointer, [VOICE] * 4 + [QUIET] * 6 + [VOICE] * 3 + [QUIET] * 6)
    assert events == [
        SpeechStart(0),
        Pause(4 * CHUNK_SAMPLES),
        Resume(10 * CHUNK_SAMPLES),
        Pause(13 * CHUNK_SAMPLES),
    ]


def test_a_gap_shorter_than_a_pause_says_nothing():
    events = replay(Endpointer(NO_PREROLL), [VOICE] * 4 + [QUIET] * 4 + [VOICE] * 4)
    assert events == [SpeechStart(0)]


def test_soft_voice_above_the_lower_threshold_keeps_the_turn():
    endpointer = Endpointer(EndpointingConfig(threshold=0.5, hysteresis=0.15))
    assert replay(endpointer, [VOICE] * 2 + [0.36] * 100) == [SpeechStart(0)]


def test_soft_noise_below_the_threshold_does_not_break_a_silence():
    endpointer = Endpointer(NO_PREROLL)
    events = replay(endpointer, [VOICE] * 2 + [QUIET] + [0.45] * 20)
    assert events == [SpeechStart(0), Pause(2 * CHUNK_SAMPLES), SpeechEnd(2 * CHUNK_SAMPLES)]


def test_soft_voice_never_starts_a_turn():
    assert replay(Endpointer(NO_PREROLL), [0.49] * 100) == []


def test_silence_shorter_than_the_pause_ends_without_a_pause():
    endpointer = Endpointer(EndpointingConfig(pause_ms=160, silence_ms=64))
    events = replay(endpointer, [VOICE] * 2 + [QUIET] * 10)
    assert events == [SpeechStart(0), SpeechEnd(2 * CHUNK_SAMPLES)]


def test_reset_in_a_turn_forgets_it_and_later_preroll_stays_behind_the_reset():
    endpointer = Endpointer(EndpointingConfig(prefix_padding_ms=5000))
    replay(endpointer, [VOICE] * 10)
    endpointer.reset()
    assert not endpointer.in_speech
    assert replay(endpointer, [QUIET] * 40) == []
    assert replay(endpointer, [VOICE] * 2) == [SpeechStart(10 * CHUNK_SAMPLES)]


def test_reset_to_a_position_counts_on_from_there():
    endpointer = Endpointer(NO_PREROLL)
    endpointer.reset(position=16_000)
    assert replay(endpointer, [VOICE] * 2) == [SpeechStart(16_000)]
    assert endpointer.position == 16_000 + 2 * CHUNK_SAMPLES


@pytest.mark.parametrize("chunks", [1, 3])
def test_start_chunks_is_a_knob(chunks):
    endpointer = Endpointer(EndpointingConfig(start_chunks=chunks))
    assert replay(endpointer, [VOICE] * (chunks - 1)) == []
    assert endpointer.push(VOICE) == [SpeechStart(0)]


@given(st.lists(st.floats(0, 1), max_size=300))
def test_any_audio_gives_turns_in_order_that_do_not_overlap(probs):
    endpointer = Endpointer(EndpointingConfig())
    last_end, in_turn, paused = 0, False, False
    for index, prob in enumerate(probs):
        for event in endpointer.push(prob):
            match event:
                case SpeechStart(start_sample=start):
                    assert not in_turn and last_end <= start <= index * CHUNK_SAMPLES
                    in_turn, paused = True, False
                case SpeechEnd(end_sample=end):
                    assert in_turn and last_end < end <= index * CHUNK_SAMPLES
                    last_end, in_turn = end, False
                case Pause():
                    assert in_turn and not paused
                    paused = True
                case Resume():
                    assert in_turn and paused
                    paused = False
    assert endpointer.in_speech is in_turn
