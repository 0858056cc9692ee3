from dataclasses import replace

import numpy as np
import pytest

from asr.config import GuardConfig
from asr.evidence import VoiceEvidence
from asr.guards import (
    Decoded,
    compression_ratio,
    heard_nothing,
    is_doubtful,
    is_looping,
    is_no_speech,
    loop_start,
    token_budget,
    without_loop,
)

CONFIG = GuardConfig()
SOUND = Decoded("and so my fellow americans", (1, 2, 3, 4, 5), True, 0.01, -0.2)
NO_VOICE = VoiceEvidence(voiced_ms=0.0, peak_prob=0.2)
BRIEF = VoiceEvidence(voiced_ms=64.0, peak_prob=0.7)
CLEAR = VoiceEvidence(voiced_ms=1500.0, peak_prob=0.99)


def test_the_budget_grows_with_the_audio_up_to_the_limit():
    assert token_budget(0.0, 224, CONFIG) == CONFIG.tokens_floor
    assert token_budget(1.0, 224, CONFIG) == CONFIG.tokens_floor + 12
    assert token_budget(30.0, 224, CONFIG) == 224


@pytest.mark.parametrize(
    ("ids", "start"),
    [
        ([], None),
        (range(100), None),
        ([7] * 12, 1),
        ([7] * 11, None),
        ([1, 2, 3] + [7] * 12, 4),
        ([1] + [5, 6] * 6, 3),
        ([1] + [5, 6] * 5, None),
        ([1] + [5, 6, 8] * 4, 4),
        ([9] + [5, 6, 8] * 4 + [5, 6], 4),  # the last turn is cut off
        ([5, 6, 8] * 3, None),
        ([5, 6] * 6 + [1], None),  # went on: no loop at the end
        (list(range(20)) * 4, 20),
        (list(range(30)) * 4, None),  # longer than what is looked for: left to zlib
    ],
)
def test_a_loop_is_found_where_its_first_turn_ends(ids, start):
    assert loop_start(list(ids), CONFIG) == start


def test_a_word_said_five_times_is_speech():
    assert loop_start([1734, 11] * 5, CONFIG) is None


def test_a_loop_is_cut_to_one_turn():
    assert without_loop((1, *(5, 6, 8) * 5), CONFIG) == (1, 5, 6, 8)
    assert without_loop((1, 2, 3), CONFIG) == (1, 2, 3)


def test_repeated_sentences_compress_and_speech_does_not():
    speech = "ask not what your country can do for you ask what you can do for your country"
    assert compression_ratio(speech) < 2.4 < compression_ratio("damn son " * 20)
    assert compression_ratio("") == 0.0


def test_loops_are_seen_in_ids_and_in_text():
    assert not is_looping(SOUND, CONFIG)
    assert is_looping(replace(SOUND, ids=(4,) * 20), CONFIG)
    assert is_looping(replace(SOUND, text="you know what I mean " * 12), CONFIG)


def test_a_sound_decode_is_not_doubtful():
    assert not is_doubtful(SOUND, CONFIG)


@pytest.mark.parametrize(
    "change",
    [{"complete": False}, {"avg_logprob": -1.21}, {"ids": (4,) * 20}, {"text": "oh " * 200}],
)
def test_a_decode_is_doubtful_for_each_reason_alone(change):
    assert is_doubtful(replace(SOUND, **change), CONFIG)


def test_an_engine_without_logprobs_is_not_doubted_for_it():
    assert not is_doubtful(replace(SOUND, avg_logprob=None), CONFIG)


def test_digital_silence_and_no_samples_are_heard_as_nothing():
    assert heard_nothing(np.zeros(640, dtype=np.float32), None, CONFIG)
    assert heard_nothing(np.zeros(0, dtype=np.float32), CLEAR, CONFIG)


def test_quiet_audio_is_decoded_unless_the_voice_detector_rules_it_out():
    quiet = np.full(640, 0.001, dtype=np.float32)
    assert not heard_nothing(quiet, None, CONFIG)
    assert not heard_nothing(quiet, VoiceEvidence(0.0, CONFIG.silent_peak), CONFIG)
    assert heard_nothing(quiet, VoiceEvidence(0.0, CONFIG.silent_peak - 0.01), CONFIG)


def test_empty_text_is_no_speech_whatever_was_heard():
    assert is_no_speech(replace(SOUND, text=""), CLEAR, CONFIG)


@pytest.mark.parametrize(
    ("evidence", "no_speech_prob", "avg_logprob", "silent"),
    [
        # No voice heard, or nobody asked: doubt about speech needs sure words.
        (None, 0.8, -0.7, True),
        (NO_VOICE, 0.8, -0.7, True),
        (BRIEF, 0.8, -0.7, True),
        (NO_VOICE, 0.8, -0.3, False),
        (NO_VOICE, 0.5, -1.2, False),
        (NO_VOICE, 0.5, -1.4, True),
        (NO_VOICE, None, -1.4, True),
        (NO_VOICE, 0.8, None, True),
        (NO_VOICE, None, None, False),
        # A voice heard: only doubt about both.
        (CLEAR, 0.8, -0.7, False),
        (CLEAR, 0.8, -1.1, True),
        (CLEAR, 0.5, -2.0, False),
        (CLEAR, 0.8, None, False),
    ],
)
def test_voice_and_model_decide_together(evidence, no_speech_prob, avg_logprob, silent):
    decoded = replace(SOUND, no_speech_prob=no_speech_prob, avg_logprob=avg_logprob)
    assert is_no_speech(decoded, evidence, CONFIG) is silent


def test_the_confidence_of_a_loop_counts_for_nothing():
    loop = replace(SOUND, ids=(4,) * 20, no_speech_prob=0.8, avg_logprob=-0.01)
    assert is_no_speech(loop, NO_VOICE, CONFIG)
    assert not is_no_speech(loop, CLEAR, CONFIG)
