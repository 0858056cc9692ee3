import numpy as np
import pytest

from streams.config import SessionConfig, SessionLimits
from streams.errors import SessionErrorCode
from streams.events import (
    AudioCommitted,
    AudioIn,
    CommitAudio,
    CreateResponse,
    DtmfDigit,
    EndInput,
    KeepAlive,
    RetrieveItem,
    SessionClosed,
    SessionError,
    SessionUpdated,
    TranscriptCompleted,
    TruncateItem,
    UpdateSession,
)
from tests.support.session_driver import MANUAL, RATE_HZ, SessionDriver, typed


async def test_silent_client_is_closed_as_idle_and_everything_is_given_back() -> None:
    async with SessionDriver(limits=SessionLimits(idle_timeout_s=5)) as driver:
        await driver.speech(1.0)
        await driver.send(CommitAudio())
        await driver.clock.advance(4.8)
        assert not driver.ended
        await driver.clock.advance(0.5)
        closed = driver.of(SessionClosed)[0]
        assert closed.code is SessionErrorCode.IDLE
        assert driver.ended
        assert driver.vad.open_streams == 0
        assert driver.responder.released == 1
        assert driver.responder.running == 0


async def test_keep_alive_renews_the_lease() -> None:
    async with SessionDriver(limits=SessionLimits(idle_timeout_s=5)) as driver:
        for _ in range(10):
            await driver.clock.advance(2.0)
            await driver.send(KeepAlive())
        assert not driver.ended


async def test_who_listens_to_a_long_reply_is_not_idle() -> None:
    async with SessionDriver(limits=SessionLimits(idle_timeout_s=2)) as driver:
        driver.responder.words = ["Word "] * 30
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(5.0)
        assert not driver.ended
        await driver.clock.advance(6.0)
        assert driver.of(SessionClosed)[0].code is SessionErrorCode.IDLE


async def test_session_at_its_longest_life_is_closed_as_expired() -> None:
    async with SessionDriver(limits=SessionLimits(max_session_s=10, idle_timeout_s=60)) as driver:
        await driver.clock.advance(10.2)
        assert driver.of(SessionClosed)[0].code is SessionErrorCode.EXPIRED


async def test_client_that_does_not_read_is_closed_as_slow() -> None:
    limits = SessionLimits(slow_consumer_s=3, outbox_bytes=20_000)
    async with SessionDriver(limits=limits) as driver:
        driver.reading.clear()
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(2.5)
        assert not driver.ended
        await driver.clock.advance(1.0)
        assert driver.ended
        driver.reading.set()
        await driver.clock.advance(0.1)
        assert driver.of(SessionClosed)[0].code is SessionErrorCode.SLOW_CONSUMER


async def test_end_of_input_sends_every_final_before_the_close() -> None:
    async with SessionDriver(SessionConfig(respond=False)) as driver:
        driver.transcriber.takes_s = 0.4
        await driver.speech(1.0)
        await driver.send(EndInput())
        await driver.clock.advance(2.0)
        driver.assert_in_order(AudioCommitted, TranscriptCompleted, SessionClosed)
        assert driver.of(SessionClosed)[0].code is None


async def test_drain_tells_the_client_why() -> None:
    async with SessionDriver() as driver:
        driver.session.end(SessionErrorCode.DRAINING, "going down")
        await driver.clock.advance(0.3)
        assert driver.of(SessionClosed)[0].code is SessionErrorCode.DRAINING


async def test_voice_cannot_change_once_it_has_spoken() -> None:
    async with SessionDriver() as driver:
        other = SessionConfig(voice="other", output_rate_hz=RATE_HZ)
        await driver.send(UpdateSession(other))
        assert driver.of(SessionUpdated)[0].config.voice == "other"
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(0.5)
        await driver.send(UpdateSession(driver.config, ref="u2"))
        error = driver.of(SessionError)[0]
        assert (error.code, error.ref) == (SessionErrorCode.VOICE_LOCKED, "u2")


async def test_unknown_item_is_refused_with_the_clients_event_id() -> None:
    async with SessionDriver() as driver:
        await driver.send(TruncateItem("nobody", 10, ref="t1"), RetrieveItem("nobody", ref="r1"))
        refs = [(error.code, error.ref) for error in driver.of(SessionError)]
        assert refs == [
            (SessionErrorCode.UNKNOWN_ITEM, "t1"),
            (SessionErrorCode.UNKNOWN_ITEM, "r1"),
        ]


async def test_pressed_key_is_remembered() -> None:
    async with SessionDriver() as driver:
        await driver.send(DtmfDigit("5"), CreateResponse())
        await driver.clock.advance(0.2)
        assert "5" in driver.responder.heard[0][0][1]


async def test_unusable_sample_rate_is_refused_and_the_session_lives() -> None:
    async with SessionDriver() as driver:
        await driver.send(AudioIn(np.zeros(100, np.float32), 192_000))
        assert driver.of(SessionError)[0].code is SessionErrorCode.INVALID
        assert not driver.ended


async def test_uncommitted_audio_over_the_limit_is_dropped_and_told_once() -> None:
    limits = SessionLimits(max_buffer_s=2)
    async with SessionDriver(MANUAL, limits) as driver:
        await driver.speech(4.0)
        errors = driver.of(SessionError)
        assert [error.code for error in errors] == [SessionErrorCode.BUFFER_FULL]


async def test_model_reads_the_instructions_before_the_first_turn_and_when_they_change() -> None:
    async with SessionDriver(SessionConfig(instructions="Be kind.")) as driver:
        assert driver.responder.primed == ["Be kind."]
        await driver.send(UpdateSession(SessionConfig(instructions="Be brief.")))
        await driver.send(UpdateSession(SessionConfig(instructions="Be brief.", speed=1.2)))
        assert driver.responder.primed == ["Be kind.", "Be brief."]


async def test_client_that_leaves_in_mid_speech_ends_the_session_without_a_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with SessionDriver() as driver:
        await driver.speech(0.5)
        for _ in range(20):
            await driver.session.send(AudioIn(np.full(320, 0.3, np.float32), RATE_HZ))
        await driver.leave()
        assert driver.vad.open_streams == 0
    assert not caplog.records


async def test_end_of_input_writes_down_what_was_not_committed() -> None:
    async with SessionDriver(MANUAL) as driver:
        await driver.speech(1.0)
        await driver.send(EndInput())
        await driver.clock.advance(1.0)
        driver.assert_in_order(TranscriptCompleted, SessionClosed)
