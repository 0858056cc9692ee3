"""Real speech through the real models: whisper-base and Silero on the CPU."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from asr.audio_file import read_audio
from asr.config import EndpointingConfig, TranscriberConfig
from asr.endpointing import Endpointer, EndpointEvent, SpeechEnd, SpeechStart
from asr.evidence import EvidenceTrack, VoiceEvidence, evidence_of
from asr.transcriber import Transcriber
from asr.transcript import TranscribeOptions
from asr.utterance import UtteranceBuffer
from asr.vad import VoiceActivityDetector
from asr.wer import normalized_words, word_errors
from engines.base import Ticket
from tests.support.real_asr import RealAsr, real_asr, speech_host

AUDIO = Path(__file__).parent.parent / "data" / "audio"
ENGLISH = TranscribeOptions(language="en")

SENTENCES = {
    "1089-134686-0001.flac": "after early nightfall the yellow lamps would light up here and there "
    "the squalid quarter of the brothels",
    "1221-135766-0001.flac": "god as a direct consequence of the sin which man thus punished had "
    "given her a lovely child whose place was on that same dishonoured bosom to connect her parent "
    "for ever with the race and descent of mortals and to be finally a blessed soul in heaven",
    "1221-135766-0002.flac": "yet these thoughts affected hester prynne less with hope than "
    "apprehension",
    "jfk.flac": "and so my fellow americans ask not what your country can do for you ask what you "
    "can do for your country",
    "sample_audio_prompt.flac": "i consent to use my voice to create a synthetic voice",
    "en-US_sample.flac": "what is natural language processing",
    "en-US_percent.flac": "hello thirty five percent of forty equals fourteen",
    "silero_test.mp3": "damn son where'd you find this",
    "white_tower.flac": "who built the white tower",
}


@pytest.fixture(scope="module")
def host():
    with speech_host() as running:
        yield running


@pytest.fixture
async def asr(host):
    async with real_asr(host) as room:
        yield room
        assert room.speech.stats().running == room.voice.stats().running == 0


def ticket(name: str) -> Ticket:
    return Ticket(name, timeout_s=120)  # these tests are about words, not about speed


def load(name: str) -> np.ndarray:
    return np.concatenate(list(read_audio(AUDIO / name)))


async def listen(asr: RealAsr, samples: np.ndarray) -> np.ndarray:
    """Returns the speech probabilities of a clip, its last chunk filled up with silence."""
    detector = VoiceActivityDetector(asr.voice, ticket("listen"))
    await detector.open()
    probs = [await detector.push(samples), await detector.flush()]
    await detector.close()
    return np.concatenate(probs)


def assert_close_enough(heard: str, reference: str) -> None:
    errors, words = word_errors(reference, heard)
    allowed = 0.12 * words if words >= 10 else 1
    assert errors <= allowed, f"{errors} of {words} words are wrong in: {heard}"


@pytest.mark.parametrize("name", SENTENCES)
async def test_a_file_of_english_is_written_down(asr, name):
    blocks = read_audio(AUDIO / name)
    segments = [segment async for segment in asr.long.transcribe(blocks, request_id=name)]
    assert {segment.language for segment in segments} == {"en"}
    assert_close_enough(" ".join(segment.text for segment in segments), SENTENCES[name])


async def test_spanish_is_recognised_as_such_and_written_down(asr):
    result = await asr.transcriber.transcribe(load("es-US_sample.flac"), ticket=ticket("es"))
    reference = (
        "existen mutaciones que alteran los pigmentos de color basados en carotenos pero son raras"
    )
    errors, words = word_errors(reference, result.text)
    assert (result.language, words) == ("es", 14)
    assert errors <= 2, result.text


async def test_a_loop_in_a_window_that_is_too_short_is_cured_by_one_retry(asr):
    config = TranscriberConfig(min_window_s=0.0)
    transcriber = Transcriber(asr.speech, asr.tokens, config)
    result = await transcriber.transcribe(
        load("silero_test.mp3"), ticket=ticket("loop"), options=ENGLISH
    )
    assert result.retried == 1
    assert_close_enough(result.text, SENTENCES["silero_test.mp3"])


@pytest.mark.parametrize("milliseconds", [250, 450, 800])
@pytest.mark.parametrize("word", ["yes", "no", "stop"])
async def test_a_one_word_answer_comes_back(asr, word, milliseconds):
    clip = load(f"{word}_{milliseconds}ms.flac")
    assert len(clip) == milliseconds * 16
    evidence = evidence_of(await listen(asr, clip))
    result = await asr.transcriber.transcribe(clip, ticket=ticket("word"), evidence=evidence)
    assert (normalized_words(result.text), result.language) == ([word], "en")


@pytest.mark.parametrize("word", ["yes", "no", "stop"])
async def test_a_one_word_answer_comes_back_where_no_voice_detector_listened(asr, word):
    result = await asr.transcriber.transcribe(
        load(f"{word}_450ms.flac"), ticket=ticket("word"), options=ENGLISH
    )
    assert normalized_words(result.text) == [word]


def noise(seconds: float, dbfs: float) -> np.ndarray:
    rms = 10 ** (dbfs / 20)
    samples = np.random.default_rng(0).normal(scale=rms, size=round(seconds * 16_000))
    return samples.astype(np.float32).clip(-1, 1)


@pytest.mark.parametrize("dbfs", [-20, -40, -60, -200])
async def test_a_minute_of_noise_or_silence_gives_no_transcript(asr, dbfs):
    sound = noise(60, dbfs)
    blocks = np.array_split(sound, 6)
    assert [s async for s in asr.long.transcribe(blocks, request_id="noise")] == []
    endpointer = Endpointer(EndpointingConfig())
    assert not [event for prob in await listen(asr, sound) for event in endpointer.push(prob)]


@pytest.mark.parametrize("dbfs", [-20, -40, -60])
@pytest.mark.parametrize("listened", [True, False], ids=["with evidence", "without"])
async def test_room_noise_committed_by_hand_gives_empty_text(asr, dbfs, listened):
    room = noise(0.8, dbfs)
    evidence = evidence_of(await listen(asr, room)) if listened else None
    result = await asr.transcriber.transcribe(room, ticket=ticket("room"), evidence=evidence)
    assert result.text == ""


async def test_noise_that_the_voice_detector_takes_for_a_voice_gives_empty_text(asr):
    result = await asr.transcriber.transcribe(
        noise(3, -30),
        ticket=ticket("noise"),
        options=ENGLISH,
        evidence=VoiceEvidence(voiced_ms=500, peak_prob=0.7),
    )
    assert result.text == ""


async def live(asr: RealAsr, samples: np.ndarray):
    """Streams 20 ms frames as a session does; yields each event and what was received."""
    detector = VoiceActivityDetector(asr.voice, ticket("live"))
    endpointer, audio = Endpointer(EndpointingConfig()), UtteranceBuffer(60)
    track = EvidenceTrack(60)
    events: list[tuple[EndpointEvent, int]] = []
    await detector.open()
    for begin in range(0, len(samples), 320):
        frame = samples[begin : begin + 320]
        audio.append(frame)
        probs = await detector.push(frame)
        track.append(probs)
        for prob in probs:
            events += [(event, audio.received) for event in endpointer.push(float(prob))]
    await detector.close()
    return events, audio, track


async def test_a_spoken_turn_is_noticed_within_100_ms_and_keeps_first_and_last_words(asr):
    speech = load("white_tower.flac")
    onset = 16_000 + int(np.flatnonzero(np.abs(speech) > 0.05)[0])
    events, audio, track = await live(asr, np.concatenate([noise(1, -60), speech, noise(1, -60)]))
    (start, known_at), (end, _) = [
        pair for pair in events if isinstance(pair[0], SpeechStart | SpeechEnd)
    ]
    assert isinstance(start, SpeechStart) and isinstance(end, SpeechEnd)
    assert known_at - onset <= 1600
    assert start.start_sample < onset < end.end_sample
    result = await asr.transcriber.transcribe(
        audio.slice(start.start_sample, end.end_sample),
        ticket=ticket("turn"),
        options=ENGLISH,
        evidence=track.between(start.start_sample, end.end_sample),
    )
    words = normalized_words(result.text)
    assert (words[0], words[-1]) == ("who", "tower")
    assert result.retried == 0


async def test_a_draft_of_the_same_speech_gives_the_same_text(asr):
    clip = load("1221-135766-0002.flac")
    plain = await asr.transcriber.transcribe(clip, ticket=ticket("plain"), options=ENGLISH)
    drafted = await asr.transcriber.transcribe(
        clip, ticket=ticket("draft"), options=ENGLISH, draft_ids=plain.ids
    )
    assert drafted.ids == plain.ids
    assert drafted.avg_logprob == pytest.approx(plain.avg_logprob, abs=1e-3)


async def test_cancelled_work_leaves_the_engine(asr):
    work = asr.transcriber.transcribe(load("jfk.flac"), ticket=ticket("cancelled"), options=ENGLISH)
    task = asyncio.create_task(work)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asr.speech.stats().running == 0
