"""Turns speech probabilities into starts, pauses and ends of turns.

Pure: one probability per chunk of 512 samples goes in, events come out, and time is counted
in samples, so a recording gives the same events at any pace.
"""

from dataclasses import dataclass

from asr.config import CHUNK_SAMPLES, SAMPLE_RATE_HZ, EndpointingConfig


@dataclass(frozen=True, slots=True)
class SpeechStart:
    """Says that a turn began; `start_sample` has the pre-roll subtracted."""

    start_sample: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Says that the speaker has paused inside a turn; speech ended at `end_sample`."""

    end_sample: int


@dataclass(frozen=True, slots=True)
class Resume:
    """Says that the speaker went on after a `Pause`, in the chunk at `start_sample`."""

    start_sample: int


@dataclass(frozen=True, slots=True)
class SpeechEnd:
    """Says that the turn is over; `end_sample` is where the speech itself ended."""

    end_sample: int


EndpointEvent = SpeechStart | Pause | Resume | SpeechEnd


def _samples(milliseconds: float) -> int:
    return round(milliseconds * SAMPLE_RATE_HZ / 1000)


class Endpointer:
    """Follows one stream of audio chunk by chunk.

    Args:
        config: thresholds and durations.
        position: absolute number of the first sample that will be scored.
    """

    def __init__(self, config: EndpointingConfig, position: int = 0) -> None:
        self._config = config
        self._begin(position)

    @property
    def position(self) -> int:
        """Counts the samples scored so far, from the beginning of the stream."""
        return self._position

    @property
    def in_speech(self) -> bool:
        """Says whether a turn has begun and not ended."""
        return self._in_speech

    def configure(self, config: EndpointingConfig) -> None:
        """Takes new thresholds and durations from the next chunk on, also within a turn."""
        self._config = config

    def reset(self, position: int | None = None) -> None:
        """Forgets the running turn without an event.

        A later turn does not reach back before this point: what lies before has been
        committed or thrown away.

        Args:
            position: absolute sample to go on from; None keeps the count.
        """
        self._begin(self._position if position is None else position)

    def push(self, prob: float) -> list[EndpointEvent]:
        """Takes the speech probability, 0..1, of the next chunk; returns what follows."""
        start = self._position
        self._position += CHUNK_SAMPLES
        if self._in_speech:
            return self._follow(prob, start)
        return self._listen(prob, start)

    def _begin(self, position: int) -> None:
        self._position = position
        self._floor = position  # no turn starts before this
        self._run = 0  # voiced chunks in a row while no turn is running
        self._in_speech = False
        self._voiced_end = position
        self._silent = False
        self._paused = False

    def _listen(self, prob: float, start: int) -> list[EndpointEvent]:
        config = self._config
        self._run = self._run + 1 if prob >= config.threshold else 0
        if self._run < config.start_chunks:
            return []
        onset = start - (self._run - 1) * CHUNK_SAMPLES
        self._run = 0
        self._in_speech = True
        self._silent = self._paused = False
        self._voiced_end = self._position
        return [SpeechStart(max(onset - _samples(config.prefix_padding_ms), self._floor))]

    def _follow(self, prob: float, start: int) -> list[EndpointEvent]:
        config = self._config
        if prob >= config.threshold:
            self._silent = False
        elif prob < config.threshold - config.hysteresis:
            self._silent = True
        # Between the two, speech stays speech and silence stays silence.
        if not self._silent:
            resumed, self._paused = self._paused, False
            self._voiced_end = self._position
            return [Resume(start)] if resumed else []
        return self._wait()

    def _wait(self) -> list[EndpointEvent]:
        silence = self._position - self._voiced_end
        if silence >= _samples(self._config.silence_ms):
            self._in_speech = False
            self._floor = self._voiced_end
            return [SpeechEnd(self._voiced_end)]
        if not self._paused and silence >= _samples(self._config.pause_ms):
            self._paused = True
            return [Pause(self._voiced_end)]
        return []
