import asyncio
from collections.abc import AsyncGenerator

import numpy as np
import pytest

from engines.base import FinishReason, Samples
from streams.config import SessionConfig, SessionLimits, TurnDetection
from streams.errors import EngineFailed, SessionErrorCode
from streams.events import (
    AudioDelta,
    CancelResponse,
    CreateResponse,
    ItemRetrieved,
    ItemTruncated,
    OutputDone,
    Part,
    PartKind,
    PlaybackCleared,
    PlaybackProgress,
    ResponseDone,
    ResponseReason,
    ResponseStarted,
    ResponseStatus,
    RetrieveItem,
    SessionError,
    SpeechStarted,
    TruncateItem,
)
from tests.support.session_driver import MANUAL, RATE_HZ, SessionDriver, typed


async def test_audio_of_a_reply_is_whole_and_numbered_without_holes() -> None:
    async with SessionDriver() as driver:
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(1.0)
        deltas = driver.of(AudioDelta)
        position = 0
        for delta in deltas:
            assert delta.start_sample == position
            position += len(delta.samples)
        spoken = "".join(driver.synthesizer.spoken)
        assert position == sum(round(0.05 * len(t) * RATE_HZ) for t in driver.synthesizer.spoken)
        assert spoken.replace(" ", "") == "Goodmorningtoyou.Howareyou?"
        usage = driver.of(ResponseDone)[0].usage
        assert (usage.input_text_tokens, usage.output_text_tokens) == (5, 7)


async def test_speaker_who_barges_in_ends_the_reply_and_only_heard_words_are_remembered() -> None:
    async with SessionDriver() as driver:
        driver.responder.words = ["Word "] * 60
        driver.responder.step_s = 0.05
        await driver.send(typed("tell me a story"), CreateResponse())
        await driver.clock.advance(1.5)
        assert driver.responder.running == 1
        before = len(driver.of(AudioDelta))
        assert before > 0
        await driver.speech(0.3)
        assert driver.responder.running == 0
        assert driver.responder.aborted == 1
        driver.assert_in_order(SpeechStarted, PlaybackCleared, OutputDone, ResponseDone)
        done = driver.of(ResponseDone)[0]
        assert done.status is ResponseStatus.CANCELLED
        assert done.reason is ResponseReason.TURN_DETECTED
        after = driver.kinds().index("SpeechStarted")
        assert "AudioDelta" not in driver.kinds()[after:]
        await driver.silence(1.0)
        history = dict(driver.responder.heard[-1])
        full = done.items[0].parts[0].text or ""
        assert 0 < len(history["assistant"].split()) < len(full.split())


async def test_reply_that_is_complete_but_still_heard_is_cut_too() -> None:
    async with SessionDriver() as driver:
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(0.3)
        assert driver.of(ResponseDone)[0].status is ResponseStatus.COMPLETED
        await driver.speech(0.2)
        assert len(driver.of(PlaybackCleared)) == 1
        assert len(driver.of(ResponseDone)) == 1
        item_id = driver.of(OutputDone)[0].item.item_id
        await driver.send(RetrieveItem(item_id))
        heard = driver.of(ItemRetrieved)[0].item.parts[0].text or ""
        assert len(heard) < len("Good morning to you. How are you?")


async def test_client_marks_decide_what_was_heard() -> None:
    async with SessionDriver() as driver:
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(0.2)
        item_id = driver.of(OutputDone)[0].item.item_id
        await driver.send(PlaybackProgress(item_id, 1000))
        await driver.speech(0.1)
        await driver.send(RetrieveItem(item_id))
        assert driver.of(ItemRetrieved)[0].item.parts[0].text == "Good morning to you."


async def test_telephone_audio_is_routed_at_the_pace_of_playback() -> None:
    limits = SessionLimits(route_ahead_s=0.2)
    async with SessionDriver(limits=limits) as driver:
        await driver.send(typed("hi"), CreateResponse())
        for _ in range(10):
            await driver.clock.advance(0.1)
            routed_s = sum(len(delta.samples) for delta in driver.of(AudioDelta)) / RATE_HZ
            began_s = 0.02 + driver.clock.now_s() - 1000.0
            assert routed_s <= began_s + 0.2 + 0.1 + 0.02
        assert not driver.of(ResponseDone)
        await driver.clock.advance(3.0)
        assert driver.of(ResponseDone)


async def test_second_response_is_refused_while_one_is_made() -> None:
    async with SessionDriver() as driver:
        driver.responder.step_s = 0.5
        await driver.send(typed("hi"), CreateResponse(), CreateResponse(ref="e2"))
        error = driver.of(SessionError)[0]
        assert (error.code, error.ref) == (SessionErrorCode.RESPONSE_ACTIVE, "e2")
        await driver.clock.advance(5.0)
        assert driver.of(ResponseDone)[0].status is ResponseStatus.COMPLETED


async def test_cancel_ends_the_reply_and_a_second_cancel_is_refused() -> None:
    async with SessionDriver() as driver:
        driver.responder.step_s = 0.5
        await driver.send(typed("hi"), CreateResponse(), CancelResponse(), CancelResponse(ref="e4"))
        done = driver.of(ResponseDone)[0]
        assert done.reason is ResponseReason.CLIENT_CANCELLED
        assert driver.responder.running == 0
        error = driver.of(SessionError)[0]
        assert (error.code, error.ref) == (SessionErrorCode.NO_ACTIVE_RESPONSE, "e4")
        assert error.message.startswith("Cancellation failed")


async def test_failed_reply_carries_its_error_and_the_session_lives() -> None:
    async with SessionDriver() as driver:
        driver.responder.fail_with = EngineFailed("the engine broke")
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(0.5)
        done = driver.of(ResponseDone)[0]
        assert done.status is ResponseStatus.FAILED
        assert done.error_message == "the engine broke"
        driver.responder.fail_with = None
        await driver.send(CreateResponse())
        await driver.clock.advance(0.5)
        assert driver.of(ResponseDone)[1].status is ResponseStatus.COMPLETED


async def test_reply_at_its_token_limit_is_incomplete() -> None:
    async with SessionDriver() as driver:
        driver.responder.finish = FinishReason.LENGTH
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(0.5)
        done = driver.of(ResponseDone)[0]
        assert done.status is ResponseStatus.INCOMPLETE
        assert done.reason is ResponseReason.MAX_OUTPUT_TOKENS


async def test_text_session_gives_text_and_no_audio() -> None:
    async with SessionDriver(SessionConfig(output_audio=False)) as driver:
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(0.5)
        assert not driver.of(AudioDelta)
        item = driver.of(ResponseDone)[0].items[0]
        assert item.parts[0] == Part(PartKind.TEXT, "Good morning to you. How are you?")


async def test_truncation_by_the_client_is_confirmed_and_clamped() -> None:
    async with SessionDriver() as driver:
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(0.5)
        item_id = driver.of(OutputDone)[0].item.item_id
        await driver.send(TruncateItem(item_id, 99_999))
        sent_ms = sum(len(delta.samples) for delta in driver.of(AudioDelta)) * 1000 / RATE_HZ
        assert driver.of(ItemTruncated)[0].audio_end_ms == round(sent_ms)


async def test_turn_detection_can_leave_interruption_to_the_client() -> None:
    detection = TurnDetection(interrupt_response=False)
    config = SessionConfig(turn_detection=detection, output_rate_hz=RATE_HZ)
    async with SessionDriver(config) as driver:
        driver.responder.words = ["Word "] * 40
        driver.responder.step_s = 0.05
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(0.5)
        await driver.speech(0.5)
        assert driver.responder.running == 1
        await driver.silence(3.0)
        assert len(driver.of(ResponseDone)) >= 1
        assert driver.of(ResponseDone)[0].status is ResponseStatus.COMPLETED
        await driver.clock.advance(3.0)
        assert len(driver.of(ResponseStarted)) == 2


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 22_050, 24_000, 48_000])
async def test_reply_has_the_same_length_and_pitch_at_every_rate(rate_hz: int) -> None:
    async with SessionDriver(SessionConfig(output_rate_hz=rate_hz)) as driver:
        driver.synthesizer.sample_rate_hz = 22_050
        driver.synthesizer.tone_hz = 440.0
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(3.0)
        deltas = driver.of(AudioDelta)
        assert {delta.rate_hz for delta in deltas} == {rate_hz}
        samples = np.concatenate([delta.samples for delta in deltas])
        spoken_s = (
            sum(round(0.05 * len(text) * 22_050) for text in driver.synthesizer.spoken) / 22_050
        )
        assert len(samples) / rate_hz == pytest.approx(spoken_s, rel=0.01)
        first_clause = samples[: round(0.05 * len(driver.synthesizer.spoken[0]) * rate_hz)]
        spectrum = np.abs(np.fft.rfft(first_clause))
        pitch_hz = np.argmax(spectrum) * rate_hz / len(first_clause)
        assert pitch_hz == pytest.approx(440.0, rel=0.02)


async def test_audio_that_is_dropped_as_stale_is_not_waited_for() -> None:
    async with SessionDriver(MANUAL, SessionLimits(idle_timeout_s=30)) as driver:
        may_speak = asyncio.Event()

        async def speak(text: str, **_: object) -> AsyncGenerator[Samples, None]:
            await may_speak.wait()
            yield np.full(5 * RATE_HZ, 0.1, np.float32)

        driver.synthesizer.speak = speak  # type: ignore[method-assign,assignment]
        await driver.send(typed("hi"), CreateResponse())
        may_speak.set()
        await driver.send(CancelResponse())
        await driver.clock.advance(31.0)
        assert driver.ended


async def test_reply_begun_while_the_last_one_is_heard_is_heard_after_it() -> None:
    async with SessionDriver() as driver:
        await driver.send(typed("one"), CreateResponse())
        await driver.clock.advance(0.1)
        await driver.send(typed("two"), CreateResponse())
        await driver.clock.advance(0.5)
        await driver.speech(0.2)
        assert len(driver.of(PlaybackCleared)) == 2
        for done in driver.of(OutputDone):
            await driver.send(RetrieveItem(done.item.item_id))
        first, second = (item.item.parts[0].text for item in driver.of(ItemRetrieved))
        assert first == "Good morning"
        assert second == ""
