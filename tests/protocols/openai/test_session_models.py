from streams.events import UpdateSession
from tests.protocols.realtime_driver import Driver


def test_prompt_that_is_no_unicode_text_is_refused_and_nothing_changes() -> None:
    driver = Driver().started()
    audio = {"input": {"transcription": {"model": "whisper-base", "prompt": "\ud800"}}}
    assert not any(isinstance(event, UpdateSession) for event in driver.update({"audio": audio}))
    error = driver.error()
    assert error["code"] == "invalid_value"
    assert error["param"] == "session.audio.input.transcription.prompt"
