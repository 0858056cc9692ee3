"""The session: one actor that takes typed events in, in order, and sends typed events out.

It serves every protocol and knows none. The actor itself only decides and never waits for
an engine longer than a voice-activity step; transcripts and replies run beside it in the
session's task group, and all of them have ended when `run` returns.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, assert_never

from streams.config import SessionConfig
from streams.context import Identity, Services, SessionContext, describe
from streams.conversation import Refused
from streams.errors import AntiphonError, SessionErrorCode
from streams.events import (
    AudioIn,
    CancelResponse,
    ClearAudio,
    CommitAudio,
    CreateItem,
    CreateResponse,
    DeleteItem,
    DtmfDigit,
    EndInput,
    Item,
    ItemAdded,
    ItemDeleted,
    ItemDone,
    ItemRetrieved,
    ItemTruncated,
    KeepAlive,
    Part,
    PartKind,
    PlaybackProgress,
    RetrieveItem,
    Role,
    SessionClosed,
    SessionError,
    SessionInput,
    SessionOutput,
    SessionStarted,
    SessionUpdated,
    TruncateItem,
    UpdateSession,
)
from streams.handover import Handover
from streams.lease import Lease
from streams.listener import Listener
from streams.replies import Replies

log = logging.getLogger(__name__)


class Session:
    """Is one conversation with one client, over whatever transport.

    Args:
        identity: whose it is.
        config: what it begins with.
        services: pipelines, limits, clock and observer of the server.
    """

    def __init__(self, identity: Identity, config: SessionConfig, services: Services) -> None:
        self._ctx = SessionContext(identity, config, services)
        self._inbox: Handover[SessionInput] = Handover(services.limits.inbox_events)
        self._replies = Replies(self._ctx)
        self._listener = Listener(self._ctx, self._replies)
        self._lease = Lease(services.limits, services.clock)
        self._ending = False

    @property
    def session_id(self) -> str:
        """The id that logs and clients know it by."""
        return self._ctx.identity.session_id

    @property
    def is_ending(self) -> bool:
        """Whether it is giving back what it holds: then wait for it, and do not cancel."""
        return self._ending

    async def send(self, event: SessionInput) -> None:
        """Gives an event to the actor; waits while its inbox is full (backpressure)."""
        self._lease.renew()
        await self._inbox.put(event)

    async def outputs(self) -> AsyncIterator[SessionOutput]:
        """Yields what goes to the client; ends after `SessionClosed`."""
        async for event in self._ctx.outbox.drain():
            self._replies.sent(event)
            yield event

    def end(self, code: SessionErrorCode, message: str) -> None:
        """Asks the session to close soon, with this reason (drain)."""
        self._lease.end(code, message)

    async def run(self) -> SessionClosed:
        """Lives until the client ends, the lease runs out, or the task is cancelled.

        Returns:
            Why it ended; the same is the last event of `outputs`.
        """
        closed = SessionClosed()
        try:
            closed = await self._live()
        except Exception as error:
            log.exception("session %s failed", self.session_id)
            code, message = describe(error)
            closed = SessionClosed(code or SessionErrorCode.INTERNAL, message)
        finally:
            self._ending = True
            self._inbox.close()
            self._ctx.emit(closed)
            self._ctx.outbox.close()
            await self._release()
        return closed

    async def _release(self) -> None:
        try:
            await self._replies.release()
        except AntiphonError as error:
            log.warning("session %s was not released: %s", self.session_id, error.message)

    async def _live(self) -> SessionClosed:
        async with asyncio.TaskGroup() as group:
            self._ctx.attach(group)
            await self._listener.open()
            self._ctx.emit(SessionStarted(self.session_id, self._ctx.config))
            self._replies.prime()
            actor = group.create_task(self._act())
            lease = group.create_task(
                self._lease.watch(self._ctx.outbox, lambda: self._replies.is_audible)
            )
            try:
                await asyncio.wait({actor, lease}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await self._stop(actor, lease)
            return SessionClosed() if lease.cancelled() else lease.result()

    async def _stop(self, *tasks: "asyncio.Task[Any]") -> None:
        """Ends the actor before what it works with is given back."""
        self._ending = True
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        self._replies.drop_unheard()
        await self._listener.close()

    async def _act(self) -> None:
        async for event in self._inbox:
            if isinstance(event, EndInput):
                await self._finish()
                return
            try:
                await self._handle(event)
            except Refused as refused:
                ref = getattr(event, "ref", None)
                self._ctx.emit(
                    SessionError(refused.code, refused.message, ref, param=refused.param)
                )
            except AntiphonError as error:
                code, message = describe(error)
                self._ctx.refuse(
                    code or SessionErrorCode.INTERNAL, message, getattr(event, "ref", None)
                )
            await self._ctx.outbox.room()

    async def _finish(self) -> None:
        """Sends every final before the end: transcripts, and the reply they lead to."""
        await self._listener.finish()
        await self._replies.finished()

    async def _handle(self, event: SessionInput) -> None:
        match event:
            case AudioIn():
                await self._listener.hear(event)
            case CommitAudio():
                await self._listener.commit(event)
            case ClearAudio():
                await self._listener.clear(event)
            case CreateResponse():
                self._replies.create(event)
            case CancelResponse():
                self._replies.cancel(event)
            case UpdateSession():
                self._update(event)
            case PlaybackProgress():
                self._replies.report(event)
            case CreateItem() | DeleteItem() | RetrieveItem() | TruncateItem():
                self._edit(event)
            case DtmfDigit():
                self._note_digit(event)
            case KeepAlive() | EndInput():
                pass
            case _:
                assert_never(event)

    def _update(self, event: UpdateSession) -> None:
        if event.config.voice != self._ctx.config.voice and self._replies.has_spoken:
            message = "Cannot update a conversation's voice if assistant audio is present."
            self._ctx.refuse(SessionErrorCode.VOICE_LOCKED, message, event.ref)
            return
        changed = event.config.instructions != self._ctx.config.instructions
        self._ctx.config = event.config
        if changed:
            self._replies.prime()
        self._listener.configure(event.config)
        self._ctx.emit(SessionUpdated(event.config))

    def _edit(self, event: CreateItem | DeleteItem | RetrieveItem | TruncateItem) -> None:
        conversation = self._ctx.conversation
        match event:
            case CreateItem(item, previous_item_id):
                if not item.item_id:
                    item = replace(item, item_id=self._ctx.new_id("item"))
                self._add(item, previous_item_id)
            case DeleteItem(item_id):
                conversation.delete(item_id)
                self._ctx.emit(ItemDeleted(item_id))
            case RetrieveItem(item_id):
                self._ctx.emit(ItemRetrieved(conversation.remembered(item_id)))
            case TruncateItem(_, _, content_index) if content_index != 0:
                message = f"the item has no content part {content_index}"
                raise Refused(SessionErrorCode.INVALID, message, param="content_index")
            case TruncateItem(item_id, audio_end_ms, content_index):
                heard_ms = conversation.truncate(item_id, audio_end_ms)
                self._ctx.emit(ItemTruncated(item_id, round(heard_ms), content_index))
            case _:
                assert_never(event)

    def _add(self, item: Item, previous_item_id: str | None) -> None:
        previous_id = self._ctx.conversation.add(item, previous_item_id)
        self._ctx.emit(ItemAdded(item, previous_id))
        self._ctx.emit(ItemDone(item, previous_id))

    def _note_digit(self, event: DtmfDigit) -> None:
        text = f"(The caller pressed the key {event.digit}.)"
        self._add(Item(self._ctx.new_id("item"), Role.USER, (Part(PartKind.TEXT, text),)), None)
