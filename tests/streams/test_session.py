import pytest

from streams.config import SessionConfig, SessionLimits
from streams.errors import EngineFailed, Overloaded, SessionErrorCode
from streams.events import (
    AudioCommitted,
    AudioDelta,
    ClearAudio,
    CommitAudio,
    CreateResponse,
    ItemAdded,
    ItemDone,
    OutputDone,
    OutputStarted,
    ResponseDone,
    ResponseStarted,
    ResponseStatus,
    SessionError,
    SessionStarted,
    SpeechStarted,
    SpeechStopped,
    TextDelta,
    TranscriptCompleted,
    TranscriptDelta,
    TranscriptFailed,
)
from tests.support.session_driver import MANUAL, SessionDriver


async def test_spoken_turn_is_transcribed_and_answered_in_the_right_order() -> None:
    async with SessionDriver() as driver:
        await driver.silence(0.5)
        await driver.speech(1.5)
        await driver.silence(1.0)
        driver.assert_in_order(
            SessionStarted,
            SpeechStarted,
            TranscriptDelta,
            SpeechStopped,
            AudioCommitted,
            ItemAdded,
            ItemDone,
            TranscriptCompleted,
            ResponseStarted,
            OutputStarted,
            TextDelta,
            AudioDelta,
            OutputDone,
            ResponseDone,
        )
        assert driver.of(TranscriptCompleted)[0].text == "hello there"
        assert "".join(delta.text for delta in driver.of(TranscriptDelta)) == "hello there"
        assert driver.of(ResponseDone)[0].status is ResponseStatus.COMPLETED
        assert driver.responder.heard == [[("user", "hello there")]]


async def test_turn_times_count_received_audio_with_the_preroll() -> None:
    async with SessionDriver() as driver:
        await driver.silence(1.024)
        await driver.speech(1.024)
        await driver.silence(1.0)
        assert driver.of(SpeechStarted)[0].at_ms == pytest.approx(1024 - 300, abs=40)
        assert driver.of(SpeechStopped)[0].at_ms == pytest.approx(2048, abs=40)


async def test_client_commit_after_the_vad_has_committed_is_an_empty_buffer() -> None:
    async with SessionDriver() as driver:
        await driver.speech(1.5)
        await driver.silence(1.0)
        await driver.send(CommitAudio(ref="c2"))
        error = driver.of(SessionError)[0]
        assert (error.code, error.ref) == (SessionErrorCode.BUFFER_EMPTY, "c2")
        await driver.speech(1.5)
        await driver.silence(1.0)
        assert len(driver.of(TranscriptCompleted)) == 2
        assert not driver.ended


async def test_commit_without_any_audio_is_refused_and_names_the_minimum() -> None:
    async with SessionDriver(MANUAL) as driver:
        await driver.send(CommitAudio(ref="c1"))
        error = driver.of(SessionError)[0]
        assert error.code is SessionErrorCode.BUFFER_EMPTY
        assert "1ms" in error.message


async def test_commit_by_hand_makes_an_item_but_no_reply() -> None:
    async with SessionDriver(MANUAL) as driver:
        await driver.speech(1.0)
        await driver.send(CommitAudio())
        await driver.clock.advance(0.5)
        assert driver.of(TranscriptCompleted)[0].text == "hello there"
        assert not driver.of(ResponseStarted)
        assert not driver.of(SpeechStarted)
        await driver.send(CreateResponse())
        await driver.clock.advance(0.5)
        assert driver.of(ResponseDone)[0].status is ResponseStatus.COMPLETED


async def test_cleared_audio_is_never_transcribed() -> None:
    async with SessionDriver(MANUAL) as driver:
        await driver.speech(1.0)
        await driver.send(ClearAudio(), CommitAudio(ref="c1"))
        assert driver.of(SessionError)[0].ref == "c1"
        assert driver.transcriber.calls == []


async def test_turn_without_words_is_told_as_empty_and_not_answered() -> None:
    async with SessionDriver() as driver:
        driver.transcriber.text = ""
        await driver.speech(0.5)
        await driver.silence(1.0)
        assert driver.of(TranscriptCompleted)[0].text == ""
        assert not driver.of(ResponseStarted)


async def test_speaker_who_goes_on_is_answered_once() -> None:
    async with SessionDriver() as driver:
        driver.transcriber.takes_s = 0.6
        await driver.speech(1.0)
        await driver.silence(0.56)
        await driver.speech(1.0)
        await driver.silence(2.0)
        assert len(driver.of(TranscriptCompleted)) == 2
        assert len(driver.of(ResponseStarted)) == 1
        assert [role for role, _ in driver.responder.heard[0]] == ["user", "user"]


async def test_failed_transcript_is_told_and_the_session_lives() -> None:
    async with SessionDriver() as driver:
        driver.transcriber.fail_with = EngineFailed("the engine broke")
        await driver.speech(0.5)
        await driver.silence(1.0)
        assert driver.of(TranscriptFailed)[0].message == "the engine broke"
        driver.transcriber.fail_with = None
        await driver.speech(0.5)
        await driver.silence(1.0)
        assert driver.of(ResponseDone)[0].status is ResponseStatus.COMPLETED


async def test_transcription_session_never_replies() -> None:
    async with SessionDriver(SessionConfig(respond=False)) as driver:
        await driver.speech(1.0)
        await driver.silence(1.0)
        assert driver.of(TranscriptCompleted)
        assert not driver.of(ResponseStarted)


async def test_partials_reach_the_last_word_when_the_client_stops_sending() -> None:
    async with SessionDriver() as driver:
        driver.transcriber.text = "who built the white tower"
        await driver.speech(1.2)
        await driver.clock.advance(3.0)
        assert driver.of(TranscriptDelta)
        shown = "".join(delta.text for delta in driver.of(TranscriptDelta))
        assert shown == "who built the white tower"
        calls = len(driver.transcriber.calls)
        await driver.clock.advance(10.0)
        assert len(driver.transcriber.calls) == calls


async def test_eager_final_makes_the_transcript_ready_at_the_endpoint() -> None:
    limits = SessionLimits(partial_interval_s=0)
    async with SessionDriver(limits=limits) as driver:
        driver.transcriber.takes_s = 0.2
        await driver.speech(1.0)
        await driver.silence(0.6)
        assert len(driver.transcriber.calls) == 1
        assert driver.of(TranscriptCompleted)


async def test_pause_within_a_turn_throws_the_eager_final_away() -> None:
    limits = SessionLimits(partial_interval_s=0)
    async with SessionDriver(limits=limits) as driver:
        await driver.speech(1.0)
        await driver.silence(0.3)
        await driver.speech(1.0)
        await driver.silence(0.8)
        assert len(driver.of(TranscriptCompleted)) == 1
        assert driver.transcriber.calls[-1] == pytest.approx(2.5, abs=0.2)


async def test_reply_waits_for_the_words_of_what_was_committed_before_it() -> None:
    async with SessionDriver(MANUAL) as driver:
        driver.transcriber.takes_s = 0.2
        await driver.speech(1.0)
        await driver.send(CommitAudio(), CreateResponse())
        await driver.clock.advance(2.0)
        assert driver.responder.heard == [[("user", "hello there")]]
        driver.assert_in_order(ResponseStarted, TranscriptCompleted, ResponseDone)


async def test_failed_turn_does_not_swallow_the_reply_to_the_turn_before_it() -> None:
    limits = SessionLimits(partial_interval_s=0, eager_final=False)
    async with SessionDriver(limits=limits) as driver:
        driver.transcriber.takes_s = 0.6
        await driver.speech(1.0)
        await driver.silence(0.6)
        await driver.speech(0.8)
        driver.transcriber.fail_with = Overloaded("too many requests")
        await driver.silence(2.0)
        await driver.clock.advance(2.0)
        assert driver.of(TranscriptFailed)
        assert len(driver.of(ResponseStarted)) == 1


async def test_partials_that_fail_are_the_servers_own_business() -> None:
    async with SessionDriver() as driver:
        driver.transcriber.fail_with = Overloaded("too many requests")
        await driver.speech(1.5)
        driver.transcriber.fail_with = None
        await driver.silence(1.0)
        assert not driver.of(SessionError)
        assert driver.of(TranscriptCompleted)[0].text == "hello there"
