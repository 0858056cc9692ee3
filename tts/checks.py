"""Looks over what a voice made: is it speech of a likely length, and how silent are its ends."""

import unicodedata
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from engines.base import Samples

FRAME_S = 0.01
_SILENT_PEAK = 1e-3  # -60 dBFS; a voice peaks above -10 dBFS
# Speech runs at about 15 letters a second (0.067 s each, measured on the embedded voice;
# single words take up to 0.26 s a letter). A letter of an uncased script (kana, Han, ...)
# is closer to a syllable.
_LETTER_S = 0.067
_UNCASED_LETTER_S = 0.18
_SHORTEST, _LONGEST, _LONGEST_EXTRA_S = 0.4, 3.0, 1.2
# Relative to the loudest frame. A final "s", "f" or "th" of the embedded voice is 25 to
# 45 dB down, its pauses are 70 to 80 dB down.
_AUDIBLE_DB = -55.0
_FADE_S = 0.005


class Flaw(StrEnum):
    """Says what is wrong with a piece of speech."""

    NOT_FINITE = "not_finite"
    SILENT = "silent"
    TOO_SHORT = "too_short"  # the text was not spoken to its end
    TOO_LONG = "too_long"  # babble went on after the text


@dataclass(frozen=True, slots=True)
class SilenceLimits:
    """Bounds the silence at the ends of a piece of speech, in seconds.

    Attributes:
        lead_max_s: more silence than this before the first sound is cut.
        tail_min_s, tail_max_s: silence after the last sound is padded or cut to this range.
    """

    lead_max_s: float = 0.05
    tail_min_s: float = 0.0
    tail_max_s: float = 0.12


WITHIN_SENTENCE = SilenceLimits()
AFTER_SENTENCE = SilenceLimits(tail_min_s=0.2, tail_max_s=0.35)


def expected_duration_s(spoken: str, speed: float = 1.0) -> float:
    """Estimates how long a text takes to say, from its letters; silence not counted."""
    categories = [unicodedata.category(character) for character in spoken]
    cased = sum(category in ("Ll", "Lu", "Lt", "Nd") for category in categories)
    return (cased * _LETTER_S + categories.count("Lo") * _UNCASED_LETTER_S) / speed


def find_flaw(samples: Samples, rate_hz: int, spoken: str, speed: float = 1.0) -> Flaw | None:
    """Returns what is wrong with the speech of `spoken`; None if it is plausible.

    Args:
        samples: mono, shape (samples,).
        rate_hz: rate of the samples.
        spoken: the text that was to be said, in spoken form.
        speed: pace asked for.
    """
    if not np.isfinite(samples).all():
        return Flaw.NOT_FINITE
    if len(samples) == 0 or float(np.abs(samples).max()) < _SILENT_PEAK:
        return Flaw.SILENT
    duration_s = len(samples) / rate_hz
    expected_s = expected_duration_s(spoken, speed)
    if duration_s < _SHORTEST * expected_s:
        return Flaw.TOO_SHORT
    if duration_s > _LONGEST * expected_s + _LONGEST_EXTRA_S / speed:
        return Flaw.TOO_LONG
    return None


def limits_after(spoken: str) -> SilenceLimits:
    """Chooses the pause that follows a text, by how it ends."""
    ends = spoken.rstrip("\"')").endswith((".", "!", "?", "\u3002", "\uff01", "\uff1f"))
    return AFTER_SENTENCE if ends else WITHIN_SENTENCE


def shape_silence(samples: Samples, rate_hz: int, limits: SilenceLimits) -> Samples:
    """Brings the silence at both ends within limits; soft consonants stay.

    Args:
        samples: mono, shape (samples,).
        rate_hz: rate of the samples.
        limits: in seconds.

    Returns:
        The samples from `lead_max_s` before the first sound to between `tail_min_s` and
        `tail_max_s` after the last one, with a short fade where something was cut.
    """
    sound = _sound_range(samples, rate_hz)
    if sound is None:
        return samples
    first, last = sound
    start = max(0, first - round(limits.lead_max_s * rate_hz))
    end = min(len(samples), last + round(limits.tail_max_s * rate_hz))
    shaped = samples[start:end].copy()
    fade = min(round(_FADE_S * rate_hz), len(shaped) // 2)
    ramp = np.linspace(0.0, 1.0, fade, dtype=np.float32)
    if start > 0:
        shaped[:fade] *= ramp
    if end < len(samples) and fade:
        shaped[-fade:] *= ramp[::-1]
    missing = round(limits.tail_min_s * rate_hz) - (end - last)
    return np.pad(shaped, (0, max(0, missing)))


def _sound_range(samples: Samples, rate_hz: int) -> tuple[int, int] | None:
    """Returns where the first audible frame starts and the last one ends."""
    frame = round(FRAME_S * rate_hz)
    frames = -(-len(samples) // frame)
    if frames == 0:
        return None
    padded = np.pad(samples, (0, frames * frame - len(samples))).reshape(frames, frame)
    levels = np.sqrt((padded.astype(np.float64) ** 2).mean(axis=1))
    audible = np.flatnonzero(levels > levels.max() * 10 ** (_AUDIBLE_DB / 20))
    if len(audible) == 0:
        return None
    return int(audible[0]) * frame, min(len(samples), (int(audible[-1]) + 1) * frame)
