import pytest

from streams.config import SessionConfig, TurnDetection
from streams.turns import TurnAction, TurnTaking

AUTOMATIC = SessionConfig()
MANUAL = SessionConfig(turn_detection=None)


def after_turn(config: SessionConfig, text: str, *, by_client: bool = False) -> TurnTaking:
    turns = TurnTaking()
    turns.speech_started(config, audible=False)
    turns.speech_stopped()
    turns.transcribed(config, text, by_client=by_client)
    return turns


def test_words_of_a_turn_are_answered_once() -> None:
    turns = after_turn(AUTOMATIC, "hello")
    assert turns.due(replying=False) == [TurnAction.RESPOND]
    assert turns.due(replying=False) == []


@pytest.mark.parametrize(
    ("config", "text", "by_client"),
    [
        (AUTOMATIC, "", False),
        (AUTOMATIC, "hello", True),
        (MANUAL, "hello", False),
        (SessionConfig(respond=False), "hello", False),
        (SessionConfig(turn_detection=TurnDetection(create_response=False)), "hello", False),
    ],
    ids=["no words", "committed by the client", "no turn detection", "transcription", "off"],
)
def test_turn_that_asks_for_no_reply_gets_none(
    config: SessionConfig, text: str, by_client: bool
) -> None:
    assert after_turn(config, text, by_client=by_client).due(replying=False) == []


def test_speaker_who_goes_on_is_answered_only_at_the_end_and_only_once() -> None:
    turns = after_turn(AUTOMATIC, "first half")
    turns.speech_started(AUTOMATIC, audible=False)
    assert turns.due(replying=False) == []
    turns.speech_stopped()
    turns.transcribed(AUTOMATIC, "second half", by_client=False)
    assert turns.due(replying=False) == [TurnAction.RESPOND]
    assert turns.due(replying=False) == []


def test_noise_after_words_still_leaves_the_words_to_be_answered() -> None:
    turns = after_turn(AUTOMATIC, "hello")
    turns.speech_started(AUTOMATIC, audible=False)
    turns.speech_stopped()
    turns.transcribed(AUTOMATIC, "", by_client=False)
    assert turns.due(replying=False) == [TurnAction.RESPOND]


def test_reply_waits_for_the_one_that_is_being_made() -> None:
    turns = after_turn(AUTOMATIC, "hello")
    assert turns.due(replying=True) == []
    assert turns.due(replying=False) == [TurnAction.RESPOND]


@pytest.mark.parametrize(
    ("config", "audible", "actions"),
    [
        (AUTOMATIC, True, [TurnAction.INTERRUPT]),
        (AUTOMATIC, False, []),
        (SessionConfig(turn_detection=TurnDetection(interrupt_response=False)), True, []),
        (MANUAL, True, []),
    ],
    ids=["audible", "silent", "interruption off", "no turn detection"],
)
def test_speech_interrupts_an_audible_reply_where_the_session_wants_it(
    config: SessionConfig, audible: bool, actions: list[TurnAction]
) -> None:
    turns = TurnTaking()
    assert turns.speech_started(config, audible=audible) == actions
    assert turns.speaking
