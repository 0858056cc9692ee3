import numpy as np
import pytest

from asr.vad import VoiceActivityDetector
from engines.base import Ticket
from tests.support.scripted_asr import LoudnessVoiceEngine


async def test_any_split_gives_the_scores_of_one_piece():
    rng = np.random.default_rng(1)
    audio = rng.uniform(-1, 1, 512 * 7 + 100).astype(np.float32)
    whole = await score(audio, [len(audio)])
    assert len(whole) == 7
    for sizes in ([1] * 600 + [len(audio)], [511, 2, 511, 4000], [160] * 30):
        np.testing.assert_array_equal(await score(audio, sizes), whole)


async def score(audio: np.ndarray, sizes: list[int]) -> np.ndarray:
    detector = VoiceActivityDetector(LoudnessVoiceEngine(), Ticket("vad"))
    await detector.open()
    probs, begin = [], 0
    for size in sizes:
        probs.append(await detector.push(audio[begin : begin + size]))
        begin += size
    await detector.close()
    return np.concatenate(probs)


async def test_less_than_a_chunk_waits_and_does_not_reach_the_engine():
    engine = LoudnessVoiceEngine()
    detector = VoiceActivityDetector(engine, Ticket("vad"))
    await detector.open()
    assert len(await detector.push(np.ones(511, dtype=np.float32))) == 0
    assert (detector.pending_samples, engine.pushes) == (511, 0)
    assert len(await detector.push(np.ones(1, dtype=np.float32))) == 1
    assert (detector.pending_samples, engine.pushes) == (0, 1)


async def test_flush_fills_the_last_chunk_with_silence():
    detector = VoiceActivityDetector(LoudnessVoiceEngine(), Ticket("vad"))
    await detector.open()
    assert len(await detector.flush()) == 0
    await detector.push(np.ones(256, dtype=np.float32))
    np.testing.assert_allclose(await detector.flush(), [0.5])
    assert detector.pending_samples == 0


async def test_close_frees_the_stream_and_may_be_repeated():
    engine = LoudnessVoiceEngine()
    detector = VoiceActivityDetector(engine, Ticket("vad"))
    await detector.open()
    await detector.open()
    assert len(engine.open_streams) == 1
    await detector.close()
    await detector.close()
    assert not engine.open_streams


async def test_push_before_open_says_what_is_missing():
    detector = VoiceActivityDetector(LoudnessVoiceEngine(), Ticket("vad"))
    with pytest.raises(RuntimeError, match="open"):
        await detector.push(np.zeros(512, dtype=np.float32))
