"""Replays bug reports of other servers against ours, with the outcome that is right."""

import asyncio
import base64
import time
from collections.abc import Iterator

import numpy as np
import pytest

from antiphon.server_process import ServerProcess, server_process
from asr.wer import word_error_rate
from engines.base import Samples
from protocols.audio_formats import Encoding, decode_g711, encode
from tests.e2e.wire import Wire, audio_input, clip, pcm16, white_noise, wire

pytestmark = pytest.mark.e2e

RATE_HZ = 24_000
SERVER_VAD = {"type": "server_vad"}
QUESTION = "what is natural language processing"


def zero(seconds: float, rate_hz: int = RATE_HZ) -> Samples:
    return np.zeros(round(seconds * rate_hz), np.float32)


async def stream_live(client: Wire, samples: Samples, rate_hz: int = RATE_HZ) -> None:
    await client.stream(pcm16(samples), 2 * rate_hz // 50, pace_s=0.02)


async def transcribe_by_commit(client: Wire, samples: Samples) -> str:
    done = len(client.of("conversation.item.input_audio_transcription.completed"))
    await client.stream(pcm16(samples), 9600)
    await client.send(type="input_audio_buffer.commit")
    kind = "conversation.item.input_audio_transcription.completed"
    return str((await client.wait_for(kind, done + 1))["transcript"])


async def test_commit_of_what_the_vad_has_committed_is_an_error_and_nothing_more(
    server: ServerProcess,
) -> None:
    async with wire(server.ws_url + "?intent=transcription") as client:
        await client.send(
            type="session.update",
            session={"type": "transcription", "audio": audio_input(RATE_HZ, SERVER_VAD)},
        )
        await client.wait_for("session.updated")
        speech = clip("en-US_sample.flac")
        await stream_live(client, np.concatenate((speech, zero(1.0))))
        await client.wait_for("input_audio_buffer.committed")
        kind = "conversation.item.input_audio_transcription.completed"
        first = await client.wait_for(kind)
        await client.send(type="input_audio_buffer.commit", event_id="c2")
        error = (await client.wait_for("error"))["error"]
        assert error["code"] == "input_audio_buffer_commit_empty"
        assert error["event_id"] == "c2"
        assert "ms" in error["message"]
        await stream_live(client, np.concatenate((speech, zero(1.0))))
        second = await client.wait_for(kind, 2)
        await asyncio.sleep(0.5)
        assert len(client.of(kind)) == 2
        assert len(client.of("error")) == 1
        for event in (first, second):
            assert word_error_rate(QUESTION, event["transcript"]) == 0


@pytest.mark.parametrize("server_vad", [True, False])
async def test_last_word_comes_without_an_end_marker(
    server: ServerProcess, server_vad: bool
) -> None:
    speech = clip("white_tower.flac")
    kind = "conversation.item.input_audio_transcription.completed"
    async with wire(server.ws_url) as client:
        await client.configure(
            audio=audio_input(
                RATE_HZ, {**SERVER_VAD, "create_response": False} if server_vad else None
            )
        )
        for turn in (1, 2):
            await stream_live(client, speech)
            if server_vad:
                await stream_live(client, zero(1.0))
                await client.wait_for("input_audio_buffer.speech_stopped", turn)
            else:
                await client.send(type="input_audio_buffer.commit")
                await client.wait_for("input_audio_buffer.committed", turn)
            final = await client.wait_for(kind, turn)
            assert word_error_rate("who built the white tower", final["transcript"]) == 0
            decided_s = client.at("input_audio_buffer.committed", turn - 1)
            # Far below the time that a recogniser takes which waits for more audio; how
            # fast it is on a quiet machine is for the benchmarks to say.
            assert client.at(kind, turn - 1) - decided_s < 2.0


async def test_partials_show_all_but_the_last_word_when_nothing_more_is_sent(
    server: ServerProcess,
) -> None:
    async with wire(server.ws_url) as client:
        await client.configure(audio=audio_input(RATE_HZ, SERVER_VAD))
        await stream_live(client, clip("white_tower.flac"))
        await asyncio.sleep(3.0)
        deltas = client.of("conversation.item.input_audio_transcription.delta")
        shown = "".join(delta["delta"] for delta in deltas).lower()
        assert "who built the white" in shown


async def test_end_of_input_yields_the_final_first_and_then_close_1000(
    server: ServerProcess,
) -> None:
    async with wire(server.ws_url + "?intent=transcription") as client:
        await stream_live(client, clip("white_tower.flac"))
        await client.send(type="antiphon.input.end")
        await client.wait(lambda: client.closed, "the close")
        final = client.of("conversation.item.input_audio_transcription.completed")
        assert word_error_rate("who built the white tower", final[0]["transcript"]) == 0
        assert client.socket.close_code == 1000


@pytest.mark.parametrize("word", ["yes", "no", "stop"])
@pytest.mark.parametrize("milliseconds", ["250", "450", "800"])
async def test_one_word_answers_come_back(
    server: ServerProcess, word: str, milliseconds: str
) -> None:
    async with wire(server.ws_url) as client:
        await client.configure(audio=audio_input(RATE_HZ, None))
        text = await transcribe_by_commit(client, clip(f"{word}_{milliseconds}ms.flac"))
        assert word_error_rate(word, text) == 0


async def test_commits_without_speech_give_an_error_or_an_empty_text(
    server: ServerProcess,
) -> None:
    async with wire(server.ws_url) as client:
        await client.configure(audio=audio_input(RATE_HZ, None))
        await client.send(type="input_audio_buffer.commit", event_id="c0")
        error = (await client.wait_for("error"))["error"]
        assert (error["code"], error["event_id"]) == ("input_audio_buffer_commit_empty", "c0")
        assert await transcribe_by_commit(client, zero(0.04)) == ""
        assert await transcribe_by_commit(client, white_noise(0.8, -60, RATE_HZ)) == ""


async def test_frames_that_split_a_sample_change_nothing(server: ServerProcess) -> None:
    rate_hz = 44_100
    pcm = pcm16(clip("en-US_sample.flac", rate_hz)[: 4 * rate_hz])
    texts = []
    for sizes in ((1323,), (1, 4063, 1697), (2000,)):
        async with wire(server.ws_url) as client:
            await client.configure(audio=audio_input(rate_hz, None))
            position, turn = 0, 0
            while position < len(pcm):
                size = sizes[turn % len(sizes)]
                await client.append(pcm[position : position + size])
                position, turn = position + size, turn + 1
            await client.append(pcm[:1])
            await client.send(type="input_audio_buffer.commit")
            kind = "conversation.item.input_audio_transcription.completed"
            texts.append((await client.wait_for(kind))["transcript"])
            assert not client.of("error")
    assert texts[0] and texts == [texts[0]] * 3


@pytest.mark.parametrize("law", ["audio/pcmu", "audio/pcma"])
async def test_telephone_formats_are_heard_and_spoken(server: ServerProcess, law: str) -> None:
    encoding = Encoding.MULAW if law == "audio/pcmu" else Encoding.ALAW
    audio = audio_input(8_000, None)
    audio["input"]["format"] = {"type": law}
    async with wire(server.ws_url) as client:
        await client.configure(audio={**audio, "output": {"format": {"type": law}}})
        await client.stream(encode(clip("en-US_sample.flac", 8_000), encoding), 160)
        await client.send(type="input_audio_buffer.commit")
        final = await client.wait_for("conversation.item.input_audio_transcription.completed")
        assert word_error_rate(QUESTION, final["transcript"]) == 0
        await client.send(type="response.create")
        done = await client.wait_for("response.done")
        deltas = client.of("response.output_audio.delta")
        data = b"".join(base64.b64decode(delta["delta"]) for delta in deltas)
        samples = decode_g711(data, encoding)
        said = done["response"]["output"][0]["content"][0]["transcript"]
        assert 0.03 * len(said) < len(samples) / 8_000 < 0.15 * len(said)
        assert 0.01 < np.sqrt(np.mean(samples**2)) < 0.3


@pytest.fixture(scope="module")
def impatient_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    arguments = [
        *("--set", "sessions.limits.idle_timeout_s=5"),
        *("--set", "sessions.admission={max_sessions: 4, paid_reserve: 0}"),
    ]
    log = tmp_path_factory.mktemp("idle") / "server.log"
    with server_process(log, arguments=arguments) as running:
        yield running


async def test_silent_sessions_are_closed_and_their_places_given_again(
    impatient_server: ServerProcess,
) -> None:
    url = impatient_server.ws_url
    speech = pcm16(clip("en-US_sample.flac")[: 2 * RATE_HZ])

    async def silent() -> None:
        async with wire(url) as client:
            await client.stream(speech, 9600)
            await client.send(type="input_audio_buffer.commit")
            sent_s = asyncio.get_running_loop().time()
            await client.wait(lambda: client.closed, "the idle close", timeout_s=12)
            assert 4.5 <= asyncio.get_running_loop().time() - sent_s <= 7.5
            assert client.of("error")[-1]["error"]["code"] == "session_idle_timeout"
            assert client.socket.close_code == 4408

    async def keeping_alive() -> None:
        async with wire(url) as client:
            for _ in range(4):
                await asyncio.sleep(2.0)
                await client.send(type="input_audio_buffer.append", audio="")
            assert not client.closed

    await asyncio.gather(silent(), silent(), silent(), keeping_alive())
    await asyncio.sleep(0.5)
    metrics = impatient_server.metrics()
    assert metrics['antiphon_sessions{protocol="realtime"}'] == 0
    for engine in ("asr", "lm", "vad", "voice"):
        assert metrics[f'antiphon_engine_running{{engine="{engine}"}}'] == 0
    async with wire(url):
        pass


async def test_session_too_many_is_refused_with_a_hint_and_closed_1013(
    impatient_server: ServerProcess,
) -> None:
    url = impatient_server.ws_url
    deadline_s = time.monotonic() + 2.0
    while impatient_server.metrics().get('antiphon_sessions{protocol="realtime"}'):
        assert time.monotonic() < deadline_s, "sessions of clients that have left"
        await asyncio.sleep(0.05)
    async with wire(url), wire(url), wire(url), wire(url):
        import websockets.asyncio.client as ws

        async with ws.connect(url, proxy=None) as socket:
            client = Wire(socket)
            await client.wait(lambda: client.closed, "the refusal")
            error = client.of("error")[0]["error"]
            assert error["code"] == "rate_limit_exceeded"
            assert "5" in error["message"]
            assert socket.close_code == 1013
