"""Cuts a recording of any length into pieces that can be decoded, at its pauses.

Pure and of bounded memory: probabilities of 32 ms chunks go in, pieces come out as soon as
they are complete.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from asr.config import CHUNK_SAMPLES, SAMPLE_RATE_HZ, SegmenterConfig
from asr.evidence import VoiceEvidence, evidence_of


@dataclass(frozen=True, slots=True)
class Piece:
    """Is one piece of a recording; numbers are absolute samples.

    Attributes:
        start_sample, end_sample: audio to decode, padding included; pieces do not overlap.
        speech_start, speech_end: the voiced part.
        evidence: what the voice detector heard in it.
    """

    start_sample: int
    end_sample: int
    speech_start: int
    speech_end: int
    evidence: VoiceEvidence


def _chunks(seconds: float) -> int:
    return max(1, round(seconds * SAMPLE_RATE_HZ / CHUNK_SAMPLES))


class Segmenter:
    """Follows one recording from its beginning.

    Args:
        config: lengths and thresholds.
    """

    def __init__(self, config: SegmenterConfig) -> None:
        self._config = config
        self._first = 0  # number of the chunk that _probs[0] belongs to
        self._probs: list[float] = []  # of the open piece; empty where none is open
        self._voiced: list[bool] = []
        self._floor = 0  # sample before which audio belongs to an earlier piece
        self._in_speech = False

    @property
    def needed_from(self) -> int:
        """Is the first sample that a later piece may still contain."""
        return max(self._floor, self._first * CHUNK_SAMPLES - self._padding)

    def push(self, probs: Iterable[float]) -> list[Piece]:
        """Takes the probabilities of the next chunks; returns the pieces they complete."""
        pieces: list[Piece] = []
        for prob in probs:
            self._take(float(prob))
            piece = self._complete()
            if piece is not None:
                pieces.append(piece)
        return pieces

    def flush(self) -> list[Piece]:
        """Ends the recording; returns the piece that was still open, if there is one."""
        piece = self._close(self._last_voiced()) if self._probs else None
        return [piece] if piece is not None else []

    @property
    def _padding(self) -> int:
        return round(self._config.padding_s * SAMPLE_RATE_HZ)

    def _take(self, prob: float) -> None:
        threshold = self._config.threshold
        if prob >= threshold:
            self._in_speech = True
        elif prob < threshold - self._config.hysteresis:
            self._in_speech = False
        if self._in_speech or self._probs:
            self._probs.append(prob)
            self._voiced.append(self._in_speech)
        else:
            self._first += 1

    def _last_voiced(self) -> int:
        """Returns how many chunks of the open piece there are up to its last voice."""
        count = len(self._voiced)
        while count and not self._voiced[count - 1]:
            count -= 1
        return count

    def _complete(self) -> Piece | None:
        if not self._probs:
            return None
        config = self._config
        spoken = self._last_voiced()
        silence = len(self._probs) - spoken
        enough = spoken >= _chunks(config.enough_s) and silence >= _chunks(config.pause_s)
        if enough or silence >= _chunks(config.break_s):
            return self._close(spoken)
        if len(self._probs) >= _chunks(config.max_segment_s):
            return self._close(self._best_cut())
        return None

    def _best_cut(self) -> int:
        """Returns the chunks before the longest pause, else before the least voiced chunk.

        The first third is left alone, lest a long piece become a tiny one.
        """
        size = len(self._voiced)
        earliest = size // 3
        best, best_length, start = 0, 0, None
        for index in range(earliest, size + 1):
            quiet = index < size and not self._voiced[index]
            if quiet and start is None:
                start = index
            elif not quiet and start is not None:
                if index - start >= best_length:
                    best, best_length = start, index - start
                start = None
        if best:
            return best
        return min(range(earliest, size), key=lambda index: (self._probs[index], -index))

    def _close(self, count: int) -> Piece | None:
        """Cuts the open piece after `count` chunks; what is voiced after it stays open."""
        config = self._config
        probs, first = self._probs[:count], self._first
        rest = next((i for i in range(count, len(self._voiced)) if self._voiced[i]), None)
        gap_end = (first + (len(self._voiced) if rest is None else rest)) * CHUNK_SAMPLES
        speech_start, speech_end = first * CHUNK_SAMPLES, (first + count) * CHUNK_SAMPLES
        # Half of the pause at most, so that the next piece has its padding too.
        limit = gap_end if rest is None else (speech_end + gap_end) // 2
        start = max(speech_start - self._padding, self._floor)
        end = min(speech_end + self._padding, limit)
        self._forget(len(self._probs) if rest is None else rest)
        self._floor = end
        evidence = evidence_of(probs, config.threshold)
        if evidence.voiced_ms < config.min_voiced_s * 1000:
            return None
        return Piece(start, end, speech_start, speech_end, evidence)

    def _forget(self, count: int) -> None:
        del self._probs[:count], self._voiced[:count]
        self._first += count
