"""What the parts of one session share: identity, configuration, pipelines, and the outbox."""

import asyncio
import logging
import uuid
from collections.abc import Coroutine
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from asr.long_audio import LongTranscriber
from asr.transcriber import Transcriber
from engines.base import Ticket, VoiceActivityEngine
from streams.clock import Clock
from streams.config import SessionConfig, SessionLimits, Tier
from streams.conversation import Conversation
from streams.errors import (
    AntiphonError,
    BadRequest,
    Overloaded,
    SessionErrorCode,
    Timeout,
    Unsupported,
)
from streams.events import SessionError, SessionOutput
from streams.observer import Observer
from streams.outbox import Outbox
from tts.synthesizer import Synthesizer
from vlm.responder import Responder

log = logging.getLogger(__name__)

CURRENT_SESSION: ContextVar[str] = ContextVar("antiphon_session", default="")
"""The session that the running task belongs to; log lines carry it."""

_CODES: tuple[tuple[type[AntiphonError], SessionErrorCode], ...] = (
    (Overloaded, SessionErrorCode.OVERLOADED),
    (Timeout, SessionErrorCode.TIMEOUT),
    (Unsupported, SessionErrorCode.UNSUPPORTED),
    (BadRequest, SessionErrorCode.INVALID),
)


@dataclass(frozen=True, slots=True)
class Pipelines:
    """Is everything that listens, thinks and speaks, shared by all sessions."""

    vad: VoiceActivityEngine
    transcriber: Transcriber
    long_transcriber: LongTranscriber
    responder: Responder
    synthesizer: Synthesizer


@dataclass(frozen=True, slots=True)
class Services:
    """Is what the server gives to every session alike."""

    pipelines: Pipelines
    limits: SessionLimits
    clock: Clock
    observer: Observer


@dataclass(frozen=True, slots=True)
class Identity:
    """Says whose session it is and by which door it came."""

    session_id: str
    tenant: str
    tier: Tier
    protocol: str


class SessionContext:
    """Holds the shared state of one session; only the session's own tasks touch it."""

    def __init__(self, identity: Identity, config: SessionConfig, services: Services) -> None:
        self.identity = identity
        self.config = config
        self.limits = services.limits
        self.pipelines = services.pipelines
        self.clock = services.clock
        self.observer = services.observer
        self.conversation = Conversation()
        self.outbox = Outbox(services.limits.outbox_bytes, services.clock)
        self._group: asyncio.TaskGroup | None = None
        self._tickets = 0
        self._heard_language: str | None = None

    @property
    def language(self) -> str | None:
        """The language of the speech: set by the client, or heard once and kept."""
        return self.config.language or self._heard_language

    def lock_language(self, language: str | None) -> None:
        """Keeps the language that was heard first; detection per turn would flip."""
        self._heard_language = self._heard_language or language

    def attach(self, group: asyncio.TaskGroup) -> None:
        """Gives the task group in which everything of this session runs and ends."""
        self._group = group

    def emit(self, event: SessionOutput) -> None:
        """Sends an event to the client."""
        self.outbox.put(event)

    def refuse(self, code: SessionErrorCode, message: str, ref: str | None) -> None:
        """Tells the client that its event `ref` was not taken."""
        self.emit(SessionError(code, message, ref))

    def new_id(self, prefix: str) -> str:
        """Returns a fresh id such as `item_5f0c...`."""
        return f"{prefix}_{uuid.uuid4().hex[:20]}"

    def ticket(self, due_in_s: float, timeout_s: float) -> Ticket:
        """Returns a ticket for one engine request of this session."""
        self._tickets += 1
        session_id = self.identity.session_id
        return Ticket(
            request_id=f"{session_id}.{self._tickets}",
            session_id=session_id,
            tier=self.identity.tier,
            due_in_s=due_in_s,
            timeout_s=timeout_s,
        )

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        """Runs work beside the actor; its failure is told to the client and logged."""
        if self._group is None:
            work.close()
            raise RuntimeError("the session does not run")
        task = self._group.create_task(self._guarded(work, name), name=name)
        # A task cancelled before its first step would leave `work` behind, never awaited.
        task.add_done_callback(lambda _: work.close())
        return task

    async def _guarded(self, work: Coroutine[Any, Any, None], name: str) -> None:
        try:
            await work
        except Exception as error:
            code, message = tell(log, name, error)
            self.emit(SessionError(code, message))


def tell(logger: logging.Logger, what: str, error: Exception) -> tuple[SessionErrorCode, str]:
    """Logs a failure and translates it for the client.

    What a client has caused, or a full engine, is one line; a fault of ours has its
    traceback.
    """
    code, message = describe(error)
    if code is None:
        logger.error("%s failed", what, exc_info=error)
        return SessionErrorCode.INTERNAL, message
    logger.warning("%s failed: %s", what, message)
    return code, message


def describe(error: BaseException) -> tuple[SessionErrorCode | None, str]:
    """Translates an error for the client; code None means a fault of ours.

    Of an exception group the first member counts.
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if not isinstance(error, AntiphonError):
        return None, "internal error"
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code, error.message
    return SessionErrorCode.INTERNAL, error.message
