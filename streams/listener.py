"""Hears the speaker out: turns begin and end, are written down, and handed on for a reply.

All positions are absolute samples at 16 kHz, counted from the first one received, so that
times do not depend on when a packet came.
"""

import asyncio
import logging

from asr.config import SAMPLE_RATE_HZ
from asr.endpointing import EndpointEvent, Pause, Resume, SpeechEnd, SpeechStart
from asr.transcript import Transcript
from streams.config import SessionConfig
from streams.context import SessionContext, tell
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
from streams.hearing import Hearing
from streams.replies import Replies
from streams.turn_transcription import Clip, TurnTranscription
from streams.turns import TurnAction, TurnTaking

log = logging.getLogger(__name__)

IDLE_KEPT_S = 3.0
"""Audio kept while nobody speaks: enough for any pre-roll and for a commit by hand."""

MAX_PENDING_FINALS = 8
"""Turns that may wait for their transcript before no more audio is taken in: a client that
sends faster than it can be written down is slowed down, and loses nothing."""


class Listener:
    """Owns the turns of one session."""

    def __init__(self, ctx: SessionContext, replies: Replies) -> None:
        self._ctx = ctx
        self._replies = replies
        self._turns = TurnTaking()
        self._hearing = Hearing(ctx)
        self._turn: TurnTranscription | None = None
        # First sample that the client may still commit; None after a turn that the voice
        # detector has committed, until there is speech again.
        self._uncommitted: int | None = 0
        # Audio from before turn detection was switched on; the next turn begins with it.
        self._carried: int | None = None
        self._finals: list[asyncio.Task[None]] = []
        self._loss_told = False
        self._turn_ended_s = ctx.clock.now_s()
        replies.when_idle = self._answer_due
        replies.until_written = self.until_written

    @property
    def received_samples(self) -> int:
        """Counts the samples received, at 16 kHz."""
        return self._hearing.received

    async def open(self) -> None:
        """Takes a voice detector's stream; `close` gives it back."""
        await self._hearing.open()

    async def close(self) -> None:
        """Gives everything back."""
        self._drop_turn()
        for final in self._finals:
            final.cancel()
        await self._hearing.close()

    def configure(self, config: SessionConfig) -> None:
        """Takes a new configuration; a turn that has begun goes on under it."""
        was_manual = not self._hearing.detects
        self._hearing.configure(config)
        if config.turn_detection is not None:
            if was_manual and self._hearing.is_voiced(config.turn_detection.threshold):
                self._carried = self._uncommitted
            return
        self._carried = None
        if self._turn is not None:  # from now on the client says when it ends
            self._uncommitted = self._turn.start_sample
            self._tell_stopped(self._hearing.received)
            self._drop_turn()
        elif self._uncommitted is None:
            self._uncommitted = self._hearing.received

    async def hear(self, event: AudioIn) -> None:
        """Takes audio in, at any rate; turns begin and end on the way."""
        while len(pending := self._pending_finals()) >= MAX_PENDING_FINALS:
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        self._follow(await self._hearing.push(event))

    async def commit(self, event: CommitAudio) -> None:
        """Ends the utterance now, by the client's wish."""
        self._follow(await self._hearing.flush())
        received = self._hearing.received
        start = self._turn.start_sample if self._turn else self._uncommitted
        minimum_ms = max(1, self._ctx.limits.min_commit_ms)
        buffered_ms = 0 if start is None else (received - start) * 1000 // SAMPLE_RATE_HZ
        if start is None or buffered_ms < minimum_ms:
            message = (
                f"Error committing input audio buffer: buffer too small. Expected at least "
                f"{minimum_ms}ms of audio, but buffer only has {buffered_ms}ms of audio."
            )
            self._ctx.refuse(SessionErrorCode.BUFFER_EMPTY, message, event.ref)
            return
        self._tell_stopped(received)
        self._close_turn(self._turn or self._new_turn(start), received, by_client=True)
        self._forget_heard()

    async def clear(self, event: ClearAudio) -> None:
        """Forgets the audio that was not committed."""
        self._follow(await self._hearing.flush())
        self._tell_stopped(self._hearing.received)
        self._drop_turn()
        self._forget_heard()
        self._ctx.emit(AudioCleared())
        self._answer_due()

    async def finish(self) -> None:
        """Ends what is open and waits until every turn is written down."""
        self._follow(await self._hearing.flush())
        received = self._hearing.received
        if self._turn is not None:
            self._tell_stopped(received)
            self._close_turn(self._turn, received, by_client=False)
        elif self._ctx.config.turn_detection is None and self._uncommitted not in (None, received):
            self._close_turn(self._new_turn(self._uncommitted or 0), received, by_client=True)
        await self.until_written()

    async def until_written(self) -> None:
        """Waits until all turns that have ended are written down or have failed."""
        while pending := self._pending_finals():
            await asyncio.wait(pending)

    def _pending_finals(self) -> list[asyncio.Task[None]]:
        return [task for task in self._finals if not task.done()]

    def _follow(self, events: list[EndpointEvent]) -> None:
        for event in events:
            self._turn_event(event)
        self._report_loss()
        if self._turn is None and self._ctx.config.turn_detection is not None:
            kept = self._hearing.received - int(IDLE_KEPT_S * SAMPLE_RATE_HZ)
            self._hearing.buffer.discard_before(kept)
            if self._uncommitted is not None:
                self._uncommitted = max(self._uncommitted, kept)
            if self._carried is not None:
                self._carried = max(self._carried, kept)

    def _turn_event(self, event: EndpointEvent) -> None:
        match event:
            case SpeechStart(start_sample):
                self._begin_turn(start_sample)
            case Pause(end_sample) if self._turn is not None:
                self._turn.pause(end_sample)
            case Resume() if self._turn is not None:
                self._turn.follow()
            case SpeechEnd(end_sample) if self._turn is not None:
                waited = self._hearing.scored - end_sample
                self._ctx.observer.stage("endpoint", waited / SAMPLE_RATE_HZ)
                self._tell_stopped(end_sample)
                self._close_turn(self._turn, end_sample, by_client=False)
                self._uncommitted = None  # what follows is silence already judged
            case _:
                pass  # a pause or an end of a turn that the client has committed itself

    def _begin_turn(self, start_sample: int) -> None:
        if self._carried is not None:
            start_sample = min(start_sample, self._carried)
            self._carried = None
        self._turn = self._new_turn(start_sample)
        self._uncommitted = start_sample
        self._ctx.emit(SpeechStarted(self._turn.item_id, _ms(start_sample)))
        audible = self._replies.is_audible
        for action in self._turns.speech_started(self._ctx.config, audible=audible):
            if action is TurnAction.INTERRUPT:
                self._replies.interrupt()
        self._turn.follow()

    def _tell_stopped(self, end_sample: int) -> None:
        """Gives every start of speech its end, whoever has decided on it."""
        if self._turn is not None:
            self._ctx.emit(SpeechStopped(self._turn.item_id, _ms(end_sample)))

    def _new_turn(self, start_sample: int) -> TurnTranscription:
        return TurnTranscription(self._ctx, self._ctx.new_id("item"), self._hearing, start_sample)

    def _drop_turn(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self._turns.speech_stopped()

    def _forget_heard(self) -> None:
        """Lets what has come so far belong to no later turn."""
        self._hearing.forget_turn()
        self._uncommitted = self._hearing.received
        self._hearing.buffer.discard_before(self._uncommitted)
        self._carried = None
        self._loss_told = False

    def _report_loss(self) -> None:
        """Tells the client once that audio which it could still commit fell out."""
        start = self._turn.start_sample if self._turn else self._uncommitted
        lost = 0 if start is None else self._hearing.buffer.start - start
        if lost <= 0 or self._loss_told:
            return
        self._loss_told = True
        self._ctx.observer.dropped("audio_samples", lost)
        limit = self._ctx.limits.max_buffer_s
        message = f"more than {limit:g} s of uncommitted audio: the oldest was dropped"
        self._ctx.emit(SessionError(SessionErrorCode.BUFFER_FULL, message))

    def _close_turn(self, turn: TurnTranscription, end_sample: int, *, by_client: bool) -> None:
        ctx, clip = self._ctx, turn.clip(end_sample)
        self._turn = None
        self._turns.speech_stopped()
        item = Item(turn.item_id, Role.USER, (Part(PartKind.AUDIO),))
        previous_id = ctx.conversation.add(item)
        ctx.emit(AudioCommitted(turn.item_id, previous_id))
        ctx.emit(ItemAdded(item, previous_id))
        ctx.emit(ItemDone(item, previous_id))
        self._finals = self._pending_finals()
        before = self._finals[-1] if self._finals else None
        work = self._write_down(turn, clip, before, by_client=by_client)
        self._finals.append(ctx.spawn(work, f"transcript {turn.item_id}"))

    async def _write_down(
        self,
        turn: TurnTranscription,
        clip: Clip,
        before: "asyncio.Task[None] | None",
        *,
        by_client: bool,
    ) -> None:
        """Tells the final transcript, in the order of the turns, and asks for a reply."""
        began_s = self._ctx.clock.now_s()
        transcript: Transcript | None = None
        failure: TranscriptFailed | None = None
        try:
            transcript = await turn.finish(clip)
        except Exception as error:
            turn.cancel()
            failure = TranscriptFailed(
                turn.item_id, tell(log, f"transcript {turn.item_id}", error)[1]
            )
        if before is not None:
            await asyncio.wait({before})
        if failure is not None:
            self._ctx.emit(failure)
        if transcript is not None:
            self._ctx.observer.stage("final", self._ctx.clock.now_s() - began_s)
            self._tell(turn, transcript)
            silence_s = (self.received_samples - clip.end_sample) / SAMPLE_RATE_HZ
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
