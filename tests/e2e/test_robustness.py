"""What a hostile, broken or merely noisy client may do, and what must live on."""

import asyncio
import contextlib
import json
import time

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

from antiphon.server_process import ServerProcess
from tests.e2e.test_replayed_cases import transcribe_by_commit
from tests.e2e.wire import Wire, audio_input, clip, pcm16, white_noise, wire

pytestmark = pytest.mark.e2e

MALFORMED = {
    "not JSON": "{nonsense",
    "not an object": "[1, 2]",
    "no type": "{}",
    "unknown type": '{"type": "session.explode"}',
    "missing field": '{"type": "input_audio_buffer.append"}',
    "wrong field type": '{"type": "input_audio_buffer.append", "audio": 7}',
    "bad base64": '{"type": "input_audio_buffer.append", "audio": "***"}',
    "wrong nested type": '{"type": "session.update", "session": {"type": "realtime", "audio": 3}}',
    "deep nesting": '{"type": "session.update", "session": ' + "[" * 5000 + "]" * 5000 + "}",
}


@pytest.mark.parametrize("message", MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_message_gets_an_error_and_the_session_lives(
    server: ServerProcess, message: str
) -> None:
    async with wire(server.ws_url) as client:
        await client.socket.send(message)
        error = await client.wait_for("error")
        assert error["error"]["type"] == "invalid_request_error"
        assert error["event_id"]
        await client.configure(audio=audio_input(24_000, None))
        text = await transcribe_by_commit(client, clip("yes_450ms.flac"))
        assert "yes" in text.lower()


async def test_binary_frame_gets_an_error_and_the_session_lives(server: ServerProcess) -> None:
    async with wire(server.ws_url) as client:
        await client.socket.send(b"\x00\x01" * 100)
        await client.wait_for("error")
        await client.configure(instructions="Be brief.")


async def test_frame_of_20_megabytes_closes_its_own_connection_only(server: ServerProcess) -> None:
    async with wire(server.ws_url) as bystander, wire(server.ws_url) as client:
        with contextlib.suppress(ConnectionClosed):  # the refusal may overtake the frame
            await client.append(bytes(20_000_000))
        await client.wait(lambda: client.closed, "the close")
        assert client.socket.close_code == 1009
        await bystander.configure(instructions="Still here.")


async def send_faster_than_live(client: Wire, pcm: bytes, rate_hz: int) -> None:
    """Sends a minute in a few seconds: the session counts time in samples."""
    await client.stream(pcm, rate_hz // 5 * 2)
    await client.send(type="conversation.item.retrieve", item_id="nobody", event_id="marker")
    await client.wait(
        lambda: any(e["error"].get("event_id") == "marker" for e in client.of("error")),
        "the end of the audio",
        timeout_s=60,
    )


@pytest.mark.parametrize("dbfs", [None, -60, -35, -20])
async def test_a_minute_without_speech_makes_no_transcript(
    server: ServerProcess, dbfs: float | None
) -> None:
    rate_hz = 16_000
    samples = np.zeros(60 * rate_hz, np.float32)
    if dbfs is not None:
        samples = white_noise(60, dbfs, rate_hz)
    async with wire(server.ws_url) as client:
        await client.configure(audio=audio_input(rate_hz, {"type": "server_vad"}))
        await send_faster_than_live(client, pcm16(samples), rate_hz)
        for kind in ("delta", "completed"):
            events = client.of(f"conversation.item.input_audio_transcription.{kind}")
            assert all(not event.get("transcript", event.get("delta")) for event in events)
        assert not client.of("response.created")


async def test_pongs_and_health_answer_within_a_second_at_full_load(
    server: ServerProcess,
) -> None:
    """Four sessions speak and are answered at once; pings go out all the while."""
    speech = pcm16(np.concatenate((clip("en-US_sample.flac"), np.zeros(24_000, np.float32))))
    slowest_s = 0.0

    async def talk() -> None:
        async with wire(server.ws_url, ping_interval=None) as client:
            await client.configure(audio=audio_input(24_000, {"type": "server_vad"}))
            await client.stream(speech, 960, pace_s=0.02)
            await client.wait_for("response.done", timeout_s=60)

    async def ping() -> None:
        nonlocal slowest_s
        async with wire(server.ws_url, ping_interval=None) as client:
            while True:
                started_s = time.monotonic()
                await (await client.socket.ping())
                await asyncio.to_thread(server.get, "/healthz")
                slowest_s = max(slowest_s, time.monotonic() - started_s)
                await asyncio.sleep(0.05)

    pinging = asyncio.create_task(ping())
    await asyncio.gather(*(talk() for _ in range(4)))
    pinging.cancel()
    await asyncio.wait({pinging})
    assert 0 < slowest_s < 1.0


async def test_dropped_connection_frees_everything_in_the_engines(server: ServerProcess) -> None:
    async with wire(server.ws_url) as client:
        item = {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "Tell me a very long story."}],
        }
        await client.send(type="conversation.item.create", item=item)
        await client.send(type="response.create")
        await client.wait_for("response.output_audio_transcript.delta")
        client.socket.transport.abort()
    deadline_s = time.monotonic() + 2.0
    while time.monotonic() < deadline_s:
        metrics = server.metrics()
        running = [metrics[f'antiphon_engine_running{{engine="{e}"}}'] for e in ("lm", "voice")]
        if not any(running):
            break
        await asyncio.sleep(0.02)
    assert running == [0, 0]
    assert json.loads(server.get("/healthz"))["status"] == "ok"
