import numpy as np
import pytest

from streams.config import SessionConfig, SessionLimits
from streams.errors import EngineFailed
from streams.events import (
    CommitAudio,
    SessionError,
    TranscriptCompleted,
    TranscriptDelta,
    TranscriptFailed,
)
from streams.turn_transcription import MAX_PARTIAL_S, TAIL_SAMPLES
from tests.support.session_driver import MANUAL, RATE_HZ, SessionDriver

NO_PARTIALS = SessionLimits(partial_interval_s=0)
TAIL_S = TAIL_SAMPLES / RATE_HZ


async def spoken_turn(driver: SessionDriver, seconds: float) -> None:
    await driver.speech(seconds)
    await driver.silence(1.0)


async def test_final_hears_a_little_of_what_follows_the_last_voiced_chunk() -> None:
    limits = SessionLimits(partial_interval_s=0, eager_final=False)
    async with SessionDriver(limits=limits) as driver:
        await driver.silence(1.024)
        await spoken_turn(driver, 1.024)
        preroll_s = 0.3
        assert driver.transcriber.calls == [pytest.approx(preroll_s + 1.024 + TAIL_S, abs=0.04)]


async def test_commit_by_hand_decodes_exactly_what_was_sent() -> None:
    async with SessionDriver(MANUAL) as driver:
        await driver.speech(0.5)
        await driver.send(CommitAudio())
        assert driver.transcriber.calls == [0.5]


async def test_turn_longer_than_a_window_is_cut_at_its_pauses_and_joined() -> None:
    async with SessionDriver(MANUAL) as driver:
        for _ in range(4):
            await driver.speech(9.0)
            await driver.silence(0.6)
        await driver.send(CommitAudio())
        await driver.until(lambda: driver.of(TranscriptCompleted))
        completed = driver.of(TranscriptCompleted)[0]
        assert len(driver.transcriber.calls) == 4
        assert max(driver.transcriber.calls) <= MAX_PARTIAL_S
        assert completed.text == " ".join(["hello there"] * 4)
        assert completed.duration_s == pytest.approx(38.4)
        assert completed.language == "en"
        shown = "".join(delta.text for delta in driver.of(TranscriptDelta))
        assert shown == completed.text
        assert driver.vad.open_streams == 1  # that of the cutting has been given back


async def test_partials_stop_where_the_turn_outgrows_a_window_and_the_final_is_whole() -> None:
    async with SessionDriver(limits=SessionLimits(partial_interval_s=5)) as driver:
        await driver.speech(MAX_PARTIAL_S + 8)
        assert driver.transcriber.calls
        assert max(driver.transcriber.calls) <= MAX_PARTIAL_S
        partials = len(driver.transcriber.calls)
        await driver.silence(1.0)
        await driver.until(lambda: driver.of(TranscriptCompleted))
        assert len(driver.transcriber.calls) > partials
        assert max(driver.transcriber.calls) <= MAX_PARTIAL_S


async def test_language_is_kept_after_enough_voice_and_asked_for_from_then_on() -> None:
    async with SessionDriver(limits=NO_PARTIALS) as driver:
        driver.transcriber.language = "de"
        await spoken_turn(driver, 1.5)
        driver.transcriber.language = "nl"
        await spoken_turn(driver, 1.5)
        assert [options.language for options in driver.transcriber.asked] == [None, "de"]


async def test_language_of_a_short_answer_is_not_kept() -> None:
    async with SessionDriver(limits=NO_PARTIALS) as driver:
        driver.transcriber.language = "cy"  # what a "yes" is easily taken for
        await spoken_turn(driver, 0.5)
        await spoken_turn(driver, 1.5)
        assert [options.language for options in driver.transcriber.asked] == [None, None]


async def test_language_that_was_guessed_is_not_kept() -> None:
    async with SessionDriver(limits=NO_PARTIALS) as driver:
        driver.transcriber.sure_of_language = False
        await spoken_turn(driver, 1.5)
        await spoken_turn(driver, 1.5)
        assert [options.language for options in driver.transcriber.asked] == [None, None]


async def test_language_of_a_turn_without_words_is_not_kept() -> None:
    async with SessionDriver(limits=NO_PARTIALS) as driver:
        driver.transcriber.text = ""
        await spoken_turn(driver, 1.5)
        await spoken_turn(driver, 1.5)
        assert [options.language for options in driver.transcriber.asked] == [None, None]


async def test_language_and_expected_words_of_the_client_are_asked_for() -> None:
    config = SessionConfig(language="fr", transcription_prompt="Antiphon")
    async with SessionDriver(config, NO_PARTIALS) as driver:
        await spoken_turn(driver, 1.0)
        asked = driver.transcriber.asked[0]
        assert (asked.language, asked.prompt) == ("fr", "Antiphon")


async def test_without_partials_nothing_is_shown_before_the_final() -> None:
    async with SessionDriver(limits=NO_PARTIALS) as driver:
        await driver.speech(3.0)
        assert driver.transcriber.calls == []
        await driver.silence(1.0)
        assert [delta.text for delta in driver.of(TranscriptDelta)] == ["hello there"]


async def test_eager_final_that_fails_is_tried_again_at_the_end_of_the_turn() -> None:
    async with SessionDriver(limits=NO_PARTIALS) as driver:
        driver.transcriber.fail_with = EngineFailed("the engine broke")
        await driver.speech(1.0)
        await driver.silence(0.3)
        assert len(driver.transcriber.calls) == 1
        driver.transcriber.fail_with = None
        await driver.silence(0.7)
        assert not driver.of(TranscriptFailed)
        assert not driver.of(SessionError)
        assert len(driver.transcriber.calls) == 2
        assert driver.of(TranscriptCompleted)[0].text == "hello there"


async def test_samples_of_the_turn_are_those_that_were_said() -> None:
    async with SessionDriver(MANUAL) as driver:
        await driver.silence(0.2)
        await driver.send(CommitAudio())
        heard = driver.transcriber.last
        assert not np.any(heard)
        await driver.speech(0.2)
        await driver.send(CommitAudio())
        assert np.all(driver.transcriber.last == np.float32(0.3))


async def test_partial_that_fails_is_not_told_and_the_next_one_is_shown() -> None:
    async with SessionDriver() as driver:
        driver.transcriber.fail_with = EngineFailed("the engine broke")
        await driver.speech(1.0)
        assert driver.transcriber.calls
        driver.transcriber.fail_with = None
        await driver.speech(1.5)
        assert driver.of(TranscriptDelta)
        assert not driver.of(SessionError)
