"""What the voice detector heard in a stretch of audio, kept by absolute sample."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from asr.config import CHUNK_MS, CHUNK_SAMPLES


@dataclass(frozen=True, slots=True)
class VoiceEvidence:
    """Sums up the speech probabilities of a clip.

    Attributes:
        voiced_ms: audio in chunks whose probability is at least one half.
        peak_prob: highest probability of a chunk, 0..1.
    """

    voiced_ms: float
    peak_prob: float


def evidence_of(probs: Iterable[float], threshold: float = 0.5) -> VoiceEvidence:
    """Sums up the probabilities of successive chunks."""
    voiced = 0
    peak = 0.0
    for prob in probs:
        voiced += prob >= threshold
        peak = max(peak, float(prob))
    return VoiceEvidence(voiced_ms=float(voiced * CHUNK_MS), peak_prob=peak)


class EvidenceTrack:
    """Remembers the probabilities of the newest chunks of a stream.

    Args:
        max_s: how much is remembered; older chunks are forgotten.
        position: absolute number of the first sample that will be scored.
    """

    def __init__(self, max_s: float, position: int = 0) -> None:
        self._probs: deque[float] = deque(maxlen=max(1, round(max_s * 1000 / CHUNK_MS)))
        self._end = position

    def append(self, probs: Iterable[float]) -> None:
        """Takes the probabilities of the next chunks."""
        for prob in probs:
            self._probs.append(float(prob))
            self._end += CHUNK_SAMPLES

    def between(self, start_sample: int, end_sample: int) -> VoiceEvidence | None:
        """Sums up the chunks that touch [start, end); None if none of them is known."""
        begin = self._end - len(self._probs) * CHUNK_SAMPLES
        first = max(0, (start_sample - begin) // CHUNK_SAMPLES)
        last = min(len(self._probs), -((begin - end_sample) // CHUNK_SAMPLES))
        if first >= last:
            return None
        return evidence_of(self._probs[index] for index in range(first, last))
