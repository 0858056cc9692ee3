import numpy as np
import pytest

from engines.base import FinishReason
from streams.config import SessionConfig, SessionLimits, TurnDetection
from streams.errors import EngineFailed, SessionErrorCode
from streams.events import (
    AudioCommitted,
    AudioDelta,
    AudioIn,
    CancelResponse,
    ClearAudio,
    CommitAudio,
    CreateItem,
    CreateResponse,
    DtmfDigit,
    EndInput,
    Item,
    ItemAdded,
    ItemDone,
    ItemRetrieved,
    ItemTruncated,
    KeepAlive,
    OutputDone,
    OutputStarted,
    Part,
    PartKind,
    PlaybackCleared,
    PlaybackProgress,
    ResponseDone,
    ResponseReason,
    ResponseStarted,
    ResponseStatus,
    RetrieveItem,
    Role,
    SessionClosed,
    SessionError,
    SessionStarted,
    SessionUpdated,
    SpeechStarted,
    SpeechStopped,
    TextDelta,
    TranscriptCompleted,
    TranscriptDelta,
    TranscriptFailed,
    TruncateItem,
    UpdateSession,
)
from tests.support.session_driver import RATE_HZ, SessionDriver

MANUAL = SessionConfig(turn_detection=None, output_rate_hz=RATE_HZ)


def typed(text: str) -> CreateItem:
    return CreateItem(Item("", Role.USER, (Part(PartKind.TEXT, text),)))


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


async def test_transcription_session_never_replies() -> None:
    async with SessionDriver(SessionConfig(respond=False)) as driver:
        await driver.speech(1.0)
        await driver.silence(1.0)
        assert driver.of(TranscriptCompleted)
        assert not driver.of(ResponseStarted)


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


async def test_truncation_by_the_client_is_confirmed_and_clamped() -> None:
    async with SessionDriver() as driver:
        await driver.send(typed("hi"), CreateResponse())
        await driver.clock.advance(0.5)
        item_id = driver.of(OutputDone)[0].item.item_id
        await driver.send(TruncateItem(item_id, 99_999))
        sent_ms = sum(len(delta.samples) for delta in driver.of(AudioDelta)) * 1000 / RATE_HZ
        assert driver.of(ItemTruncated)[0].audio_end_ms == round(sent_ms)


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
