from streams.config import ResponseOptions, SessionConfig, SessionLimits
from streams.errors import SessionErrorCode
from streams.events import (
    AudioDelta,
    CancelResponse,
    CreateResponse,
    ResponseDone,
    ResponseStatus,
    SessionError,
    SessionUpdated,
    TextDelta,
    UpdateSession,
)
from tests.support.session_driver import MANUAL, RATE_HZ, SessionDriver, typed

OTHER_VOICE = SessionConfig(turn_detection=None, voice="other", output_rate_hz=RATE_HZ)


async def test_options_of_one_reply_override_the_session_and_only_that_reply() -> None:
    config = SessionConfig(instructions="Be kind.", output_rate_hz=RATE_HZ)
    async with SessionDriver(config) as driver:
        metadata = (("topic", "greeting"),)
        options = ResponseOptions("Be brief.", False, 12, "other", metadata)
        await driver.send(typed("hi"), CreateResponse(options), CreateResponse())
        await driver.clock.advance(0.5)
        await driver.send(CreateResponse())
        await driver.clock.advance(0.5)
        first, second = driver.of(ResponseDone)
        spoken = {delta.response_id for delta in driver.of(AudioDelta)}
    assert [asked.instructions for asked in driver.responder.options] == ["Be brief.", "Be kind."]
    assert [asked.max_tokens for asked in driver.responder.options] == [12, 256]
    assert first.options.metadata == metadata
    assert spoken == {second.response_id}


async def test_reply_longer_than_the_operator_allows_is_cut_to_the_limit() -> None:
    limits = SessionLimits(max_output_tokens=20)
    async with SessionDriver(limits=limits) as driver:
        await driver.send(typed("hi"), CreateResponse(ResponseOptions(max_output_tokens=9_999)))
        await driver.clock.advance(0.5)
    assert driver.responder.options[0].max_tokens == 20


async def test_cancel_of_another_response_is_refused_and_the_reply_goes_on() -> None:
    async with SessionDriver() as driver:
        driver.responder.step_s = 0.1
        await driver.send(typed("hi"), CreateResponse(), CancelResponse("resp_other", ref="e3"))
        error = driver.of(SessionError)[0]
        assert (error.code, error.ref) == (SessionErrorCode.NO_ACTIVE_RESPONSE, "e3")
        await driver.clock.advance(2.0)
        assert driver.of(ResponseDone)[0].status is ResponseStatus.COMPLETED


async def test_nothing_of_a_cancelled_reply_is_sent_after_its_end() -> None:
    async with SessionDriver() as driver:
        driver.responder.words = ["Word "] * 40
        driver.responder.step_s = 0.1
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(1.0)
        await driver.send(CancelResponse())
        sent = len(driver.out)
        await driver.clock.advance(5.0)
        assert driver.kinds()[-1] == "ResponseDone"
        assert len(driver.out) == sent
        assert driver.of(TextDelta)


async def test_voice_stays_locked_after_a_later_reply_without_sound() -> None:
    async with SessionDriver(MANUAL) as driver:
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(0.5)
        await driver.send(CreateResponse(ResponseOptions(output_audio=False)))
        await driver.clock.advance(0.5)
        assert len(driver.of(ResponseDone)) == 2
        await driver.send(UpdateSession(OTHER_VOICE, ref="u1"))
        error = driver.of(SessionError)[0]
        assert (error.code, error.ref) == (SessionErrorCode.VOICE_LOCKED, "u1")


async def test_voice_may_change_after_replies_in_text_alone() -> None:
    async with SessionDriver(MANUAL) as driver:
        await driver.send(typed("hi"), CreateResponse(ResponseOptions(output_audio=False)))
        await driver.clock.advance(0.5)
        await driver.send(UpdateSession(OTHER_VOICE))
        assert driver.of(SessionUpdated)[0].config.voice == "other"
        await driver.send(CreateResponse())
        await driver.clock.advance(0.5)
        assert {voice.voice for voice in driver.synthesizer.asked} == {"other"}


async def test_cache_is_salted_with_the_tenant() -> None:
    async with SessionDriver() as driver:
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(0.5)
    assert [asked.cache_salt for asked in driver.responder.options] == ["tester"]
