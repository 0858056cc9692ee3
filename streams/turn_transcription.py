"""Writes down one turn of a speaker: partials while it lasts, then the final.

The final is begun at the first pause already (`eager_final`): if the speaker stays silent
until the end of the turn it is done by then, and if not it is thrown away. Partials and
eager finals are optional work: where they fail, the final still comes.
"""

import asyncio
import logging
from dataclasses import dataclass

from asr.config import SAMPLE_RATE_HZ
from asr.evidence import VoiceEvidence
from asr.hypothesis import LocalAgreement
from asr.transcript import TranscribeOptions, Transcript
from engines.base import Samples
from streams.context import SessionContext
from streams.errors import AntiphonError, Timeout
from streams.events import TranscriptDelta
from streams.hearing import Hearing

log = logging.getLogger(__name__)

MAX_PARTIAL_S = 28.0
"""Longer turns get no more partials: they no longer fit into one window of Whisper."""

LANGUAGE_VOICED_MS = 1000.0
"""Voiced audio from which the detected language is kept for the rest of the session."""

TAIL_SAMPLES = SAMPLE_RATE_HZ // 5
"""Audio after the last voiced chunk that is decoded with the turn, where it has come."""


@dataclass(frozen=True, slots=True)
class Clip:
    """Is a copy of a turn's audio: the buffer may forget it meanwhile.

    Attributes:
        end_sample: where the speech was said to end.
        samples: from the turn's start to a little after that.
        evidence: what the voice detector heard in it.
    """

    end_sample: int
    samples: Samples
    evidence: VoiceEvidence | None

    @property
    def duration_s(self) -> float:
        """Length of the audio."""
        return len(self.samples) / SAMPLE_RATE_HZ


class TurnTranscription:
    """Follows one turn.

    Args:
        ctx: the session.
        item_id: the item that the turn becomes.
        hearing: where the samples are.
        start_sample: the first sample of the turn.
    """

    def __init__(
        self, ctx: SessionContext, item_id: str, hearing: Hearing, start_sample: int
    ) -> None:
        self.item_id = item_id
        self.start_sample = start_sample
        self._ctx = ctx
        self._hearing = hearing
        self._agreement = LocalAgreement()
        self._partials: asyncio.Task[None] | None = None
        self._eager: asyncio.Task[None] | None = None
        self._eager_end: int | None = None
        self._eager_result: Transcript | None = None

    def follow(self) -> None:
        """Begins or resumes partial transcripts."""
        self._drop_eager()
        self._begin_partials()

    def pause(self, end_sample: int) -> None:
        """Begins the final for speech that seems to have ended at `end_sample`."""
        self._drop_partials()
        self._drop_eager()
        clip = self.clip(end_sample)
        if self._ctx.limits.eager_final and clip.duration_s <= MAX_PARTIAL_S:
            self._eager_end = end_sample
            self._eager = self._ctx.spawn(self._write_eager(clip), f"eager {self.item_id}")
        self._begin_partials()  # no more audio may come: then these show the last words

    def clip(self, end_sample: int) -> Clip:
        """Copies the turn's audio and a little of what followed it (soft last sounds)."""
        samples = self._hearing.buffer.slice(self.start_sample, end_sample + TAIL_SAMPLES)
        evidence = self._hearing.evidence.between(self.start_sample, end_sample)
        return Clip(end_sample, samples, evidence)

    async def finish(self, clip: Clip) -> Transcript:
        """Returns the final transcript and emits the part of it that was not shown yet.

        Args:
            clip: the whole turn, taken when it ended.

        Raises:
            AntiphonError: the recogniser refused, failed, or took too long.
        """
        self._drop_partials()
        windows = max(1.0, clip.duration_s / MAX_PARTIAL_S)
        try:
            async with asyncio.timeout(self._ctx.limits.transcript_timeout_s * windows):
                transcript = await self._final(clip)
        except TimeoutError as late:
            raise Timeout("the transcript took too long") from late
        self._show(self._agreement.finish(transcript.text))
        return transcript

    def cancel(self) -> None:
        """Gives the turn up."""
        self._drop_partials()
        self._drop_eager()

    def _begin_partials(self) -> None:
        if self._ctx.limits.partial_interval_s > 0 and self._partials is None:
            self._partials = self._ctx.spawn(self._write_partials(), f"partials {self.item_id}")

    async def _final(self, clip: Clip) -> Transcript:
        if self._eager is not None and self._eager_end == clip.end_sample:
            await asyncio.wait({self._eager})
        if self._eager_result is not None and self._eager_end == clip.end_sample:
            return self._eager_result
        self._drop_eager()
        return await self._transcribe(clip, due_in_s=0.2)

    async def _write_eager(self, clip: Clip) -> None:
        try:
            self._eager_result = await self._transcribe(clip, due_in_s=0.3)
            self._show(self._agreement.push(self._eager_result.text))
        except AntiphonError as error:
            log.info("no eager final of %s: %s", self.item_id, error.message)
            self._ctx.observer.dropped("eager_finals", 1)

    async def _write_partials(self) -> None:
        heard: tuple[int, str] | None = None
        settled = False
        while True:
            await self._ctx.clock.sleep(self._ctx.limits.partial_interval_s)
            end = self._hearing.received
            if end - self.start_sample > MAX_PARTIAL_S * SAMPLE_RATE_HZ:
                return
            if settled and heard is not None and heard[0] == end:
                continue  # the same audio has given the same words twice
            try:
                transcript = await self._transcribe(self.clip(end), due_in_s=1.0)
            except AntiphonError as error:
                log.info("no partial of %s: %s", self.item_id, error.message)
                self._ctx.observer.dropped("partials", 1)
                continue
            self._show(self._agreement.push(transcript.text))
            settled, heard = heard == (end, transcript.text), (end, transcript.text)

    async def _transcribe(self, clip: Clip, due_in_s: float) -> Transcript:
        ctx = self._ctx
        options = TranscribeOptions(ctx.language, ctx.config.transcription_prompt)
        ticket = ctx.ticket(due_in_s, ctx.limits.transcript_timeout_s)
        if clip.duration_s > MAX_PARTIAL_S:
            return await self._transcribe_long(clip, options, ticket.request_id)
        transcript = await ctx.pipelines.transcriber.transcribe(
            clip.samples, options=options, ticket=ticket, evidence=clip.evidence
        )
        voiced_ms = clip.evidence.voiced_ms if clip.evidence else 0.0
        if transcript.sure_of_language and voiced_ms >= LANGUAGE_VOICED_MS and transcript.text:
            ctx.lock_language(transcript.language)
        return transcript

    async def _transcribe_long(
        self, clip: Clip, options: TranscribeOptions, request_id: str
    ) -> Transcript:
        """Cuts a turn that does not fit into one window at its pauses."""
        segments = self._ctx.pipelines.long_transcriber.transcribe(
            [clip.samples],
            request_id=request_id,
            options=options,
            tier=self._ctx.identity.tier,
            due_in_s=0.5,
        )
        pieces = [segment async for segment in segments]
        language = next((piece.language for piece in pieces if piece.language), options.language)
        return Transcript(" ".join(piece.text for piece in pieces), clip.duration_s, language)

    def _show(self, text: str) -> None:
        if text:
            self._ctx.emit(TranscriptDelta(self.item_id, text))

    def _drop_partials(self) -> None:
        if self._partials is not None:
            self._partials.cancel()
            self._partials = None

    def _drop_eager(self) -> None:
        if self._eager is not None:
            self._eager.cancel()
        self._eager = self._eager_end = self._eager_result = None
