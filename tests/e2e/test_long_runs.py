"""What needs longer in real time than the default run allows: `make test-slow`."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from antiphon.server_process import ServerProcess
from tests.e2e.wire import audio_input, clip, pcm16, white_noise, wire

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

SERVER_VAD = {"type": "server_vad"}


async def test_a_minute_of_silence_and_one_of_noise_at_their_own_pace_say_nothing(
    server: ServerProcess,
) -> None:
    async def listen(samples: np.ndarray) -> None:
        async with wire(server.ws_url) as client:
            await client.configure(audio=audio_input(24_000, SERVER_VAD))
            await client.stream(pcm16(samples.astype(np.float32)), 960, pace_s=0.02)
            kinds = {event["type"] for _, event in client.events}
            assert "response.created" not in kinds
            for kind in ("delta", "completed"):
                events = client.of(f"conversation.item.input_audio_transcription.{kind}")
                assert all(not event.get("transcript", event.get("delta")) for event in events)

    await asyncio.gather(
        listen(np.zeros(60 * 24_000)),
        listen(white_noise(60, -30, 24_000)),
    )


async def test_ten_minutes_of_turns_keep_their_times_and_their_words(
    server: ServerProcess,
) -> None:
    """Sends sixty turns faster than real time; positions must not drift."""
    question = clip("en-US_sample.flac", 16_000)
    turn = np.concatenate((question, np.zeros(10 * 16_000 - len(question), np.float32)))
    detection = {**SERVER_VAD, "create_response": False}
    async with wire(server.ws_url) as client:
        await client.configure(audio=audio_input(16_000, detection))
        completed = "conversation.item.input_audio_transcription.completed"
        for number in range(60):
            await client.stream(pcm16(turn), 6_400)
            await client.wait_for(completed, number + 1)
        starts = [
            event["audio_start_ms"] for event in client.of("input_audio_buffer.speech_started")
        ]
        assert len(starts) == 60
        drift_ms = [start - starts[0] - 10_000 * number for number, start in enumerate(starts)]
        assert max(map(abs, drift_ms)) <= 64
        texts = {event["transcript"] for event in client.of(completed)}
        assert texts == {"What is natural language processing?"}


async def test_five_hundred_connections_leave_memory_flat(server: ServerProcess) -> None:
    speech = pcm16(clip("yes_800ms.flac", 24_000))

    async def visit(number: int) -> None:
        async with wire(server.ws_url) as client:
            await client.stream(speech, 9_600)
            if number % 2:
                client.socket.transport.abort()

    def resident_bytes() -> int:
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024

    for number in range(50):
        await visit(number)
    before = resident_bytes()
    for number in range(500):
        await visit(number)
    await asyncio.sleep(1.0)
    assert resident_bytes() - before < 64 * 2**20
    metrics = server.metrics()
    assert metrics['antiphon_sessions{protocol="realtime"}'] == 0
    for engine in ("asr", "lm", "vad", "voice"):
        assert metrics[f'antiphon_engine_running{{engine="{engine}"}}'] == 0
    held = metrics['antiphon_engine_cache_bytes{engine="lm"}']
    assert held <= metrics['antiphon_engine_cache_limit_bytes{engine="lm"}']
