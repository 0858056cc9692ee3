"""Writes down one turn of a speaker: partials while it lasts, then the final.

The final is begun at the first pause already (`eager_final`): if the speaker stays silent
until the end of the turn it is done by then, and if not it is thrown away.
"""

import asyncio
from dataclasses import dataclass

from asr.config import SAMPLE_RATE_HZ
from asr.evidence import EvidenceTrack
from asr.hypothesis import LocalAgreement
from asr.transcript import TranscribeOptions, Transcript
from asr.utterance import UtteranceBuffer
from engines.base import Samples
from streams.context import SessionContext
from streams.events import TranscriptDelta

MAX_PARTIAL_S = 28.0
"""Longer turns get no more partials: they no longer fit into one window of Whisper."""

LANGUAGE_VOICED_MS = 1000.0
"""Voiced audio from which the detected language is kept for the rest of the session."""

TAIL_SAMPLES = SAMPLE_RATE_HZ // 5
"""Audio after the last voiced chunk that is decoded with the turn, where it has come."""


@dataclass(frozen=True, slots=True)
class TurnAudio:
    """Is where the audio of a session is kept, and what the voice detector heard in it."""

    buffer: UtteranceBuffer
    evidence: EvidenceTrack


class TurnTranscription:
    """Follows one turn.

    Args:
        ctx: the session.
        item_id: the item that the turn becomes.
        audio: where the samples are.
        start_sample: the first sample of the turn.
    """

    def __init__(
        self, ctx: SessionContext, item_id: str, audio: TurnAudio, start_sample: int
    ) -> None:
        self.item_id = item_id
        self.start_sample = start_sample
        self._ctx = ctx
        self._audio = audio
        self._agreement = LocalAgreement()
        self._partials: asyncio.Task[None] | None = None
        self._eager: asyncio.Task[None] | None = None
        self._eager_end: int | None = None
        self._eager_result: Transcript | None = None

    def follow(self) -> None:
        """Begins or resumes partial transcripts."""
        self._drop_eager()
        if self._ctx.limits.partial_interval_s > 0 and self._partials is None:
            self._partials = self._ctx.spawn(self._write_partials(), f"partials {self.item_id}")

    def pause(self, end_sample: int) -> None:
        """Begins the final for speech that seems to have ended at `end_sample`."""
        self._drop_partials()
        self._drop_eager()
        if self._ctx.limits.eager_final:
            self._eager_end = end_sample
            self._eager = self._ctx.spawn(self._write_eager(end_sample), f"final {self.item_id}")

    async def finish(self, end_sample: int) -> Transcript:
        """Returns the final transcript and emits the part of it that was not shown yet.

        Raises:
            AntiphonError: the recogniser refused or failed.
        """
        self._drop_partials()
        transcript = await self._eager_transcript(end_sample)
        if transcript is None:
            transcript = await self._transcribe(end_sample, due_in_s=0.2)
        self._show(self._agreement.finish(transcript.text))
        return transcript

    def cancel(self) -> None:
        """Gives the turn up."""
        self._drop_partials()
        self._drop_eager()

    async def _eager_transcript(self, end_sample: int) -> Transcript | None:
        if self._eager is None or self._eager_end != end_sample:
            self._drop_eager()
            return None
        await asyncio.wait({self._eager})
        return self._eager_result

    async def _write_eager(self, end_sample: int) -> None:
        self._eager_result = await self._transcribe(end_sample, due_in_s=0.3)

    async def _write_partials(self) -> None:
        heard_end, shown = 0, ""
        while True:
            await self._ctx.clock.sleep(self._ctx.limits.partial_interval_s)
            end = self._audio.buffer.received
            if end - self.start_sample > MAX_PARTIAL_S * SAMPLE_RATE_HZ:
                return
            if end == heard_end and shown == self._agreement.emitted:
                continue  # nothing new to hear, and nothing more to agree on
            heard_end, shown = end, self._agreement.emitted
            transcript = await self._transcribe(end, due_in_s=1.0)
            self._show(self._agreement.push(transcript.text))

    async def _transcribe(self, end_sample: int, due_in_s: float) -> Transcript:
        ctx = self._ctx
        samples = self._heard(end_sample)
        options = TranscribeOptions(ctx.language, ctx.config.transcription_prompt)
        if len(samples) > MAX_PARTIAL_S * SAMPLE_RATE_HZ:
            return await self._transcribe_long(samples, options)
        evidence = self._audio.evidence.between(self.start_sample, end_sample)
        ticket = ctx.ticket(due_in_s, ctx.limits.transcript_timeout_s)
        transcriber = ctx.pipelines.transcriber
        transcript = await transcriber.transcribe(
            samples, options=options, ticket=ticket, evidence=evidence
        )
        if evidence is not None and evidence.voiced_ms >= LANGUAGE_VOICED_MS and transcript.text:
            ctx.lock_language(transcript.language)
        return transcript

    async def _transcribe_long(self, samples: Samples, options: TranscribeOptions) -> Transcript:
        """Cuts a turn that does not fit into one window at its pauses."""
        ctx = self._ctx
        segments = ctx.pipelines.long_transcriber.transcribe(
            [samples],
            request_id=ctx.ticket(1.0, 1.0).request_id,
            options=options,
            tier=ctx.identity.tier,
        )
        pieces = [segment async for segment in segments]
        language = next((piece.language for piece in pieces if piece.language), options.language)
        text = " ".join(piece.text for piece in pieces)
        return Transcript(text, len(samples) / SAMPLE_RATE_HZ, language)

    def _heard(self, end_sample: int) -> Samples:
        """Returns the turn's audio and a little of what followed it (soft last sounds)."""
        return self._audio.buffer.slice(self.start_sample, end_sample + TAIL_SAMPLES)

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
