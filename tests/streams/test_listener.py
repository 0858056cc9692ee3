import numpy as np
import pytest

from streams.config import SessionConfig, SessionLimits, TurnDetection
from streams.errors import Overloaded, SessionErrorCode
from streams.events import (
    AudioCommitted,
    AudioIn,
    ClearAudio,
    CommitAudio,
    SessionClosed,
    SessionError,
    SessionStarted,
    SpeechStarted,
    SpeechStopped,
    TranscriptCompleted,
    UpdateSession,
)
from streams.listener import IDLE_KEPT_S
from tests.support.session_driver import MANUAL, SessionDriver

NO_PARTIALS = SessionLimits(partial_interval_s=0)
LISTENING = SessionConfig(respond=False)


async def test_full_voice_detector_closes_the_session_with_that_reason() -> None:
    driver = SessionDriver()
    driver.vad.refuse_with = Overloaded("no stream is free")
    async with driver:
        assert driver.kinds() == ["SessionClosed"]
        closed = driver.of(SessionClosed)[0]
        assert (closed.code, closed.message) == (SessionErrorCode.OVERLOADED, "no stream is free")
        assert driver.ended


async def test_transcripts_come_in_the_order_of_the_turns_however_long_each_takes() -> None:
    async with SessionDriver(MANUAL) as driver:
        driver.transcriber.takes_s, driver.transcriber.text = 2.0, "slow"
        await driver.speech(0.5)
        await driver.send(CommitAudio())
        driver.transcriber.takes_s = 0.1
        await driver.speech(0.4)
        await driver.send(CommitAudio())
        await driver.clock.advance(1.0)
        assert not driver.of(TranscriptCompleted)
        await driver.clock.advance(1.0)
        committed = [event.item_id for event in driver.of(AudioCommitted)]
        assert [event.item_id for event in driver.of(TranscriptCompleted)] == committed
        durations = [event.duration_s for event in driver.of(TranscriptCompleted)]
        assert durations == pytest.approx([0.5, 0.4])


async def test_client_that_commits_in_mid_speech_gets_two_turns_and_nothing_twice() -> None:
    async with SessionDriver(LISTENING, NO_PARTIALS) as driver:
        await driver.speech(1.0)
        await driver.send(CommitAudio())
        await driver.speech(1.0)
        await driver.silence(1.0)
        assert len(driver.of(SpeechStarted)) == 2
        assert len(driver.of(SpeechStopped)) == len(driver.of(SpeechStarted)) == 2
        durations = [event.duration_s for event in driver.of(TranscriptCompleted)]
        assert len(durations) == 2
        assert durations[0] == pytest.approx(1.0)
        tail_s = 0.2  # no pre-roll: what was committed is not heard again
        assert durations[1] == pytest.approx(1.0 + tail_s, abs=0.04)


async def test_audio_kept_of_a_silent_speaker_is_bounded() -> None:
    async with SessionDriver(LISTENING, NO_PARTIALS) as driver:
        await driver.silence(20.0)
        await driver.send(CommitAudio())
        assert driver.transcriber.calls == [pytest.approx(IDLE_KEPT_S, abs=0.1)]


async def test_rate_that_changes_in_mid_stream_is_followed() -> None:
    async with SessionDriver(MANUAL) as driver:
        for rate_hz in (8_000, 24_000, 48_000):
            await driver.send(AudioIn(np.full(rate_hz, 0.3, np.float32), rate_hz))
            await driver.send(CommitAudio())
        durations = [event.duration_s for event in driver.of(TranscriptCompleted)]
        assert durations == pytest.approx([1.0, 1.0, 1.0], abs=0.02)


async def test_cleared_turn_is_forgotten_and_the_next_one_is_heard() -> None:
    async with SessionDriver(LISTENING, NO_PARTIALS) as driver:
        await driver.speech(1.0)
        await driver.send(ClearAudio())
        await driver.silence(1.0)
        assert not driver.of(AudioCommitted)
        assert driver.transcriber.calls == []
        await driver.speech(1.0)
        await driver.silence(1.0)
        assert len(driver.of(TranscriptCompleted)) == 1


async def test_update_changes_how_long_a_pause_ends_a_turn() -> None:
    async with SessionDriver(LISTENING, NO_PARTIALS) as driver:
        patient = SessionConfig(respond=False, turn_detection=TurnDetection(silence_ms=2_000))
        await driver.send(UpdateSession(patient))
        await driver.speech(1.0)
        await driver.silence(1.5)
        assert not driver.of(SpeechStopped)
        await driver.silence(0.7)
        assert len(driver.of(SpeechStopped)) == 1


async def test_turn_detection_that_is_switched_off_leaves_the_turn_to_the_client() -> None:
    async with SessionDriver(LISTENING, NO_PARTIALS) as driver:
        await driver.speech(0.5)
        await driver.send(UpdateSession(MANUAL))
        await driver.silence(2.0)
        assert not driver.of(AudioCommitted)
        await driver.send(CommitAudio())
        assert driver.of(TranscriptCompleted)[0].duration_s == pytest.approx(2.5, abs=0.05)


async def test_commit_below_the_operators_minimum_is_refused_with_both_figures() -> None:
    limits = SessionLimits(min_commit_ms=100)
    async with SessionDriver(MANUAL, limits) as driver:
        await driver.speech(0.08)
        await driver.send(CommitAudio(ref="c1"))
        error = driver.of(SessionError)[0]
        assert (error.code, error.ref) == (SessionErrorCode.BUFFER_EMPTY, "c1")
        assert "100ms" in error.message and "80ms" in error.message
        await driver.speech(0.04)
        await driver.send(CommitAudio())
        assert driver.of(TranscriptCompleted)[0].duration_s == pytest.approx(0.12)
    driver.assert_in_order(SessionStarted, SessionError, TranscriptCompleted)
