"""Audio of any rate in, speech events out: one time line of 16 kHz samples for a session.

The buffer, the voice detector's scores and the endpointer all count the same samples, also
when the detector fails for a while: what it did not score counts as silence.
"""

import logging

import numpy as np
from numpy.typing import NDArray

from asr.config import CHUNK_SAMPLES, SAMPLE_RATE_HZ, EndpointingConfig
from asr.endpointing import Endpointer, EndpointEvent
from asr.evidence import EvidenceTrack
from asr.utterance import UtteranceBuffer
from asr.vad import VoiceActivityDetector
from engines.base import Samples
from streams.config import SessionConfig
from streams.context import SessionContext, describe
from streams.errors import AntiphonError, SessionErrorCode
from streams.events import AudioIn, SessionError
from streams.resampler import StreamResampler

log = logging.getLogger(__name__)

VOICED_SAMPLES = SAMPLE_RATE_HZ // 2
"""Voice this recent counts as going on: longer than the pauses between words."""


class Hearing:
    """Owns the incoming audio of one session; calls must not overlap."""

    def __init__(self, ctx: SessionContext) -> None:
        self._ctx = ctx
        limits = ctx.limits
        self.buffer = UtteranceBuffer(limits.max_buffer_s)
        self.evidence = EvidenceTrack(limits.max_buffer_s)
        ticket = ctx.ticket(due_in_s=0.03, timeout_s=limits.transcript_timeout_s)
        self._vad = VoiceActivityDetector(ctx.pipelines.vad, ticket)
        self._resampler: StreamResampler | None = None
        self.detects = ctx.config.turn_detection is not None
        self._endpointer = Endpointer(endpointing(ctx.config))
        self._is_deaf = False

    @property
    def received(self) -> int:
        """Counts the samples received, at 16 kHz."""
        return self.buffer.received

    @property
    def scored(self) -> int:
        """Counts the samples that the voice detector has judged."""
        return self.buffer.received - self._vad.pending_samples

    def is_voiced(self, threshold: float) -> bool:
        """Says whether somebody speaks at this moment, also while turns are not detected."""
        recent = self.evidence.between(self.scored - VOICED_SAMPLES, self.scored)
        return recent is not None and recent.peak_prob >= threshold

    async def open(self) -> None:
        """Takes a voice detector's stream; `close` gives it back."""
        await self._vad.open()

    async def close(self) -> None:
        """Gives it back."""
        await self._vad.close()

    def configure(self, config: SessionConfig) -> None:
        """Takes new turn detection; a turn that has begun ends by the new durations."""
        self._endpointer.configure(endpointing(config))
        detects = config.turn_detection is not None
        if detects and not self.detects:  # nobody has followed the audio meanwhile
            self._endpointer.reset(self.scored)
        self.detects = detects

    def forget_turn(self) -> None:
        """Ends the endpointer's turn without an event: the client has decided."""
        self._endpointer.reset(self.scored)

    async def push(self, event: AudioIn) -> list[EndpointEvent]:
        """Takes audio in and returns what it makes of the turns."""
        if self._resampler is None or self._resampler.in_hz != event.rate_hz:
            self._resampler = StreamResampler(event.rate_hz, SAMPLE_RATE_HZ)
        return await self._take(self._resampler.push(event.samples))

    async def flush(self) -> list[EndpointEvent]:
        """Takes in what the resampler has held back."""
        return [] if self._resampler is None else await self._take(self._resampler.flush())

    async def _take(self, samples: Samples) -> list[EndpointEvent]:
        probs = await self._score(samples)
        self.evidence.append(probs)
        if not self.detects:
            return []
        return [event for prob in probs for event in self._endpointer.push(float(prob))]

    async def _score(self, samples: Samples) -> NDArray[np.float32]:
        chunks = (self._vad.pending_samples + len(samples)) // CHUNK_SAMPLES
        self.buffer.append(samples)
        try:
            probs = await self._vad.push(samples)
        except AntiphonError as error:
            self._tell(error)
            return np.zeros(chunks, np.float32)
        if chunks:
            self._is_deaf = False
        return probs

    def _tell(self, error: AntiphonError) -> None:
        """Says once, and not for every frame, that turns are not found at the moment."""
        if not self._is_deaf:
            log.warning("the voice detector failed: %s", error.message)
            code, message = describe(error)
            self._ctx.emit(SessionError(code or SessionErrorCode.INTERNAL, message))
        self._is_deaf = True


def endpointing(config: SessionConfig) -> EndpointingConfig:
    """Returns the endpointer's knobs of a session."""
    detection = config.turn_detection
    if detection is None:
        return EndpointingConfig()
    return EndpointingConfig(
        threshold=detection.threshold,
        prefix_padding_ms=detection.prefix_padding_ms,
        silence_ms=detection.silence_ms,
    )
