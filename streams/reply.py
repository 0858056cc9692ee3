"""Makes one reply: text from the language model, clauses from the text, audio from those.

Three stages run beside each other and hand over through bounded queues, so that the next
clause is spoken while the current one is heard and the model still writes. Everything that
a reply delivers goes through `_deliver`, which drops it once the reply is stale.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from engines.base import FinishReason, Samples
from streams.config import ResponseOptions, SessionConfig
from streams.context import SessionContext
from streams.events import (
    AudioDelta,
    Item,
    ItemStatus,
    Part,
    PartKind,
    Role,
    SessionOutput,
    TextDelta,
    Usage,
)
from streams.handover import Handover
from streams.playout import PlayoutClock
from streams.resampler import StreamResampler
from tts.chunker import TextChunk, TextChunker
from tts.synthesizer import VoiceOptions
from vlm.responder import ChatMessage, ReplyDelta, ReplyOptions

PIECE_S = 0.1
"""Audio goes out in pieces of this length: short enough to cut exactly at barge-in."""

PACED_PIECE_S = 0.02
"""The same where audio is paced: the frame of telephone networks."""

POLL_S = 0.02
"""How often a waiting stage looks at the playout clock again."""

CLAUSES_AHEAD = 16
PIECES_AHEAD = 4096


@dataclass(slots=True)
class Reply:
    """Is the state of one reply.

    Attributes:
        response_id, item_id: its names on the wire.
        config: the session's configuration when it began, with the reply's own options.
        options: what the client asked for, echoed at the end.
        generation: its number; stale once a newer one exists.
        began_s: when it was asked for.
        ended_s: when the speaker fell silent; None where no speech asked for it.
    """

    response_id: str
    item_id: str
    config: SessionConfig
    options: ResponseOptions
    generation: int
    began_s: float
    ended_s: float | None
    text: str = ""
    usage: Usage = field(default_factory=Usage)
    finish: FinishReason | None = None
    finished: bool = False
    emitted_s: float = 0.0
    made_s: float = 0.0
    playout: PlayoutClock = field(default_factory=PlayoutClock)

    def lead_s(self, now_s: float) -> float:
        """Returns the seconds on their way to the listener and not heard yet."""
        return max(0.0, self.emitted_s - self.playout.played_s(now_s))

    def item(self, status: ItemStatus) -> Item:
        """Returns the assistant item as it stands."""
        kind = PartKind.AUDIO if self.config.output_audio else PartKind.TEXT
        return Item(self.item_id, Role.ASSISTANT, (Part(kind, self.text.strip()),), status)


class ReplyMaker:
    """Runs the stages of one reply.

    Args:
        ctx: the session.
        reply: what is made; its fields grow while `run` runs.
        is_stale: tells whether the reply may still deliver.
    """

    def __init__(self, ctx: SessionContext, reply: Reply, is_stale: Callable[[int], bool]) -> None:
        self._ctx = ctx
        self._reply = reply
        self._is_stale = is_stale
        self._clauses: Handover[TextChunk] = Handover(CLAUSES_AHEAD)
        self._pieces: Handover[Samples] = Handover(PIECES_AHEAD)
        self._samples_out = 0
        self._first_text_s: float | None = None

    async def run(self) -> None:
        """Makes the reply; returns when its last audio was handed over.

        Raises:
            ExceptionGroup: of what the stages raised; `streams.context.describe` reads it.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write())
            if self._reply.config.output_audio:
                group.create_task(self._speak())
                group.create_task(self._route())

    async def _write(self) -> None:
        """Stage 1: the model's text goes to the client at once and, cut up, to the voice."""
        chunker = TextChunker()
        spoken = self._reply.config.output_audio
        async with aclosing(self._deltas()) as deltas:
            async for delta in deltas:
                if delta.text:
                    self._take_text(delta.text)
                    for clause in chunker.push(delta.text) if spoken else ():
                        await self._clauses.put(clause)
                if delta.finish is not None:
                    self._take_end(delta)
        for clause in chunker.flush() if spoken else ():
            await self._clauses.put(clause)
        self._clauses.close()

    def _deltas(self) -> AsyncGenerator[ReplyDelta, None]:
        config, limits = self._reply.config, self._ctx.limits
        messages = [
            ChatMessage(str(role), text) for role, text in self._ctx.conversation.messages()
        ]
        wanted = config.max_output_tokens or limits.max_output_tokens
        options = ReplyOptions(
            max_tokens=min(wanted, limits.max_output_tokens),
            instructions=config.instructions,
            cache_salt=self._ctx.identity.tenant,
        )
        ticket = self._ctx.ticket(due_in_s=0.1, timeout_s=limits.reply_timeout_s)
        return self._ctx.pipelines.responder.reply(messages, options, ticket)

    def _take_text(self, text: str) -> None:
        if self._first_text_s is None:
            self._first_text_s = self._ctx.clock.now_s()
            self._ctx.observer.stage("first_text", self._first_text_s - self._reply.began_s)
        self._reply.text += text
        self._deliver(TextDelta(self._reply.response_id, self._reply.item_id, text))

    def _take_end(self, delta: ReplyDelta) -> None:
        self._reply.finish = delta.finish
        self._reply.usage = Usage(
            input_text_tokens=delta.prompt_tokens,
            output_text_tokens=delta.output_tokens,
            cached_tokens=delta.cached_tokens,
        )

    async def _speak(self) -> None:
        """Stage 2: clauses become audio, but not much more than the listener will hear."""
        reply, ctx = self._reply, self._ctx
        synthesizer = ctx.pipelines.synthesizer
        voice = VoiceOptions(reply.config.voice, reply.config.speed)
        resampler = StreamResampler(synthesizer.sample_rate_hz, reply.config.output_rate_hz)
        speech = ctx.conversation.begin_speech(reply.item_id)
        async for clause in self._clauses:
            speech.begin(clause.display)
            if not clause.spoken:
                continue  # emoji and the like: shown, not said
            await self._until(lambda: self._unheard_s() < ctx.limits.generate_ahead_s)
            ticket = ctx.ticket(self._due_in_s(), ctx.limits.synthesis_timeout_s)
            async with aclosing(
                synthesizer.speak(clause.spoken, voice=voice, ticket=ticket)
            ) as chunks:
                async for samples in chunks:
                    duration_s = len(samples) / synthesizer.sample_rate_hz
                    speech.extend(duration_s * 1000)
                    reply.made_s += duration_s
                    await self._hand_over(resampler.push(samples))
        await self._hand_over(resampler.flush())
        self._pieces.close()

    async def _hand_over(self, samples: Samples) -> None:
        piece_s = PIECE_S if self._ctx.limits.route_ahead_s is None else PACED_PIECE_S
        piece_samples = round(piece_s * self._reply.config.output_rate_hz)
        for start in range(0, len(samples), piece_samples):
            await self._pieces.put(samples[start : start + piece_samples])

    async def _route(self) -> None:
        """Stage 3: audio goes to the client, paced where the transport wants it."""
        reply, ctx = self._reply, self._ctx
        ahead_s = ctx.limits.route_ahead_s
        async for samples in self._pieces:
            await ctx.outbox.room()
            if ahead_s is not None:
                limit_s = ahead_s
                await self._until(lambda: self._unplayed_s() < limit_s)  # noqa: B023
            self._note_first_audio()
            rate_hz = reply.config.output_rate_hz
            delta = AudioDelta(
                reply.response_id, reply.item_id, samples, rate_hz, self._samples_out
            )
            if not self._deliver(delta):
                return
            self._samples_out += len(samples)
            reply.emitted_s += len(samples) / rate_hz

    def _note_first_audio(self) -> None:
        if self._samples_out:
            return
        now_s = self._ctx.clock.now_s()
        if self._first_text_s is not None:
            self._ctx.observer.stage("first_audio", now_s - self._first_text_s)
        if self._reply.ended_s is not None:
            self._ctx.observer.stage("voice_to_voice", now_s - self._reply.ended_s)

    def _deliver(self, event: SessionOutput) -> bool:
        """Sends an event unless the reply is stale; says whether it did."""
        if self._is_stale(self._reply.generation):
            self._ctx.observer.dropped("late_output", 1)
            return False
        self._ctx.emit(event)
        return True

    def _unplayed_s(self) -> float:
        """Seconds given to the transport or on the way there, and not heard yet."""
        return self._reply.emitted_s - self._reply.playout.played_s(self._ctx.clock.now_s())

    def _unheard_s(self) -> float:
        """Seconds made and not heard yet."""
        return self._reply.made_s - self._reply.playout.played_s(self._ctx.clock.now_s())

    def _due_in_s(self) -> float:
        """Says within what time the next clause is needed: before the listener runs dry."""
        return max(0.1, self._unheard_s()) if self._samples_out else 0.05

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._ctx.clock.sleep(POLL_S)
