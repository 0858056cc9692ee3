"""Hears the speaker: audio in, turns out, each written down and handed on for a reply.

All positions are absolute samples at 16 kHz, counted from the first one received, so that
times do not depend on when a packet came.
"""

import asyncio
import logging

from asr.config import SAMPLE_RATE_HZ, EndpointingConfig
from asr.endpointing import Endpointer, EndpointEvent, Pause, Resume, SpeechEnd, SpeechStart
from asr.evidence import EvidenceTrack
from asr.transcript import Transcript
from asr.utterance import UtteranceBuffer
from asr.vad import VoiceActivityDetector
from engines.base import Samples
from streams.config import SessionConfig
from streams.context import SessionContext, describe
from streams.errors import SessionErrorCode
from streams.events import (
    AudioCleared,
    AudioCommitted,
    AudioIn,
    ClearAudio,
    CommitAudio,
    Item,
    ItemAdded,
    ItemDone,
    Part,
    PartKind,
    Role,
    SessionError,
    SpeechStarted,
    SpeechStopped,
    TranscriptCompleted,
    TranscriptFailed,
)
from streams.replies import Replies
from streams.resampler import StreamResampler
from streams.turn_transcription import TurnAudio, TurnTranscription
from streams.turns import TurnAction, TurnTaking

log = logging.getLogger(__name__)

IDLE_KEPT_S = 3.0
"""Audio kept while nobody speaks: enough for any pre-roll and for a commit by hand."""

MAX_PENDING_FINALS = 8
"""Turns that may wait for their transcript before the session stops reading audio."""


class Listener:
    """Owns the incoming audio of one session."""

    def __init__(self, ctx: SessionContext, replies: Replies) -> None:
        self._ctx = ctx
        self._replies = replies
        self._turns = TurnTaking()
        limits = ctx.limits
        self._audio = TurnAudio(
            UtteranceBuffer(limits.max_buffer_s), EvidenceTrack(limits.max_buffer_s)
        )
        ticket = ctx.ticket(due_in_s=0.03, timeout_s=limits.transcript_timeout_s)
        self._vad = VoiceActivityDetector(ctx.pipelines.vad, ticket)
        self._resampler: StreamResampler | None = None
        self._endpointer = Endpointer(_endpointing(ctx.config))
        self._turn: TurnTranscription | None = None
        self._uncommitted_start: int | None = 0
        self._finals: list[asyncio.Task[None]] = []
        self._loss_told = False
        self._turn_ended_s = ctx.clock.now_s()
        replies.when_idle = self._answer_due

    @property
    def received_samples(self) -> int:
        """Counts the samples received, at 16 kHz."""
        return self._audio.buffer.received

    async def open(self) -> None:
        """Takes a voice detector's stream; `close` gives it back."""
        await self._vad.open()

    async def close(self) -> None:
        """Gives everything back."""
        if self._turn is not None:
            self._turn.cancel()
        for final in self._finals:
            final.cancel()
        await self._vad.close()

    def configure(self, config: SessionConfig) -> None:
        """Takes a new configuration; a turn that has begun goes on under the new one."""
        position, speaking = self._endpointer.position, self._endpointer.in_speech
        if speaking and config.turn_detection is not None:
            return  # its end is still found by the old durations
        self._endpointer = Endpointer(_endpointing(config), position)

    async def hear(self, event: AudioIn) -> None:
        """Takes audio in, at any rate; turns begin and end on the way."""
        if self._resampler is None or self._resampler.in_hz != event.rate_hz:
            self._resampler = StreamResampler(event.rate_hz, SAMPLE_RATE_HZ)
        await self._take(self._resampler.push(event.samples))

    async def commit(self, event: CommitAudio) -> None:
        """Ends the utterance now, by the client's wish."""
        await self._flush_resampler()
        received = self._audio.buffer.received
        start = self._turn.start_sample if self._turn else self._uncommitted_start
        minimum_ms = max(1, self._ctx.limits.min_commit_ms)
        buffered_ms = 0 if start is None else (received - start) * 1000 // SAMPLE_RATE_HZ
        if start is None or buffered_ms < minimum_ms:
            message = (
                f"Error committing input audio buffer: buffer too small. Expected at least "
                f"{minimum_ms}ms of audio, but buffer only has {buffered_ms}ms of audio."
            )
            self._ctx.refuse(SessionErrorCode.BUFFER_EMPTY, message, event.ref)
            return
        turn = self._turn or self._new_turn(start)
        self._endpointer.reset()
        self._uncommitted_start = received
        await self._close_turn(turn, received, by_client=True)

    async def clear(self, event: ClearAudio) -> None:
        """Forgets the audio that was not committed."""
        await self._flush_resampler()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
            self._turns.speech_stopped()
        self._endpointer.reset()
        self._uncommitted_start = self._audio.buffer.received
        self._ctx.emit(AudioCleared())
        self._answer_due()

    async def finish(self) -> None:
        """Ends an open turn and waits until every turn is written down."""
        await self._flush_resampler()
        if self._turn is not None:
            await self._close_turn(self._turn, self._audio.buffer.received, by_client=False)
        if self._finals:
            await asyncio.wait(self._finals)

    async def _flush_resampler(self) -> None:
        if self._resampler is not None:
            await self._take(self._resampler.flush())

    async def _take(self, samples: Samples) -> None:
        lost = self._audio.buffer.append(samples)
        if lost and (self._turn is not None or self._ctx.config.turn_detection is None):
            self._report_loss(lost)
        probs = await self._vad.push(samples)
        self._audio.evidence.append(probs)
        if self._ctx.config.turn_detection is None:
            return
        for prob in probs:
            for event in self._endpointer.push(float(prob)):
                await self._turn_event(event)
        if self._turn is None and len(probs):
            kept = self._audio.buffer.received - int(IDLE_KEPT_S * SAMPLE_RATE_HZ)
            self._audio.buffer.discard_before(kept)
            if self._uncommitted_start is not None:
                self._uncommitted_start = max(self._uncommitted_start, kept)

    def _report_loss(self, lost: int) -> None:
        self._ctx.observer.dropped("audio_samples", lost)
        if self._uncommitted_start is not None and not self._loss_told:
            self._loss_told = True
            limit = self._ctx.limits.max_buffer_s
            message = f"more than {limit:g} s of uncommitted audio: the oldest was dropped"
            self._ctx.emit(SessionError(SessionErrorCode.BUFFER_FULL, message))

    async def _turn_event(self, event: EndpointEvent) -> None:
        match event:
            case SpeechStart(start_sample):
                self._begin_turn(start_sample)
            case Pause(end_sample) if self._turn is not None:
                self._turn.pause(end_sample)
            case Resume() if self._turn is not None:
                self._turn.follow()
            case SpeechEnd(end_sample) if self._turn is not None:
                waited = self._endpointer.position - end_sample
                self._ctx.observer.stage("endpoint", waited / SAMPLE_RATE_HZ)
                self._ctx.emit(SpeechStopped(self._turn.item_id, _ms(end_sample)))
                self._uncommitted_start = None  # what follows is silence already judged
                await self._close_turn(self._turn, end_sample, by_client=False)
            case _:
                pass  # a pause or an end of a turn that the client has committed itself

    def _begin_turn(self, start_sample: int) -> None:
        self._turn = self._new_turn(start_sample)
        self._uncommitted_start = start_sample
        self._ctx.emit(SpeechStarted(self._turn.item_id, _ms(start_sample)))
        audible = self._replies.is_audible
        for action in self._turns.speech_started(self._ctx.config, audible=audible):
            if action is TurnAction.INTERRUPT:
                self._replies.interrupt()
        self._turn.follow()

    def _new_turn(self, start_sample: int) -> TurnTranscription:
        return TurnTranscription(self._ctx, self._ctx.new_id("item"), self._audio, start_sample)

    async def _close_turn(
        self, turn: TurnTranscription, end_sample: int, *, by_client: bool
    ) -> None:
        ctx = self._ctx
        self._turn = None
        self._turns.speech_stopped()
        item = Item(turn.item_id, Role.USER, (Part(PartKind.AUDIO),))
        previous_id = ctx.conversation.add(item)
        ctx.emit(AudioCommitted(turn.item_id, previous_id))
        ctx.emit(ItemAdded(item, previous_id))
        ctx.emit(ItemDone(item, previous_id))
        self._finals = [task for task in self._finals if not task.done()]
        if len(self._finals) >= MAX_PENDING_FINALS:
            await asyncio.wait({self._finals[0]})
        before = self._finals[-1] if self._finals else None
        work = self._write_down(turn, end_sample, before, by_client=by_client)
        self._finals.append(ctx.spawn(work, f"transcript {turn.item_id}"))

    async def _write_down(
        self,
        turn: TurnTranscription,
        end_sample: int,
        before: "asyncio.Task[None] | None",
        *,
        by_client: bool,
    ) -> None:
        """Tells the final transcript, in the order of the turns, and asks for a reply."""
        began_s = self._ctx.clock.now_s()
        try:
            transcript = await turn.finish(end_sample)
        except Exception as error:
            log.warning("no transcript of %s", turn.item_id, exc_info=error)
            self._ctx.emit(TranscriptFailed(turn.item_id, describe(error)[1]))
            return
        if before is not None:
            await asyncio.wait({before})
        self._ctx.observer.stage("final", self._ctx.clock.now_s() - began_s)
        self._tell(turn, transcript)
        silence_s = (self.received_samples - end_sample) / SAMPLE_RATE_HZ
        self._turn_ended_s = self._ctx.clock.now_s() - silence_s
        self._turns.transcribed(self._ctx.config, transcript.text, by_client=by_client)
        self._answer_due()

    def _answer_due(self) -> None:
        """Begins the reply that is owed, as soon as nobody speaks."""
        for action in self._turns.due(replying=self._replies.is_replying):
            if action is TurnAction.RESPOND:
                self._replies.begin(ended_s=self._turn_ended_s)

    def _tell(self, turn: TurnTranscription, transcript: Transcript) -> None:
        part = Part(PartKind.AUDIO, transcript.text)
        self._ctx.conversation.replace(Item(turn.item_id, Role.USER, (part,)))
        self._ctx.emit(
            TranscriptCompleted(
                turn.item_id, transcript.text, transcript.duration_s, transcript.language
            )
        )


def _ms(sample: int) -> int:
    return sample * 1000 // SAMPLE_RATE_HZ


def _endpointing(config: SessionConfig) -> EndpointingConfig:
    detection = config.turn_detection
    if detection is None:
        return EndpointingConfig()
    return EndpointingConfig(
        threshold=detection.threshold,
        prefix_padding_ms=detection.prefix_padding_ms,
        silence_ms=detection.silence_ms,
    )
