"""Replays a telephone call as Twilio makes it: the network plays, and answers marks."""

import asyncio
import base64
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from websockets.asyncio.client import ClientConnection, connect

from antiphon.server_process import ServerProcess, server_process
from engines.base import Samples
from protocols.audio_formats import Encoding, encode
from tests.e2e.wire import resampled

pytestmark = pytest.mark.e2e

DATA = Path(__file__).parent.parent / "data" / "audio"
FRAME = 160
FRAME_S = 0.02
SILENCE = b"\xff" * FRAME


def mu_law(name: str) -> Samples:
    samples, rate_hz = soundfile.read(DATA / name, dtype="float32")
    return resampled(samples, rate_hz, 8_000)


class Phone:
    """Is the telephone network's end of one stream.

    It sends a frame every 20 ms, plays what it gets at the pace of a telephone, and gives a
    mark back when the audio before it has been played, or at once after a clear.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.to_say: list[bytes] = []
        self.queue: list[bytes | str] = []
        self.media: list[float] = []
        self.played_frames = 0
        self.clears: list[float] = []
        self.said_s: float | None = None
        self._chunk = 0

    async def send(self, event: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"event": event, "streamSid": "MZ1", **fields}))

    async def start(self) -> None:
        await self.send("connected", protocol="Call", version="1.0.0")
        start = {
            "streamSid": "MZ1",
            "accountSid": "AC1",
            "callSid": "CA1",
            "tracks": ["inbound"],
            "customParameters": {"token": "sesame-sesame-sesame"},
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
        }
        await self.send("start", sequenceNumber="1", start=start)

    def say(self, samples: Samples) -> None:
        data = encode(samples, Encoding.MULAW)
        self.to_say = [data[at : at + FRAME] for at in range(0, len(data) - FRAME, FRAME)]

    async def tick(self) -> None:
        """Lives through 20 ms: one frame out, one frame played, marks given back."""
        self._chunk += 1
        frame = self.to_say.pop(0) if self.to_say else SILENCE
        payload = base64.b64encode(frame).decode()
        timestamp = str(20 * self._chunk)
        media = {"track": "inbound", "chunk": str(self._chunk), "timestamp": timestamp}
        await self.send("media", media={**media, "payload": payload})
        played = False
        while self.queue and not (played and isinstance(self.queue[0], bytes)):
            head = self.queue.pop(0)
            if isinstance(head, bytes):
                played = True
                self.played_frames += 1
            else:
                await self.send("mark", mark={"name": head})

    async def live(self) -> None:
        due_s = time.monotonic()
        while True:
            await self.tick()
            due_s += FRAME_S
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))

    async def listen(self) -> None:
        async for message in self.socket:
            event = json.loads(message)
            assert event["streamSid"] == "MZ1"
            if event["event"] == "media":
                audio = base64.b64decode(event["media"]["payload"])
                assert len(audio) == FRAME
                self.media.append(time.monotonic())
                self.queue.append(audio)
            elif event["event"] == "mark":
                self.queue.append(event["mark"]["name"])
            else:
                assert event["event"] == "clear"
                self.clears.append(time.monotonic())
                pending = [name for name in self.queue if isinstance(name, str)]
                self.queue.clear()
                for name in pending:
                    await self.send("mark", mark={"name": name})


@pytest.fixture(scope="module")
def story_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Tells stories of 48 tokens, which is longer than 8 s of speech, to whoever has the token."""
    arguments = [
        *("--set", "sessions.instructions=You tell long stories about ships and the sea."),
        *("--set", "sessions.limits.max_output_tokens=48"),
        *("--set", "twilio.parameter_token=sesame-sesame-sesame"),
    ]
    log = tmp_path_factory.mktemp("twilio") / "server.log"
    with server_process(log, arguments=arguments) as running:
        yield running


async def until(condition: Any, timeout_s: float, what: str) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, what
        await asyncio.sleep(0.005)


async def test_caller_who_speaks_after_generation_is_finished_clears_the_network(
    story_server: ServerProcess,
) -> None:
    url = f"ws://127.0.0.1:{story_server.port}/twilio"
    async with connect(url, proxy=None) as socket:
        phone = Phone(socket)
        await phone.start()
        tasks = [asyncio.create_task(phone.live()), asyncio.create_task(phone.listen())]
        try:
            phone.say(mu_law("en-US_sample.flac"))
            await until(lambda: phone.media, 30, "the reply has no audio")
            first_s = phone.media[0]
            await until(lambda: time.monotonic() >= first_s + 4.0, 5, "")
            metrics = await asyncio.to_thread(story_server.metrics)
            assert metrics['antiphon_engine_running{engine="lm"}'] == 0
            assert metrics['antiphon_engine_running{engine="voice"}'] == 0
            aborted = metrics['antiphon_engine_aborted_total{engine="lm"}']
            speech = mu_law("yes_800ms.flac")
            onset_s = np.flatnonzero(np.abs(speech) > 0.02)[0] / 8_000
            phone.say(np.concatenate((speech, speech)))
            spoke_s = time.monotonic() + onset_s
            await until(lambda: phone.clears, 2, "no clear")
            assert phone.clears[0] - spoke_s <= 0.2
            heard_s = phone.played_frames * FRAME_S
            await asyncio.sleep(0.4)
            assert all(when <= phone.clears[0] for when in phone.media)
            metrics = await asyncio.to_thread(story_server.metrics)
            assert metrics['antiphon_engine_aborted_total{engine="lm"}'] == aborted
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
    told = re.search(r"was cut: ([\d.]+) of ([\d.]+) s heard", story_server.log.read_text())
    assert told is not None
    assert float(told[2]) > 5.0
    assert abs(float(told[1]) - heard_s) <= 0.3


async def test_audio_goes_out_in_20_ms_frames_not_far_ahead_of_the_playback(
    story_server: ServerProcess,
) -> None:
    url = f"ws://127.0.0.1:{story_server.port}/twilio"
    async with connect(url, proxy=None) as socket:
        phone = Phone(socket)
        await phone.start()
        tasks = [asyncio.create_task(phone.live()), asyncio.create_task(phone.listen())]
        try:
            phone.say(mu_law("en-US_sample.flac"))
            await until(lambda: len(phone.media) > 150, 40, "the reply has no audio")
            first_s = phone.media[0]
            leads = [(n + 1) * FRAME_S - (when - first_s) for n, when in enumerate(phone.media)]
            assert max(leads) <= 0.5
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def test_call_without_the_token_is_refused(story_server: ServerProcess) -> None:
    url = f"ws://127.0.0.1:{story_server.port}/twilio"
    async with connect(url, proxy=None) as socket:
        start = {
            "streamSid": "MZ1",
            "callSid": "CA1",
            "customParameters": {"token": "guess"},
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
        }
        await socket.send(json.dumps({"event": "start", "streamSid": "MZ1", "start": start}))
        await socket.wait_closed()
        assert socket.close_code == 1008
