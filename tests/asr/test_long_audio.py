"""Ones are speech and zeros silence for the scripted voice engine."""

import itertools

import numpy as np
import pytest

from asr.config import LongAudioConfig
from asr.long_audio import LongTranscriber
from asr.transcriber import Transcriber
from asr.transcript import TranscribeOptions
from asr.whisper_tokens import WhisperTokens
from engines.base import Tier
from engines.errors import BadRequest, EngineFailed
from tests.support.scripted_asr import LoudnessVoiceEngine, Script, ScriptedSpeechEngine
from tests.support.tiny_whisper import write_tiny_whisper

YES, NO = 0, 1
SPOKEN = TranscribeOptions(language="en")


@pytest.fixture
def tokens(tmp_path) -> WhisperTokens:
    return WhisperTokens(write_tiny_whisper(tmp_path))


def tone(seconds: float) -> np.ndarray:
    return np.ones(round(seconds * 16_000), dtype=np.float32)


def silence(seconds: float) -> np.ndarray:
    return np.zeros(round(seconds * 16_000), dtype=np.float32)


def long_transcriber(tokens, engine, voice, **knobs) -> LongTranscriber:
    return LongTranscriber(Transcriber(engine, tokens), voice, LongAudioConfig(**knobs))


async def collect(tokens, blocks, engine=None, options=SPOKEN, **knobs):
    engine = engine or ScriptedSpeechEngine(lambda _: Script((YES,)))
    voice = LoudnessVoiceEngine()
    worker = long_transcriber(tokens, engine, voice, **knobs)
    found = [piece async for piece in worker.transcribe(blocks, request_id="f", options=options)]
    assert not voice.open_streams and engine.open_streams == 0
    return found, engine


async def test_each_sentence_of_a_file_becomes_a_segment_with_its_times(tokens):
    found, engine = await collect(tokens, [silence(3), tone(2), silence(3), tone(4)])
    assert [segment.text for segment in found] == ["yes", "yes"]
    assert [round(segment.start_s) for segment in found] == [3, 8]
    assert [round(segment.end_s) for segment in found] == [5, 12]
    assert {request.ticket.tier for request in engine.requests} == {Tier.BATCH}
    names = [request.ticket.request_id for request in engine.requests]
    assert len(set(names)) == len(names)


async def test_silence_and_an_empty_file_give_nothing_and_decode_nothing(tokens):
    for blocks in ([silence(30)] * 3, [], [silence(0)]):
        found, engine = await collect(tokens, blocks)
        assert (found, engine.requests) == ([], [])


async def test_a_file_shorter_than_a_chunk_is_heard(tokens):
    config = LongAudioConfig().segmenter
    assert config.min_voiced_s <= 0.064
    found, _ = await collect(tokens, [tone(0.08)])
    assert [segment.text for segment in found] == ["yes"]


async def test_the_audio_of_a_piece_reaches_the_engine_whole_across_blocks(tokens):
    rng = np.random.default_rng(3)
    speech = rng.uniform(0.8, 1.0, 5 * 16_000).astype(np.float32)
    blocks = np.array_split(np.concatenate([silence(2), speech, silence(3)]), 37)
    _, engine = await collect(tokens, blocks)
    (request,) = engine.requests
    heard = request.samples[np.flatnonzero(request.samples)]
    np.testing.assert_array_equal(heard, speech)


async def test_speech_of_two_minutes_is_cut_into_pieces_that_fit_the_window(tokens):
    found, engine = await collect(tokens, [tone(10)] * 12)
    assert all(len(request.samples) <= 480_000 for request in engine.requests)
    assert found[0].start_s == 0.0
    assert found[-1].end_s == pytest.approx(120, abs=0.1)
    for before, after in itertools.pairwise(found):
        assert before.end_s == pytest.approx(after.start_s)


async def test_pieces_come_in_order_though_several_are_decoded_at_once(tokens):
    replies = iter([YES, NO] * 4)
    engine = ScriptedSpeechEngine(lambda _: Script((next(replies),)))
    found, _ = await collect(tokens, [tone(1), silence(3)] * 8, engine, parallel=3)
    assert [segment.text for segment in found] == ["yes", "no"] * 4
    assert [segment.start_s for segment in found] == sorted(seg.start_s for seg in found)


async def test_the_language_of_the_first_words_holds_for_the_file(tokens):
    def reply(request):
        if request.allowed_first_ids:
            return Script((tokens.languages["es"],), -0.01)
        return Script((YES,))

    found, engine = await collect(
        tokens, [tone(1), silence(3)] * 4, ScriptedSpeechEngine(reply), TranscribeOptions()
    )
    assert {segment.language for segment in found} == {"es"} and len(found) == 4
    assert sum(bool(request.allowed_first_ids) for request in engine.requests) == 1


async def test_memory_follows_the_piece_and_not_the_file(tokens):
    worker = long_transcriber(
        tokens, ScriptedSpeechEngine(lambda _: Script((YES,))), LoudnessVoiceEngine()
    )
    read = 0

    def blocks():
        nonlocal read
        for _ in range(20):
            read += 1
            yield np.concatenate([tone(5), silence(5)])

    ahead = []
    async for segment in worker.transcribe(blocks(), request_id="f", options=SPOKEN):
        ahead.append(read * 10 - segment.end_s)
    assert len(ahead) == 20
    assert max(ahead) <= 35  # seconds of audio read beyond the segment just given


async def test_leaving_early_frees_voice_stream_and_decodes(tokens):
    engine, voice = ScriptedSpeechEngine(lambda _: Script((YES,))), LoudnessVoiceEngine()
    segments = long_transcriber(tokens, engine, voice).transcribe(
        [tone(1), silence(3)] * 20, request_id="f", options=SPOKEN
    )
    async for _ in segments:
        break
    await segments.aclose()
    assert not voice.open_streams and engine.open_streams == 0
    assert len(engine.requests) < 6


async def test_a_file_that_turns_out_damaged_is_reported_and_frees_everything(tokens):
    def blocks():
        yield tone(1)
        yield silence(3)
        raise BadRequest("x is damaged")

    voice = LoudnessVoiceEngine()
    engine = ScriptedSpeechEngine(lambda _: Script((YES,)))
    worker = long_transcriber(tokens, engine, voice)
    with pytest.raises(BadRequest, match="damaged"):
        async for _ in worker.transcribe(blocks(), request_id="f", options=SPOKEN):
            pass
    assert not voice.open_streams and engine.open_streams == 0


async def test_an_engine_that_fails_ends_the_file_with_its_error(tokens):
    def reply(_):
        raise EngineFailed("broken")

    voice = LoudnessVoiceEngine()
    worker = long_transcriber(tokens, ScriptedSpeechEngine(reply), voice)
    with pytest.raises(EngineFailed, match="broken"):
        async for _ in worker.transcribe([tone(1), silence(3)] * 5, request_id="f", options=SPOKEN):
            pass
    assert not voice.open_streams
