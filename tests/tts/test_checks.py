"""Plausibility of speech, and the silence at its ends."""

import numpy as np
import pytest

from engines.base import Samples
from tests.support.scripted_engines import tone
from tts.checks import (
    AFTER_SENTENCE,
    WITHIN_SENTENCE,
    Flaw,
    SilenceLimits,
    expected_duration_s,
    find_flaw,
    limits_after,
    shape_silence,
)

RATE_HZ = 22_050
TEXT = "This is a sentence of some length."


def silence(duration_s: float) -> Samples:
    return np.zeros(round(duration_s * RATE_HZ), np.float32)


def duration_s(samples: Samples) -> float:
    return len(samples) / RATE_HZ


@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
def test_speech_of_the_expected_length_has_no_flaw(speed: float) -> None:
    samples = tone(expected_duration_s(TEXT, speed), RATE_HZ)
    assert find_flaw(samples, RATE_HZ, TEXT, speed) is None


@pytest.mark.parametrize(
    ("samples", "flaw"),
    [
        (silence(2.0), Flaw.SILENT),
        (silence(0.0), Flaw.SILENT),
        (tone(0.04, RATE_HZ), Flaw.TOO_SHORT),
        (tone(12.0, RATE_HZ), Flaw.TOO_LONG),
        (np.full(RATE_HZ, np.nan, np.float32), Flaw.NOT_FINITE),
    ],
)
def test_implausible_speech_is_named(samples: Samples, flaw: Flaw) -> None:
    assert find_flaw(samples, RATE_HZ, TEXT) is flaw


def test_one_drawn_out_word_is_plausible() -> None:
    assert find_flaw(tone(1.2, RATE_HZ), RATE_HZ, "Hi") is None


def test_a_letter_that_is_a_syllable_takes_longer() -> None:
    assert expected_duration_s("\u306f\u3044") > expected_duration_s("ha")


def test_long_silence_at_the_ends_is_cut_to_its_limits() -> None:
    speech = np.concatenate([silence(0.8), tone(1.0, RATE_HZ), silence(0.9)])
    shaped = shape_silence(speech, RATE_HZ, SilenceLimits(lead_max_s=0.05, tail_max_s=0.1))
    assert duration_s(shaped) == pytest.approx(1.15, abs=0.03)


def test_a_soft_consonant_at_the_end_stays() -> None:
    rng = np.random.default_rng(0)
    hiss = (0.002 * rng.standard_normal(round(0.15 * RATE_HZ))).astype(np.float32)
    speech = np.concatenate([tone(0.5, RATE_HZ, 0.3), hiss, silence(0.5)])
    shaped = shape_silence(speech, RATE_HZ, SilenceLimits(tail_max_s=0.0))
    assert duration_s(shaped) == pytest.approx(0.65, abs=0.02)


def test_a_pause_is_added_after_a_sentence_that_ends_abruptly() -> None:
    shaped = shape_silence(tone(1.0, RATE_HZ), RATE_HZ, AFTER_SENTENCE)
    assert duration_s(shaped) == pytest.approx(1.0 + AFTER_SENTENCE.tail_min_s, abs=0.02)


def test_what_is_cut_ends_without_a_click() -> None:
    noisy = tone(1.0, RATE_HZ) + 1e-4  # a constant that a hard cut would make audible
    shaped = shape_silence(
        np.concatenate([silence(0.5) + 1e-4, noisy, silence(0.5) + 1e-4]).astype(np.float32),
        RATE_HZ,
        WITHIN_SENTENCE,
    )
    assert shaped[0] == 0.0
    assert shaped[-1] == 0.0


@pytest.mark.parametrize("samples", [silence(0.0), silence(0.5)])
def test_silence_alone_is_left_as_it_is(samples: Samples) -> None:
    assert len(shape_silence(samples, RATE_HZ, WITHIN_SENTENCE)) == len(samples)


@pytest.mark.parametrize(
    ("text", "limits"),
    [("It is.", AFTER_SENTENCE), ('"Is it?"', AFTER_SENTENCE), ("If so,", WITHIN_SENTENCE)],
)
def test_the_pause_depends_on_how_the_text_ends(text: str, limits: SilenceLimits) -> None:
    assert limits_after(text) is limits
