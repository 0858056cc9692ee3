"""A bare WebSocket client of the Realtime protocol: sends what a test says, byte for byte."""

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from engines.base import Samples

Event = dict[str, Any]
FRAME_S = 0.02
DATA = Path(__file__).parent.parent / "data" / "audio"


def pcm16(samples: Samples) -> bytes:
    return (np.clip(samples, -1, 1) * 32767).round().astype("<i2").tobytes()


def resampled(samples: Samples, in_hz: int, out_hz: int) -> Samples:
    return np.asarray(soxr.resample(samples, in_hz, out_hz), dtype=np.float32)


def clip(name: str, rate_hz: int = 24_000) -> Samples:
    """Returns a recording of the test data at this rate."""
    samples, file_hz = soundfile.read(DATA / name, dtype="float32")
    return resampled(samples, file_hz, rate_hz)


def white_noise(seconds: float, dbfs: float, rate_hz: int, seed: int = 1) -> Samples:
    noise = np.random.default_rng(seed).standard_normal(round(seconds * rate_hz))
    return (noise * 10 ** (dbfs / 20)).astype(np.float32)


class Wire:
    """Is one connection; everything received is kept with its time of arrival."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.events: list[tuple[float, Event]] = []
        self.arrived = asyncio.Condition()
        self._ended = False
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        with contextlib.suppress(ConnectionClosed):  # the close code tells how it ended
            async for message in self.socket:
                async with self.arrived:
                    self.events.append((time.monotonic(), json.loads(message)))
                    self.arrived.notify_all()
        self._ended = True
        async with self.arrived:
            self.arrived.notify_all()

    @property
    def closed(self) -> bool:
        return self._ended

    async def send(self, **event: Any) -> None:
        await self.socket.send(json.dumps(event))

    async def append(self, pcm: bytes) -> None:
        audio = base64.b64encode(pcm).decode()
        await self.send(type="input_audio_buffer.append", audio=audio)

    async def stream(self, pcm: bytes, frame_bytes: int, *, pace_s: float = 0.0) -> None:
        """Sends frames of exactly this size; `pace_s` is the time each one takes."""
        due_s = time.monotonic()
        for start in range(0, len(pcm), frame_bytes):
            await self.append(pcm[start : start + frame_bytes])
            due_s += pace_s
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))

    def of(self, kind: str) -> list[Event]:
        return [event for _, event in self.events if event["type"] == kind]

    def at(self, kind: str, index: int = 0) -> float:
        """Returns when the event of this type arrived, in monotonic seconds."""
        return [when for when, event in self.events if event["type"] == kind][index]

    async def wait_for(self, kind: str, count: int = 1, timeout_s: float = 30.0) -> Event:
        """Waits until `count` events of this type have come and returns the last of them."""
        await self.wait(lambda: len(self.of(kind)) >= count, kind, timeout_s)
        return self.of(kind)[count - 1]

    async def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
        try:
            async with asyncio.timeout(timeout_s), self.arrived:
                await self.arrived.wait_for(lambda: condition() or self.closed)
        except TimeoutError:
            pass
        seen = [event["type"] for _, event in self.events]
        assert condition(), f"{what} did not come; seen: {seen}"

    async def configure(self, **session: Any) -> Event:
        before = len(self.of("session.updated"))
        await self.send(type="session.update", session={"type": "realtime", **session})
        return await self.wait_for("session.updated", before + 1)

    async def close(self) -> None:
        await self.socket.close()
        await asyncio.wait({self._reader})


@asynccontextmanager
async def wire(url: str, **options: Any) -> AsyncIterator[Wire]:
    """Opens a connection and waits for `session.created`."""
    async with connect(url, max_size=None, proxy=None, **options) as socket:
        client = Wire(socket)
        try:
            await client.wait_for("session.created")
            yield client
        finally:
            await client.close()


def audio_input(rate_hz: int, turn_detection: Event | None) -> Event:
    """Returns the `audio` part of a session with this PCM rate and turn detection."""
    return {
        "input": {
            "format": {"type": "audio/pcm", "rate": rate_hz},
            "turn_detection": turn_detection,
            "transcription": {"model": "whisper-base", "language": "en"},
        }
    }
