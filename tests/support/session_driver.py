"""Drives a real session with a manual clock and scripted pipelines, in the field's words."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from asr.evidence import VoiceEvidence
from asr.long_audio import LongTranscriber
from asr.transcript import TranscribeOptions, Transcript
from engines.base import EngineStats, FinishReason, Samples, Ticket
from streams.config import SessionConfig, SessionLimits, Tier
from streams.context import Identity, Pipelines, Services
from streams.events import (
    AudioIn,
    CreateItem,
    Item,
    Part,
    PartKind,
    Role,
    SessionInput,
    SessionOutput,
)
from streams.observer import NullObserver, Observer
from streams.session import Session
from tests.support.clock import ManualClock, settle
from tts.synthesizer import VoiceOptions
from vlm.responder import ChatMessage, ReplyDelta, ReplyOptions

RATE_HZ = 16_000
FRAME_S = 0.02
E = TypeVar("E")


MANUAL = SessionConfig(turn_detection=None, output_rate_hz=RATE_HZ)


def typed(text: str) -> CreateItem:
    """Returns a message that the user has typed."""
    return CreateItem(Item("", Role.USER, (Part(PartKind.TEXT, text),)))


class ScriptedVad:
    """Hears speech wherever there is sound."""

    def __init__(self) -> None:
        self.open_streams = 0
        self.tickets: list[Ticket] = []
        self.refuse_with: Exception | None = None

    async def open(self, ticket: Ticket) -> str:
        self.tickets.append(ticket)
        if self.refuse_with is not None:
            raise self.refuse_with
        self.open_streams += 1
        return ticket.request_id

    async def push(self, stream_id: str, samples: Samples) -> np.ndarray:
        await asyncio.sleep(0)
        chunks = samples.reshape(-1, 512)
        return (np.abs(chunks).max(axis=1) > 0.01).astype(np.float32)

    async def close(self, stream_id: str) -> None:
        await asyncio.sleep(0)  # as a host answers: not at once
        self.open_streams -= 1

    def stats(self) -> EngineStats:
        return EngineStats(running=self.open_streams)


@dataclass
class ScriptedTranscriber:
    """Answers each call with the words given for that length of speech."""

    clock: ManualClock
    text: str = "hello there"
    takes_s: float = 0.0
    language: str = "en"
    sure_of_language: bool = True
    calls: list[float] = field(default_factory=list)
    asked: list[TranscribeOptions] = field(default_factory=list)
    tickets: list[Ticket] = field(default_factory=list)
    last: Samples = field(default_factory=lambda: np.zeros(0, np.float32))
    fail_with: Exception | None = None

    async def transcribe(
        self,
        samples: Samples,
        *,
        options: TranscribeOptions,
        ticket: Ticket,
        evidence: VoiceEvidence | None = None,
    ) -> Transcript:
        self.calls.append(len(samples) / RATE_HZ)
        self.asked.append(options)
        self.tickets.append(ticket)
        self.last = samples
        await self.clock.sleep(self.takes_s)
        if self.fail_with is not None:
            raise self.fail_with
        return Transcript(
            self.text,
            len(samples) / RATE_HZ,
            self.language,
            sure_of_language=self.sure_of_language,
        )


@dataclass
class ScriptedResponder:
    """Replies with fixed words, one a step, each taking `step_s`."""

    clock: ManualClock
    words: Sequence[str] = ("Good ", "morning ", "to ", "you. ", "How ", "are ", "you?")
    step_s: float = 0.0
    fail_with: Exception | None = None
    finish: FinishReason = FinishReason.STOP
    running: int = 0
    aborted: int = 0
    heard: list[list[tuple[str, str]]] = field(default_factory=list)
    options: list[ReplyOptions] = field(default_factory=list)
    primed: list[str] = field(default_factory=list)
    released: int = 0
    tickets: list[Ticket] = field(default_factory=list)

    async def prime(self, options: ReplyOptions, ticket: Ticket) -> None:
        self.tickets.append(ticket)
        self.primed.append(options.instructions)

    async def release(self, ticket: Ticket, cache_salt: str = "") -> None:
        self.tickets.append(ticket)
        self.released += 1

    async def reply(
        self, messages: Sequence[ChatMessage], options: ReplyOptions, ticket: Ticket
    ) -> AsyncGenerator[ReplyDelta, None]:
        self.tickets.append(ticket)
        self.options.append(options)
        self.heard.append([(message.role, message.text) for message in messages])
        self.running += 1
        ended = False
        try:
            for word in self.words:
                await self.clock.sleep(self.step_s)
                yield ReplyDelta(word)
            if self.fail_with is not None:
                raise self.fail_with
            yield ReplyDelta("", finish=self.finish, prompt_tokens=5, output_tokens=7)
            ended = True
        finally:
            self.running -= 1
            self.aborted += not ended


@dataclass
class ScriptedSynthesizer:
    """Speaks 50 ms a character, at once."""

    sample_rate_hz: int = RATE_HZ
    voices: tuple[str, ...] = ("default",)
    spoken: list[str] = field(default_factory=list)
    tone_hz: float = 0.0
    asked: list[VoiceOptions] = field(default_factory=list)
    tickets: list[Ticket] = field(default_factory=list)

    async def speak(
        self, text: str, *, voice: VoiceOptions, ticket: Ticket
    ) -> AsyncGenerator[Samples, None]:
        self.spoken.append(text)
        self.asked.append(voice)
        self.tickets.append(ticket)
        time_s = np.arange(round(0.05 * len(text) * self.sample_rate_hz)) / self.sample_rate_hz
        yield (0.1 * np.cos(2 * np.pi * self.tone_hz * time_s)).astype(np.float32)


class ScriptedServer:
    """Holds the scripted pipelines and the clock that sessions share."""

    def __init__(
        self, limits: SessionLimits | None = None, observer: Observer | None = None
    ) -> None:
        self.clock = ManualClock()
        self.vad = ScriptedVad()
        self.transcriber = ScriptedTranscriber(self.clock)
        self.responder = ScriptedResponder(self.clock)
        self.synthesizer = ScriptedSynthesizer()
        long = LongTranscriber(self.transcriber, self.vad)  # type: ignore[arg-type]
        pipelines = Pipelines(
            self.vad,
            self.transcriber,  # type: ignore[arg-type]
            long,
            self.responder,  # type: ignore[arg-type]
            self.synthesizer,
        )
        self.limits = limits or SessionLimits()
        self.services = Services(pipelines, self.limits, self.clock, observer or NullObserver())


class SessionDriver(ScriptedServer):
    """Holds one running session and everything that came out of it."""

    def __init__(
        self,
        config: SessionConfig | None = None,
        limits: SessionLimits | None = None,
        *,
        tier: Tier = Tier.FREE,
    ) -> None:
        super().__init__(limits)
        identity = Identity("sess_test", "tester", tier, "test")
        self.config = config or SessionConfig(output_rate_hz=RATE_HZ)
        self.session = Session(identity, self.config, self.services)
        self.out: list[SessionOutput] = []
        self.reading = asyncio.Event()
        self.reading.set()
        self._tasks: list[asyncio.Task[object]] = []

    async def __aenter__(self) -> "SessionDriver":
        self._tasks = [
            asyncio.create_task(self.session.run()),
            asyncio.create_task(self._read()),
        ]
        await settle()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._tasks[0].cancel()
        self.reading.set()
        await asyncio.wait(self._tasks)

    async def leave(self) -> None:
        """Cancels the session as a shell does whose client is gone."""
        self._tasks[0].cancel()
        await asyncio.wait({self._tasks[0]})

    @property
    def ended(self) -> bool:
        return self._tasks[0].done()

    async def _read(self) -> None:
        async for event in self.session.outputs():
            self.out.append(event)
            await self.reading.wait()

    async def send(self, *events: SessionInput) -> None:
        for event in events:
            await self.session.send(event)
        await settle()

    async def until(self, condition: Callable[[], object]) -> None:
        """Waits for what a thread has a part in: its time is not the manual clock's."""
        for _ in range(10_000):
            if condition():
                return
            await asyncio.sleep(0.001)
        raise AssertionError("it has not come about")

    async def speech(self, seconds: float) -> None:
        await self._stream(seconds, 0.3)

    async def silence(self, seconds: float) -> None:
        await self._stream(seconds, 0.0)

    async def _stream(self, seconds: float, level: float) -> None:
        frame = np.full(round(FRAME_S * RATE_HZ), level, np.float32)
        for _ in range(round(seconds / FRAME_S)):
            await self.session.send(AudioIn(frame, RATE_HZ))
            await self.clock.advance(FRAME_S)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.out if isinstance(event, kind)]

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.out]

    def assert_in_order(self, *kinds: type[object]) -> None:
        """Asserts that events of these kinds came in this order, others between them."""
        names = iter(self.kinds())
        for kind in kinds:
            assert any(name == kind.__name__ for name in names), (
                f"{kind.__name__} is missing or too early in {self.kinds()}"
            )
