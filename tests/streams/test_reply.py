from streams.config import SessionConfig, SessionLimits
from streams.events import AudioDelta, CreateResponse, OutputDone, ResponseDone, TextDelta
from streams.reply import PIECE_S
from tests.support.session_driver import RATE_HZ, SessionDriver, typed


def handed_s(driver: SessionDriver) -> float:
    return sum(len(delta.samples) for delta in driver.of(AudioDelta)) / RATE_HZ


async def test_first_audio_goes_out_while_the_model_still_writes() -> None:
    async with SessionDriver() as driver:
        driver.responder.step_s = 0.1
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(0.55)
        assert driver.responder.running == 1
        assert driver.of(AudioDelta)
        assert not driver.of(OutputDone)


async def test_text_goes_to_the_client_word_by_word_as_it_is_made() -> None:
    async with SessionDriver() as driver:
        driver.responder.step_s = 0.1
        await driver.send(typed("hi"), CreateResponse())
        for number in range(1, 4):
            await driver.clock.advance(0.1)
            assert [delta.text for delta in driver.of(TextDelta)] == list(
                driver.responder.words[:number]
            )


async def test_synthesis_waits_while_enough_is_unheard_and_goes_on_as_it_is_played() -> None:
    limits = SessionLimits(generate_ahead_s=4.0)
    async with SessionDriver(limits=limits) as driver:
        driver.responder.words = [f"This is sentence number {n} of a few. " for n in range(12)]
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(0.2)
        longest_s = 0.05 * max(map(len, driver.synthesizer.spoken))
        early = len(driver.synthesizer.spoken)
        assert handed_s(driver) <= limits.generate_ahead_s + longest_s + 0.2
        await driver.clock.advance(3.0)
        assert len(driver.synthesizer.spoken) > early
        await driver.clock.advance(40.0)
        assert len(driver.of(ResponseDone)) == 1
        assert sum(map(len, driver.synthesizer.spoken)) >= 12 * 30


async def test_pieces_are_short_enough_to_be_cut_at_an_interruption() -> None:
    async with SessionDriver() as driver:
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(0.5)
        lengths = [len(delta.samples) for delta in driver.of(AudioDelta)]
        assert max(lengths) == round(PIECE_S * RATE_HZ)


async def test_emoji_are_shown_and_not_spoken() -> None:
    async with SessionDriver() as driver:
        driver.responder.words = ["Hello there. ", "😀 ", "Good night."]
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(0.5)
        shown = "".join(delta.text for delta in driver.of(TextDelta))
        assert shown == "Hello there. 😀 Good night."
        spoken = " ".join(driver.synthesizer.spoken)
        assert "😀" not in spoken
        assert "Hello there." in spoken and "Good night." in spoken


async def test_speed_of_the_session_reaches_the_voice() -> None:
    config = SessionConfig(speed=1.25, output_rate_hz=RATE_HZ)
    async with SessionDriver(config) as driver:
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(0.5)
    assert {voice.speed for voice in driver.synthesizer.asked} == {1.25}


async def test_reply_without_words_completes_in_silence() -> None:
    async with SessionDriver() as driver:
        driver.responder.words = []
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(0.5)
        assert not driver.of(AudioDelta)
        assert len(driver.of(ResponseDone)) == 1
