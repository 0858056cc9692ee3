import asyncio
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from engines.base import Samples
from streams.config import SessionConfig, SessionLimits, TurnDetection
from streams.errors import EngineFailed
from streams.events import (
    AudioIn,
    ClearAudio,
    CommitAudio,
    SessionError,
    SpeechStarted,
    SpeechStopped,
    TranscriptCompleted,
    TranscriptDelta,
    TranscriptFailed,
    UpdateSession,
)
from tests.support.session_driver import MANUAL, RATE_HZ, SessionDriver

AUTOMATIC = SessionConfig(output_rate_hz=RATE_HZ)


async def test_turn_detection_that_is_switched_on_counts_the_audio_before_it() -> None:
    async with SessionDriver(MANUAL) as driver:
        await driver.silence(6.0)
        await driver.send(UpdateSession(AUTOMATIC))
        await driver.silence(1.0)
        await driver.speech(1.0)
        await driver.silence(1.0)
        assert driver.of(SpeechStarted)[0].at_ms == pytest.approx(6700, abs=60)


async def test_turn_detection_that_is_switched_off_leaves_commits_to_the_client() -> None:
    async with SessionDriver() as driver:
        await driver.speech(1.0)
        await driver.silence(1.0)
        await driver.send(UpdateSession(MANUAL))
        await driver.speech(1.0)
        await driver.send(CommitAudio())
        await driver.clock.advance(0.5)
        assert not driver.of(SessionError)
        assert len(driver.of(TranscriptCompleted)) == 2


async def test_turn_that_is_open_when_detection_is_switched_off_can_be_committed_whole() -> None:
    async with SessionDriver() as driver:
        await driver.speech(1.0)
        await driver.send(UpdateSession(MANUAL))
        await driver.speech(1.0)
        await driver.send(CommitAudio())
        await driver.clock.advance(0.5)
        assert driver.transcriber.calls[-1] == pytest.approx(2.0, abs=0.05)


async def test_new_silence_duration_holds_within_the_running_turn() -> None:
    patient = replace(AUTOMATIC, turn_detection=TurnDetection(silence_ms=1500))
    async with SessionDriver() as driver:
        await driver.speech(1.0)
        await driver.send(UpdateSession(patient))
        await driver.silence(1.0)
        assert not driver.of(SpeechStopped)
        await driver.silence(1.0)
        assert len(driver.of(SpeechStopped)) == 1


async def test_update_of_something_else_keeps_the_preroll() -> None:
    async with SessionDriver() as driver:
        await driver.silence(2.048)
        await driver.send(UpdateSession(replace(driver.config, instructions="Be kind.")))
        await driver.speech(0.5)
        assert driver.of(SpeechStarted)[0].at_ms == pytest.approx(2048 - 300, abs=40)


@pytest.mark.parametrize("piece_s", [0.02, 1.0, 4.0])
async def test_first_words_are_heard_whatever_the_size_of_the_chunks(piece_s: float) -> None:
    async with SessionDriver(limits=SessionLimits(partial_interval_s=0)) as driver:
        piece = np.full(round(piece_s * RATE_HZ), 0.3, np.float32)
        for level, seconds in ((1.0, 8.0), (0.0, 4.0)):
            for _ in range(round(seconds / piece_s)):
                await driver.session.send(AudioIn(piece * np.float32(level), RATE_HZ))
                await driver.clock.advance(piece_s)
        assert len(driver.of(TranscriptCompleted)) == 1
        assert driver.transcriber.calls[-1] >= 7.9


async def test_first_words_are_heard_where_the_silence_is_shorter_than_a_pause() -> None:
    hasty = replace(AUTOMATIC, turn_detection=TurnDetection(silence_ms=100))
    async with SessionDriver(hasty, SessionLimits(partial_interval_s=0)) as driver:
        await driver.speech(8.0)
        await driver.silence(1.0)
        assert driver.transcriber.calls == [pytest.approx(8.1, abs=0.15)]


async def test_committed_audio_never_counts_as_uncommitted() -> None:
    async with SessionDriver(MANUAL, SessionLimits(max_buffer_s=5.0)) as driver:
        for _ in range(4):
            await driver.speech(2.0)
            await driver.send(CommitAudio())
            await driver.clock.advance(0.5)
        assert not driver.of(SessionError)


async def failing(stream_id: str, samples: Samples) -> NDArray[np.float32]:
    raise EngineFailed("the engine broke")


async def test_detector_that_fails_for_a_while_is_told_once_and_shifts_no_turn() -> None:
    async with SessionDriver() as driver:
        await driver.silence(1.024)
        push = driver.vad.push
        driver.vad.push = failing  # type: ignore[method-assign]
        await driver.silence(2.048)
        assert len(driver.of(SessionError)) == 1
        driver.vad.push = push  # type: ignore[method-assign]
        await driver.silence(1.024)
        await driver.speech(1.0)
        await driver.silence(1.0)
        assert driver.of(SpeechStarted)[0].at_ms == pytest.approx(4096 - 300, abs=60)


async def test_speech_that_goes_on_when_detection_is_switched_on_is_heard_from_its_start() -> None:
    async with SessionDriver(MANUAL, SessionLimits(partial_interval_s=0)) as driver:
        await driver.speech(2.0)
        await driver.send(UpdateSession(AUTOMATIC))
        await driver.speech(1.0)
        await driver.silence(1.0)
        assert driver.transcriber.calls[-1] >= 2.95


@pytest.mark.parametrize("by", ["commit", "clear", "update"])
async def test_every_start_of_speech_gets_its_end(by: str) -> None:
    ending = {"commit": CommitAudio(), "clear": ClearAudio(), "update": UpdateSession(MANUAL)}[by]
    async with SessionDriver() as driver:
        await driver.speech(1.0)
        await driver.send(ending)
        await driver.silence(1.0)
        assert len(driver.of(SpeechStarted)) == len(driver.of(SpeechStopped)) == 1


async def test_client_that_sends_faster_than_it_can_be_written_down_loses_no_turn() -> None:
    async with SessionDriver(limits=SessionLimits(partial_interval_s=0)) as driver:
        driver.transcriber.takes_s = 2.0
        driver.config = replace(AUTOMATIC, respond=False)
        await driver.send(UpdateSession(driver.config))
        turn = np.concatenate((np.full(RATE_HZ, 0.3), np.zeros(RATE_HZ))).astype(np.float32)

        async def burst() -> None:
            for _ in range(20):
                await driver.session.send(AudioIn(turn, RATE_HZ))

        sending = asyncio.create_task(burst())
        await driver.clock.advance(60.0)
        await sending
        await driver.clock.advance(60.0)
        assert len(driver.of(TranscriptCompleted)) == 20
        assert not driver.of(TranscriptFailed)


async def test_short_utterance_with_a_quiet_end_is_shown_when_the_audio_stops() -> None:
    async with SessionDriver() as driver:
        driver.transcriber.text = "who built the white tower"
        await driver.speech(0.5)
        await driver.silence(0.24)
        await driver.clock.advance(3.0)
        shown = "".join(delta.text for delta in driver.of(TranscriptDelta))
        assert shown == "who built the white tower"
