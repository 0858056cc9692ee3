"""The unmodified `openai` SDK holds a spoken conversation with the real server."""

import asyncio
import base64
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
from faster_whisper import WhisperModel
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from openai.types.realtime import RealtimeServerEvent

from antiphon.realtime_client import spoken
from antiphon.server_process import ServerProcess
from antiphon.spoken_turn import SpokenTurn
from asr.wer import word_error_rate
from engines.base import Samples
from tests.e2e.conftest import AUDIO
from tests.support.models import model_path

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(170)]

RATE_HZ = 24_000
EVENT_TIMEOUT_S = 60.0
JFK = (
    "and so my fellow americans ask not what your country can do for you "
    "ask what you can do for your country"
)


def read(name: str) -> Samples:
    samples, rate_hz = soundfile.read(AUDIO / name, dtype="float32", always_2d=True)
    return soxr.resample(samples.mean(axis=1), rate_hz, RATE_HZ).astype(np.float32)


class Conversation:
    """Is an open connection of the SDK, with every event kept at the time it came."""

    def __init__(self, connection: AsyncRealtimeConnection) -> None:
        self.connection = connection
        self.events: list[tuple[float, RealtimeServerEvent]] = []
        self.turn = SpokenTurn()
        self.over = False
        self._news = asyncio.Condition()

    async def listen(self) -> None:
        """Keeps events until the connection ends, or it is cancelled."""
        try:
            async for event in self.connection:
                async with self._news:
                    self.events.append((time.monotonic(), event))
                    self.turn.take(event.model_dump(), time.monotonic())
                    self._news.notify_all()
        finally:
            async with self._news:
                self.over = True
                self._news.notify_all()

    async def speak(self, samples: Samples) -> None:
        """Streams at the pace of speech, then silence, until cancelled."""
        async for frame in spoken(samples, RATE_HZ):
            audio = base64.b64encode((frame * 32767).astype("<i2").tobytes()).decode()
            await self.connection.input_audio_buffer.append(audio=audio)

    def all(self, kind: str, after_s: float = 0.0) -> list[tuple[float, Any]]:
        """Returns the events of a kind that came after a time."""
        return [
            (at_s, event) for at_s, event in self.events if event.type == kind and at_s > after_s
        ]

    async def first(self, kind: str, after_s: float = 0.0) -> tuple[float, Any]:
        """Waits for the first such event."""
        await self._until(lambda: bool(self.all(kind, after_s)), kind)
        return self.all(kind, after_s)[0]

    async def answered(self, end_s: float) -> SpokenTurn:
        """Waits for the reply to speech that ends at a time, and returns the turn."""
        await self._until(lambda: self.turn.settled and time.monotonic() > end_s, "reply")
        return self.turn

    async def _until(self, true: Callable[[], bool], what: str) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EVENT_TIMEOUT_S), self._news:
                await self._news.wait_for(lambda: true() or self.over)
        seen = Counter(event.type for _, event in self.events)
        assert true(), f"no {what} came; connection over: {self.over}; seen: {seen}"


@asynccontextmanager
async def conversation(server: ServerProcess, **session: Any) -> AsyncIterator[Conversation]:
    """Opens a conversation as the SDK's own examples do."""
    async with (
        AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="not-needed") as client,
        client.realtime.connect(model="gpt-realtime") as connection,
    ):
        audio = {"input": {"transcription": {"model": "whisper-1"}}}
        settings: Any = {"type": "realtime", "audio": audio, **session}
        await connection.session.update(session=settings)
        opened = Conversation(connection)
        async with meanwhile(opened.listen()):
            yield opened


@asynccontextmanager
async def meanwhile(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs work beside the block; what it raises fails the test."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def transcribe_back(samples: Samples, model: Path) -> str:
    """Returns what an independent implementation of Whisper hears."""
    whisper = WhisperModel(str(model), device="cpu", compute_type="int8", cpu_threads=2)
    audio = soxr.resample(samples, RATE_HZ, 16_000)
    return " ".join(part.text for part in whisper.transcribe(audio, language="en", beam_size=5)[0])


async def until(true: Callable[[], bool], within_s: float) -> bool:
    """Returns whether something, looked at off the loop, came true in time."""
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        if await asyncio.to_thread(true):
            return True
    return False


def total(metrics: dict[str, float], family: str) -> float:
    """Returns the sum of a family over its labels."""
    return sum(value for name, value in metrics.items() if name.split("{")[0] == family)


async def test_spoken_speech_is_written_down_and_answered_aloud(server: ServerProcess) -> None:
    samples = read("jfk.flac")
    # Two sentences: among five words one slip of the listener would already be 20 %.
    instructions = "You are a helpful assistant. Answer in two full sentences."
    async with (
        conversation(server, instructions=instructions, max_output_tokens=60) as talk,
        meanwhile(talk.speak(samples)),
    ):
        turn = await talk.answered(time.monotonic() + len(samples) / RATE_HZ)
    started_s, _ = talk.all("input_audio_buffer.speech_started")[0]
    stopped_s, _ = talk.all("input_audio_buffer.speech_stopped")[0]
    assert started_s < stopped_s
    assert turn.failure is None
    assert word_error_rate(JFK, turn.transcript) <= 0.10, turn.transcript
    assert turn.reply.strip()
    heard = await asyncio.to_thread(transcribe_back, turn.sound, model_path("whisper-base"))
    assert word_error_rate(turn.reply, heard) <= 0.15, (turn.reply, heard)


def idle(metrics: dict[str, float]) -> bool:
    """Returns whether the engines that make a reply have nothing to do."""
    return all(
        metrics[f'antiphon_engine_running{{engine="{name}"}}'] == 0 for name in ("lm", "voice")
    )


async def test_speech_during_the_reply_stops_sound_and_generation(server: ServerProcess) -> None:
    before = await asyncio.to_thread(server.metrics)
    async with conversation(server, instructions="You tell long stories.") as talk:
        text: Any = {"type": "input_text", "text": "Tell me a long story about a river."}
        await talk.connection.conversation.item.create(
            item={"type": "message", "role": "user", "content": [text]}
        )
        await talk.connection.response.create()
        first_s, first = await talk.first("response.output_audio.delta")
        async with meanwhile(talk.speak(read("en-US_sample.flac"))):
            started_s, _ = await talk.first("input_audio_buffer.speech_started")
            done_s, done = await talk.first("response.done")
            assert await until(lambda: idle(server.metrics()), within_s=1.0)
            after = await asyncio.to_thread(server.metrics)
            await talk.connection.conversation.item.truncate(
                item_id=first.item_id,
                content_index=0,
                audio_end_ms=round((started_s - first_s) * 1000),
            )
            _, truncated = await talk.first("conversation.item.truncated")
            _, answer = await talk.first("response.output_audio.delta", after_s=done_s)
    deltas = talk.all("response.output_audio.delta", after_s=started_s + 0.25)
    assert not [delta for _, delta in deltas if delta.response_id == first.response_id]
    assert done.response.status == "cancelled"
    assert done.response.status_details.reason == "turn_detected"
    assert truncated.item_id == first.item_id
    for family in ("antiphon_engine_aborted_total", "antiphon_barge_ins_total"):
        assert total(after, family) > total(before, family)
    assert answer.response_id != first.response_id
