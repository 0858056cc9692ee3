"""Decides which output of the recogniser is believed.

Whisper invents text over noise and silence, and falls into loops. What tells invented text
from real is never the phrase itself (people do say "thank you"): it is what the voice
detector heard, what the model says about silence, how sure it is of its words, and whether
the text is in proportion to the audio.
"""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asr.config import GuardConfig
from asr.evidence import VoiceEvidence
from engines.base import Samples

_LONGEST_PERIOD = 24  # ids; loops of whole sentences are caught by compression


@dataclass(frozen=True, slots=True)
class Decoded:
    """Is one decode as the guards see it.

    Attributes:
        text: the words.
        ids: their ids.
        complete: the model ended by itself, not at its limit.
        no_speech_prob, avg_logprob: as in `Transcript`.
    """

    text: str
    ids: tuple[int, ...]
    complete: bool = True
    no_speech_prob: float | None = None
    avg_logprob: float | None = None


def token_budget(duration_s: float, limit: int, config: GuardConfig) -> int:
    """Returns how many ids speech of this duration can take, at most `limit`."""
    return min(limit, config.tokens_floor + math.ceil(duration_s * config.tokens_per_s))


def compression_ratio(text: str) -> float:
    """Returns how many times smaller zlib makes the text; 0 for an empty one."""
    data = text.encode()
    return len(data) / len(zlib.compress(data)) if data else 0.0


def loop_start(ids: Sequence[int], config: GuardConfig) -> int | None:
    """Finds where the ids begin to repeat themselves up to their end.

    Returns:
        The index right after the first turn of the loop; None where the ids do not end
        in `min_loop_repeats` equal turns that make `min_loop_ids` ids or more.
    """
    size = len(ids)
    for period in range(1, min(_LONGEST_PERIOD, size // config.min_loop_repeats) + 1):
        begin = size - period
        while begin > 0 and ids[begin - 1] == ids[begin - 1 + period]:
            begin -= 1
        if size - begin >= max(config.min_loop_repeats * period, config.min_loop_ids):
            return begin + period
    return None


def without_loop(ids: tuple[int, ...], config: GuardConfig) -> tuple[int, ...]:
    """Returns the ids with only the first turn of a loop at their end."""
    cut = loop_start(ids, config)
    return ids if cut is None else ids[:cut]


def is_looping(decoded: Decoded, config: GuardConfig) -> bool:
    """Says whether the text repeats itself as speech does not."""
    if loop_start(decoded.ids, config) is not None:
        return True
    return compression_ratio(decoded.text) > config.max_compression_ratio


def is_doubtful(decoded: Decoded, config: GuardConfig) -> bool:
    """Says whether a decode with the full window is worth its time."""
    unsure = decoded.avg_logprob is not None and decoded.avg_logprob < config.min_avg_logprob
    return unsure or not decoded.complete or is_looping(decoded, config)


def heard_nothing(samples: Samples, evidence: VoiceEvidence | None, config: GuardConfig) -> bool:
    """Says whether speech is ruled out before anything is decoded."""
    if not len(samples) or float(np.abs(samples).max()) <= config.silent_amplitude:
        return True
    return evidence is not None and evidence.peak_prob < config.silent_peak


def is_no_speech(decoded: Decoded, evidence: VoiceEvidence | None, config: GuardConfig) -> bool:
    """Says whether the text was invented over audio in which nobody speaks.

    The voice detector, the model's doubt about speech and its trust in its words decide
    together: the less voice was heard, the surer the words must be.
    """
    if not decoded.text:
        return True
    heard = evidence is not None and evidence.voiced_ms >= config.sure_voiced_ms
    trust = decoded.avg_logprob
    if trust is None or is_looping(decoded, config):  # loops are made with confidence
        trust = config.sure_avg_logprob - 0.01
    doubted = decoded.no_speech_prob is not None and decoded.no_speech_prob > config.no_speech_prob
    if heard:
        return doubted and trust < config.doubtful_avg_logprob
    return trust < config.hopeless_avg_logprob or (doubted and trust < config.sure_avg_logprob)
