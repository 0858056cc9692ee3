"""Drives the transcriber with a scripted engine: what is asked, retried and believed."""

import asyncio
import math

import numpy as np
import pytest

from asr.config import GuardConfig, TranscriberConfig
from asr.evidence import VoiceEvidence
from asr.transcriber import Transcriber
from asr.transcript import Task, TranscribeOptions
from asr.whisper_tokens import WhisperTokens
from engines.base import SpeechRequest, Ticket, Tier
from engines.errors import BadRequest
from tests.support.scripted_asr import Script, ScriptedSpeechEngine
from tests.support.tiny_whisper import write_tiny_whisper

YES, NO, HELLO, THERE, STOP, THANK, YOU, AGAIN = range(8)
SPOKEN = TranscribeOptions(language="en")
TICKET = Ticket("u1", session_id="s1", tier=Tier.PAID, due_in_s=0.3)
NO_VOICE = VoiceEvidence(voiced_ms=0.0, peak_prob=0.3)
VOICE = VoiceEvidence(voiced_ms=900.0, peak_prob=0.95)


@pytest.fixture
def tokens(tmp_path) -> WhisperTokens:
    return WhisperTokens(write_tiny_whisper(tmp_path))


def audio(seconds: float) -> np.ndarray:
    return np.random.default_rng(0).uniform(-0.1, 0.1, round(seconds * 16_000)).astype(np.float32)


def full(request: SpeechRequest) -> bool:
    return request.window_s is None


def greedy(request: SpeechRequest) -> bool:
    return request.sampling.temperature == 0


async def run(tokens, reply, seconds=2.0, **arguments):
    """Returns the transcript and the engine that made it."""
    engine = reply if isinstance(reply, ScriptedSpeechEngine) else ScriptedSpeechEngine(reply)
    arguments.setdefault("options", SPOKEN)
    transcriber = Transcriber(engine, tokens)
    result = await transcriber.transcribe(audio(seconds), ticket=TICKET, **arguments)
    assert engine.open_streams == 0
    return result, engine


async def test_a_sound_decode_is_returned_after_one_pass(tokens):
    result, engine = await run(
        tokens, lambda _: Script((HELLO, THERE, STOP), logprob=-0.25, no_speech_prob=0.02)
    )
    assert (result.text, result.ids) == ("hello there.", (HELLO, THERE, STOP))
    assert (result.language, result.duration_s, result.retried) == ("en", 2.0, 0)
    assert result.avg_logprob == pytest.approx(-0.25)
    assert result.no_speech_prob == 0.02
    assert len(engine.requests) == 1


async def test_the_request_says_all_that_the_engine_needs(tokens):
    _, engine = await run(tokens, lambda _: Script((YES,)))
    (request,) = engine.requests
    assert request.ticket == TICKET
    assert request.prefix_ids == tokens.prefix("en")
    assert request.stop_ids == (tokens.eot,)
    assert request.suppress_ids == tokens.suppress_ids
    assert request.begin_suppress_ids == tokens.begin_suppress_ids
    assert request.no_speech_id == tokens.no_speech
    assert greedy(request)


@pytest.mark.parametrize(
    ("seconds", "window_s"),
    [(0.25, 6.0), (5.0, 6.0), (8.0, 9.0), (8.1, 9.5), (28.4, 29.5), (29.0, None)],
)
async def test_the_window_follows_the_audio_with_a_margin(tokens, seconds, window_s):
    _, engine = await run(tokens, lambda _: Script((YES,)), seconds)
    assert engine.requests[0].window_s == window_s


async def test_an_engine_with_one_window_is_never_asked_for_another(tokens):
    engine = ScriptedSpeechEngine(lambda _: Script((YES,)), trimmed_window=False)
    await run(tokens, engine)
    assert engine.requests[0].window_s is None


async def test_the_tail_is_padded_with_silence_so_that_the_last_word_is_heard(tokens):
    _, engine = await run(tokens, lambda _: Script((YES,)), 2.0)
    samples = engine.requests[0].samples
    assert len(samples) == round(2.5 * 16_000)
    np.testing.assert_array_equal(samples[:32_000], audio(2.0))
    assert not samples[32_000:].any()


async def test_the_shortest_audio_is_padded_to_the_minimum_and_the_longest_not_beyond_30_s(tokens):
    _, engine = await run(tokens, lambda _: Script((YES,)), 1 / 16_000)
    assert len(engine.requests[0].samples) >= 8_000
    _, engine = await run(tokens, lambda _: Script((YES,)), 29.9)
    assert len(engine.requests[0].samples) == 480_000


async def test_the_budget_follows_the_duration(tokens):
    _, engine = await run(tokens, lambda _: Script((YES,)), 1.0)
    assert engine.requests[0].max_tokens == 16 + 12


LOOP = (HELLO, THERE) * 200


async def test_a_loop_in_the_short_window_is_cured_by_the_full_one(tokens):
    result, engine = await run(
        tokens, lambda request: Script((HELLO, THERE)) if full(request) else Script(LOOP)
    )
    assert (result.text, result.retried) == ("hello there", 1)
    first, second = engine.requests
    assert (first.window_s, second.window_s) == (6.0, None)
    assert second.max_tokens == TranscriberConfig().max_tokens
    assert greedy(second)


async def test_a_loop_is_noticed_while_it_is_made_and_stopped(tokens):
    _, engine = await run(
        tokens, lambda request: Script((YES,)) if full(request) else Script(LOOP), 20.0
    )
    assert engine.delivered < 20


async def test_temperatures_are_tried_where_the_full_window_loops_too(tokens):
    result, engine = await run(
        tokens, lambda request: Script(LOOP) if greedy(request) else Script((NO,))
    )
    assert (result.text, result.retried) == ("no", 2)
    assert [request.sampling.temperature for request in engine.requests] == [0.0, 0.0, 0.2]
    assert engine.requests[2].sampling.seed is not None


async def test_each_decode_has_an_id_of_its_own_under_the_same_urgency(tokens):
    _, engine = await run(tokens, lambda _: Script(LOOP))
    tickets = [request.ticket for request in engine.requests]
    assert tickets[0] == TICKET
    assert len({ticket.request_id for ticket in tickets}) == len(tickets) == 5
    assert {(ticket.tier, ticket.due_in_s) for ticket in tickets} == {(Tier.PAID, 0.3)}


async def test_a_loop_that_nothing_cures_is_cut_to_one_turn(tokens):
    result, _ = await run(tokens, lambda _: Script((YES, *LOOP)), evidence=VOICE)
    assert result.text == "yes hello there"


async def test_unsure_words_get_the_full_window_but_no_temperatures(tokens):
    result, engine = await run(
        tokens, lambda request: Script((YES if full(request) else NO,), -1.3), evidence=VOICE
    )
    assert len(engine.requests) == 2
    assert result.text == "no"


async def test_the_surer_of_two_decodes_is_kept(tokens):
    result, _ = await run(
        tokens,
        lambda request: Script((YES,), -0.3) if full(request) else Script((NO,), -1.3),
        evidence=VOICE,
    )
    assert result.text == "yes"


async def test_text_over_its_budget_is_decoded_again_with_room(tokens):
    engine = ScriptedSpeechEngine(lambda _: Script((YES, NO, HELLO, THERE, THANK, YOU)))
    config = TranscriberConfig(guard=GuardConfig(tokens_floor=0, tokens_per_s=3))
    result = await Transcriber(engine, tokens, config).transcribe(
        audio(1), ticket=TICKET, options=SPOKEN
    )
    assert [request.max_tokens for request in engine.requests] == [3, 224]
    assert result.text == "yes no hello there thank you"


async def test_an_engine_with_one_window_repeats_only_what_can_change(tokens):
    engine = ScriptedSpeechEngine(lambda _: Script((YES,), -1.3), trimmed_window=False)
    await run(tokens, engine, evidence=VOICE)
    assert len(engine.requests) == 1


async def test_text_over_noise_is_empty_when_voice_and_model_doubt_it(tokens):
    result, engine = await run(
        tokens, lambda _: Script((THANK, YOU), -0.8, no_speech_prob=0.9), evidence=NO_VOICE
    )
    assert (result.text, result.ids) == ("", ())
    assert len(engine.requests) == 1


async def test_a_loop_over_noise_is_empty_without_further_decodes(tokens):
    result, engine = await run(
        tokens, lambda _: Script(LOOP, -0.1, no_speech_prob=0.9), evidence=NO_VOICE
    )
    assert result.text == ""
    assert len(engine.requests) == 1


async def test_a_clear_voice_saying_thank_you_is_believed(tokens):
    result, _ = await run(
        tokens, lambda _: Script((THANK, YOU), -0.8, no_speech_prob=0.9), evidence=VOICE
    )
    assert result.text == "thank you"


async def test_audio_in_which_the_detector_heard_nothing_is_not_decoded(tokens):
    result, engine = await run(tokens, lambda _: Script((YES,)), evidence=VoiceEvidence(0.0, 0.01))
    assert (result.text, engine.requests) == ("", [])
    assert result.duration_s == 2.0


async def test_digital_silence_is_not_decoded(tokens):
    engine = ScriptedSpeechEngine(lambda _: Script((YES,)))
    result = await Transcriber(engine, tokens).transcribe(
        np.zeros(640, dtype=np.float32), ticket=TICKET
    )
    assert (result.text, result.language, engine.requests) == ("", None, [])


def detecting(language_id: int, prob: float):
    def reply(request: SpeechRequest) -> Script:
        if request.allowed_first_ids:
            return Script((language_id,), math.log(prob))
        return Script((HELLO,))

    return reply


async def test_an_unknown_language_is_found_with_one_token_first(tokens):
    result, engine = await run(
        tokens, detecting(tokens.languages["es"], 0.9), 20.0, options=TranscribeOptions()
    )
    assert result.language == "es"
    first, second = engine.requests
    assert (first.prefix_ids, first.max_tokens) == ((tokens.sot,), 1)
    assert set(first.allowed_first_ids) == set(tokens.languages.values())
    assert first.suppress_ids == first.begin_suppress_ids == ()
    assert len(first.samples) <= 10.5 * 16_000
    assert second.prefix_ids == tokens.prefix("es")
    assert result.retried == 0


async def test_a_doubtful_language_falls_back(tokens):
    result, _ = await run(
        tokens, detecting(tokens.languages["yue"], 0.3), options=TranscribeOptions()
    )
    assert result.language == "en"


async def test_a_prompt_comes_before_the_transcript_and_is_bounded(tokens):
    options = TranscribeOptions("en", prompt="hello there " * 100, task=Task.TRANSLATE)
    _, engine = await run(tokens, lambda _: Script((YES,)), options=options)
    prefix = engine.requests[0].prefix_ids
    assert prefix[0] == tokens.sot_prev
    assert prefix[-4:] == tokens.prefix("en", Task.TRANSLATE)
    assert len(prefix) == 1 + 64 + 4


async def test_a_draft_goes_only_to_the_first_decode_of_an_engine_that_takes_it(tokens):
    engine = ScriptedSpeechEngine(
        lambda request: Script((YES,)) if full(request) else Script(LOOP), draft=True
    )
    await run(tokens, engine, draft_ids=(HELLO,))
    assert [request.draft_ids for request in engine.requests] == [(HELLO,), ()]
    _, plain = await run(tokens, lambda _: Script((YES,)), draft_ids=(HELLO,))
    assert plain.requests[0].draft_ids == ()


@pytest.mark.parametrize(
    "samples",
    [
        np.zeros(0, dtype=np.float32),
        np.zeros((2, 100), dtype=np.float32),
        np.zeros(480_001, dtype=np.float32),
        np.array([0.1, np.nan], dtype=np.float32),
        np.array([0.1, np.inf], dtype=np.float32),
    ],
    ids=["none", "stereo", "longer than 30 s", "nan", "infinite"],
)
async def test_audio_that_cannot_be_decoded_is_refused(tokens, samples):
    engine = ScriptedSpeechEngine(lambda _: Script((YES,)))
    with pytest.raises(BadRequest):
        await Transcriber(engine, tokens).transcribe(samples, ticket=TICKET)
    assert engine.requests == []


async def test_an_unknown_language_is_refused_before_the_engine_works(tokens):
    with pytest.raises(BadRequest, match="xx"):
        await run(tokens, lambda _: Script((YES,)), options=TranscribeOptions("xx"))


async def test_cancelling_closes_the_stream_in_the_engine(tokens):
    started = asyncio.Event()

    class Stuck(ScriptedSpeechEngine):
        async def transcribe(self, request):
            self.open_streams += 1
            try:
                started.set()
                await asyncio.Event().wait()
                yield
            finally:
                self.open_streams -= 1

    engine = Stuck(lambda _: Script(()))
    work = Transcriber(engine, tokens).transcribe(audio(1), ticket=TICKET, options=SPOKEN)
    task = asyncio.create_task(work)
    await started.wait()
    assert engine.open_streams == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.open_streams == 0
