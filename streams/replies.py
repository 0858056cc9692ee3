"""The life of replies: begun, cancelled, interrupted, and cut to what was heard.

At most one reply is made at a time. A reply that is complete may still be heard; until its
playout has ended a speaker can interrupt it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from engines.base import FinishReason
from streams.config import ResponseOptions, SessionConfig
from streams.context import SessionContext, tell
from streams.errors import AntiphonError, SessionErrorCode
from streams.events import (
    AudioDelta,
    CancelResponse,
    CreateResponse,
    Item,
    ItemStatus,
    OutputDone,
    OutputStarted,
    PlaybackCleared,
    PlaybackProgress,
    ResponseDone,
    ResponseReason,
    ResponseStarted,
    ResponseStatus,
    Role,
    SessionOutput,
)
from streams.generation import GenerationCounter
from streams.playout import PlayoutClock
from streams.reply import Reply, ReplyMaker
from vlm.responder import ReplyOptions

log = logging.getLogger(__name__)

AUDIBLE_S = 0.05
"""A reply with less than this unheard counts as heard to the end."""

PRIME_DUE_S = 2.0
"""Priming gives way to everybody who is waited for."""

RELEASE_TIMEOUT_S = 5.0


class Replies:
    """Owns the replies of one session."""

    def __init__(self, ctx: SessionContext) -> None:
        self._ctx = ctx
        self._generation = GenerationCounter()
        self._reply: Reply | None = None  # the newest
        self._heard: list[Reply] = []  # earlier ones that the listener still hears
        self._task: asyncio.Task[None] | None = None
        self._priming: asyncio.Task[None] | None = None
        self._audio_went_out = False
        self.when_idle: Callable[[], None] = lambda: None
        self.until_written: Callable[[], Awaitable[None]] = _at_once

    @property
    def is_replying(self) -> bool:
        """Whether a reply is being made."""
        return self._reply is not None and not self._reply.finished

    @property
    def is_audible(self) -> bool:
        """Whether a reply is being made or heard."""
        return self.is_replying or any(self._lead_s(reply) > AUDIBLE_S for reply in self._all())

    @property
    def has_spoken(self) -> bool:
        """Whether any audio has gone out (the voice is then fixed)."""
        made = self._reply is not None and self._reply.emitted_s > 0
        return made or self._audio_went_out

    def prime(self) -> None:
        """Lets the model read what every reply begins with, while nobody waits for it."""
        if self._priming is not None:
            self._priming.cancel()
        if self._ctx.config.respond and not self.is_replying:
            self._priming = self._ctx.spawn(self._prime(), "prime")

    async def _prime(self) -> None:
        ctx = self._ctx
        options = ReplyOptions(instructions=ctx.config.instructions, cache_salt=ctx.identity.tenant)
        ticket = ctx.ticket(due_in_s=PRIME_DUE_S, timeout_s=ctx.limits.reply_timeout_s)
        try:
            await ctx.pipelines.responder.prime(options, ticket)
        except AntiphonError as error:
            log.info("the first reply begins cold: %s", error.message)

    async def release(self) -> None:
        """Gives back what the model keeps for this session; all its tasks have ended."""
        ctx = self._ctx
        if self._priming is not None:
            ticket = ctx.ticket(due_in_s=0.1, timeout_s=RELEASE_TIMEOUT_S)
            await ctx.pipelines.responder.release(ticket, ctx.identity.tenant)

    def create(self, event: CreateResponse) -> None:
        """Begins a reply, or refuses while another one is being made."""
        if self._reply is not None and not self._reply.finished:
            message = (
                "Conversation already has an active response in progress: "
                f"{self._reply.response_id}"
            )
            self._ctx.refuse(SessionErrorCode.RESPONSE_ACTIVE, message, event.ref)
            return
        self.begin(event.options)

    def begin(
        self, options: ResponseOptions | None = None, *, ended_s: float | None = None
    ) -> None:
        """Begins a reply to the conversation as it stands.

        Args:
            options: what the client asked for.
            ended_s: when the speaker fell silent, for the latency that people feel.
        """
        ctx = self._ctx
        if self._priming is not None:
            self._priming.cancel()  # what it has computed is kept, and used now
        options = options or ResponseOptions()
        now_s = ctx.clock.now_s()
        self._heard = [reply for reply in self._all() if self._lead_s(reply) > AUDIBLE_S]
        unheard_s = sum(self._lead_s(reply) for reply in self._heard)
        reply = Reply(
            response_id=ctx.new_id("resp"),
            item_id=ctx.new_id("item"),
            config=_merged(ctx.config, options),
            options=options,
            generation=self._generation.advance(),
            began_s=now_s,
            ended_s=ended_s,
            playout=PlayoutClock(not_before_s=now_s + unheard_s),
        )
        self._reply = reply
        ctx.emit(ResponseStarted(reply.response_id, options))
        item = Item(reply.item_id, Role.ASSISTANT, (), ItemStatus.IN_PROGRESS)
        previous_id = ctx.conversation.add(item)
        if reply.config.output_audio:
            ctx.conversation.begin_speech(reply.item_id)
        ctx.emit(OutputStarted(reply.response_id, item, previous_id))
        self._task = ctx.spawn(self._make(reply), f"reply {reply.response_id}")

    def cancel(self, event: CancelResponse) -> None:
        """Stops the reply that is being made, by the client's wish."""
        reply = self._reply
        named = reply is not None and event.response_id in (None, reply.response_id)
        if not self.is_replying or not named:
            message = "Cancellation failed: no active response found"
            self._ctx.refuse(SessionErrorCode.NO_ACTIVE_RESPONSE, message, event.ref)
            return
        self._stop(ResponseReason.CLIENT_CANCELLED)

    def interrupt(self) -> None:
        """Ends what is made or heard because the speaker began: no more of it is sent."""
        if not self.is_audible:
            return
        self._ctx.observer.barge_in()
        for reply in self._heard:
            self._cut(reply)
        self._heard = []
        self._stop(ResponseReason.TURN_DETECTED)

    def drop_unheard(self) -> None:
        """Stops whatever is made or heard, without a word to the client (session end)."""
        self._generation.advance()
        if self.is_replying:
            self._ctx.observer.response_done("abandoned")
        if self._task is not None:
            self._task.cancel()

    def report(self, event: PlaybackProgress) -> None:
        """Takes the client's own word on how much it has played."""
        for reply in self._all():
            if reply.item_id == event.item_id:
                reply.playout.report(event.played_ms / 1000, self._ctx.clock.now_s())

    def sent(self, event: SessionOutput) -> None:
        """Notes that the transport took an event: from now on its audio is heard."""
        if not isinstance(event, AudioDelta):
            return
        self._audio_went_out = True
        for reply in self._all():
            if reply.response_id == event.response_id:
                duration_s = len(event.samples) / event.rate_hz
                reply.playout.route(duration_s, self._ctx.clock.now_s())

    async def finished(self) -> None:
        """Waits until no reply is being made, those included that others lead to."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    def _all(self) -> list[Reply]:
        return [*self._heard, self._reply] if self._reply is not None else self._heard

    def _lead_s(self, reply: Reply) -> float:
        return reply.lead_s(self._ctx.clock.now_s())

    async def _make(self, reply: Reply) -> None:
        try:
            await self.until_written()  # the model reads text: what was said comes first
            await ReplyMaker(self._ctx, reply, self._generation.is_stale).run()
        except Exception as error:
            if reply.finished:
                raise  # told to the client already; what is left is for the log
            told = tell(log, f"reply {reply.response_id}", error)
            self._finish(reply, ResponseStatus.FAILED, error=told)
            return
        reply.playout.close()
        if reply.finish is FinishReason.LENGTH:
            reason = ResponseReason.MAX_OUTPUT_TOKENS
            self._finish(reply, ResponseStatus.INCOMPLETE, reason=reason)
        else:
            self._finish(reply, ResponseStatus.COMPLETED)

    def _stop(self, reason: ResponseReason) -> None:
        """Ends the newest reply: what is unsent is dropped, the rest is cut to what was heard."""
        reply = self._reply
        if reply is None:
            return
        self._generation.advance()
        log.info("reply %s ends: %s", reply.response_id, reason)
        self._cut(reply)
        if not reply.finished:
            if self._task is not None:
                self._task.cancel()
            self._finish(reply, ResponseStatus.CANCELLED, reason=reason)

    def _cut(self, reply: Reply) -> None:
        """Takes back what the listener has not heard, and remembers only the rest."""
        ctx, now_s = self._ctx, self._ctx.clock.now_s()
        was_audible = self._lead_s(reply) > AUDIBLE_S
        dropped = ctx.outbox.drop_audio(reply.response_id)
        heard_s = reply.playout.played_s(now_s)
        if was_audible:
            log.info(
                "reply %s was cut: %.2f of %.2f s heard", reply.response_id, heard_s, reply.made_s
            )
            ctx.emit(PlaybackCleared(reply.response_id, reply.item_id))
        if reply.config.output_audio and (was_audible or not reply.finished):
            ctx.conversation.truncate_if_present(reply.item_id, heard_s * 1000)
        if dropped:
            ctx.observer.dropped("unheard_samples", dropped)
        reply.playout.close()
        reply.emitted_s = heard_s

    def _finish(
        self,
        reply: Reply,
        status: ResponseStatus,
        *,
        reason: ResponseReason | None = None,
        error: tuple[SessionErrorCode, str] | None = None,
    ) -> None:
        ctx = self._ctx
        reply.finished = True
        complete = status is ResponseStatus.COMPLETED
        item = reply.item(ItemStatus.COMPLETED if complete else ItemStatus.INCOMPLETE)
        ctx.conversation.replace(item)
        previous_id = ctx.conversation.previous_or_none(item.item_id)
        ctx.emit(OutputDone(reply.response_id, item, previous_id))
        ctx.observer.response_done(str(status))
        ctx.emit(
            ResponseDone(
                reply.response_id,
                status,
                (item,),
                reply.options,
                usage=replace(reply.usage, output_audio_ms=round(reply.emitted_s * 1000)),
                reason=reason,
                error_code=error[0] if error else None,
                error_message=error[1] if error else None,
            )
        )
        self.when_idle()


async def _at_once() -> None:
    """Waits for nothing."""


def _merged(config: SessionConfig, options: ResponseOptions) -> SessionConfig:
    """Returns the session's configuration with the reply's own options laid over it."""
    changes = {
        name: value
        for name in ("instructions", "output_audio", "max_output_tokens", "voice")
        if (value := getattr(options, name)) is not None
    }
    return replace(config, **changes)
