"""session.update: merge, validation, echo, and what the core gets."""

from typing import Any

import pytest

from streams.config import SessionConfig, TurnDetection
from streams.errors import SessionErrorCode
from streams.events import SessionError, SessionStarted, SessionUpdated, UpdateSession
from tests.protocols.realtime_driver import NOW_S, Driver, types


def confirmed(driver: Driver, session: dict[str, Any], kind: str = "realtime") -> dict[str, Any]:
    """Sends an update, lets the core confirm it, and returns the echoed session."""
    (update,) = driver.update(session, kind)
    assert isinstance(update, UpdateSession)
    (event,) = driver.say(SessionUpdated(update.config))
    assert event["type"] == "session.updated"
    echoed: dict[str, Any] = event["session"]
    return echoed


def config_after(driver: Driver, session: dict[str, Any], kind: str = "realtime") -> SessionConfig:
    (update,) = driver.update(session, kind)
    assert isinstance(update, UpdateSession)
    return update.config


def test_created_session_shows_every_default() -> None:
    driver = Driver({"model": "gpt-realtime"}, base=SessionConfig(instructions="Be brief."))
    (event,) = driver.say(SessionStarted("sess_1", driver.config))
    assert event["type"] == "session.created"
    assert event["session"] == {
        "type": "realtime",
        "object": "realtime.session",
        "id": "sess_1",
        "expires_at": int(NOW_S) + 3600,
        "model": "gpt-realtime",
        "output_modalities": ["audio"],
        "instructions": "Be brief.",
        "max_output_tokens": "inf",
        "tools": [],
        "tool_choice": "auto",
        "truncation": "auto",
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "transcription": {"model": "whisper-base"},
                "noise_reduction": None,
                "turn_detection": {
                    "type": "server_vad",
                    "threshold": 0.5,
                    "prefix_padding_ms": 300,
                    "silence_duration_ms": 500,
                    "create_response": True,
                    "interrupt_response": True,
                },
            },
            "output": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "voice": "default",
                "speed": 1.0,
            },
        },
    }


def test_config_of_a_fresh_session_is_the_operators() -> None:
    base = SessionConfig(
        instructions="Be brief.", turn_detection=TurnDetection(silence_ms=650), max_output_tokens=99
    )
    assert Driver(base=base).config == base


def test_transcription_session_has_no_output_and_does_not_reply() -> None:
    driver = Driver({"intent": "transcription", "model": "whisper-1"})
    assert driver.config.respond is False
    (event,) = driver.say(SessionStarted("sess_1", driver.config))
    assert event["session"]["type"] == "transcription"
    assert set(event["session"]["audio"]) == {"input"}


def test_update_is_merged_deeply_and_absent_keys_are_kept() -> None:
    driver = Driver().started()
    confirmed(driver, {"instructions": "One.", "audio": {"output": {"voice": "marin"}}})
    echoed = confirmed(
        driver,
        {"audio": {"input": {"turn_detection": {"type": "server_vad", "threshold": 0.7}}}},
    )
    assert echoed["instructions"] == "One."
    assert echoed["audio"]["output"]["voice"] == "marin"
    assert echoed["audio"]["input"]["turn_detection"] == {
        "type": "server_vad",
        "threshold": 0.7,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 500,
        "create_response": True,
        "interrupt_response": True,
    }


def test_null_clears_the_three_sub_objects_and_is_absent_elsewhere() -> None:
    driver = Driver().started()
    cleared = {"turn_detection": None, "noise_reduction": None, "transcription": None}
    echoed = confirmed(driver, {"instructions": None, "audio": {"input": cleared}, "tools": None})
    heard = echoed["audio"]["input"]
    assert {key: heard[key] for key in cleared} == cleared
    assert echoed["instructions"] == "" and echoed["tools"] == []
    assert config_after(driver, {}).turn_detection is None


def test_empty_values_clear_instructions_and_tools() -> None:
    driver = Driver().started()
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    assert confirmed(driver, {"instructions": "x", "tools": [tool]})["tools"] == [tool]
    echoed = confirmed(driver, {"instructions": "", "tools": []})
    assert echoed["instructions"] == "" and echoed["tools"] == []


@pytest.mark.parametrize(
    ("eagerness", "silence_ms"), [("low", 1200), ("medium", 700), ("auto", 700), ("high", 400)]
)
def test_semantic_vad_is_echoed_as_set_and_waits_by_eagerness(
    eagerness: str, silence_ms: int
) -> None:
    driver = Driver().started()
    vad = {"type": "semantic_vad", "eagerness": eagerness, "interrupt_response": False}
    session = {"audio": {"input": {"turn_detection": vad}}}
    turns = config_after(driver, session).turn_detection
    assert turns is not None
    assert (turns.silence_ms, turns.interrupt_response) == (silence_ms, False)
    assert confirmed(driver, session)["audio"]["input"]["turn_detection"] == {
        **vad,
        "create_response": True,
    }


def test_another_vad_type_starts_from_its_own_defaults() -> None:
    driver = Driver().started()
    own = {"type": "server_vad", "threshold": 0.9, "silence_duration_ms": 900}
    confirmed(driver, {"audio": {"input": {"turn_detection": own}}})
    confirmed(driver, {"audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}})
    echoed = confirmed(driver, {"audio": {"input": {"turn_detection": {"type": "server_vad"}}}})
    assert echoed["audio"]["input"]["turn_detection"]["threshold"] == 0.5


def test_transcription_echo_holds_only_what_the_client_set() -> None:
    driver = Driver().started()
    session = {"audio": {"input": {"transcription": {"language": "de", "prompt": None}}}}
    echoed = confirmed(driver, session)["audio"]["input"]["transcription"]
    assert echoed == {"model": "whisper-base", "language": "de"}


@pytest.mark.parametrize(
    ("transcription", "language"),
    [
        ({"model": "m", "language": "en-US"}, "en"),
        ({"model": "m", "languages": ["fr"]}, "fr"),
        ({"model": "m", "languages": ["fr", "de"]}, None),
        ({"model": "m", "language": ""}, None),
    ],
)
def test_language_is_taken_where_exactly_one_is_named(
    transcription: dict[str, Any], language: str | None
) -> None:
    session = {"audio": {"input": {"transcription": transcription}}}
    assert config_after(Driver().started(), session).language == language


def test_everything_that_the_core_needs_reaches_its_config() -> None:
    driver = Driver(voices=frozenset({"voice_7"})).started()
    session = {
        "instructions": "Sing.",
        "output_modalities": ["text"],
        "max_output_tokens": 50,
        "audio": {
            "input": {
                "transcription": {"language": "de", "prompt": "Antiphon"},
                "turn_detection": {
                    "type": "server_vad",
                    "prefix_padding_ms": 200.0,
                    "silence_duration_ms": 350,
                    "create_response": False,
                },
            },
            "output": {
                "format": {"type": "audio/pcmu"},
                "voice": {"id": "voice_7"},
                "speed": 1.25,
            },
        },
    }
    assert config_after(driver, session) == SessionConfig(
        turn_detection=TurnDetection(prefix_padding_ms=200, silence_ms=350, create_response=False),
        instructions="Sing.",
        voice="voice_7",
        speed=1.25,
        output_audio=False,
        output_rate_hz=8000,
        max_output_tokens=50,
        language="de",
        transcription_prompt="Antiphon",
    )


def test_full_update_of_an_agent_client_is_taken() -> None:
    driver = Driver().started()
    session = {
        "model": "gpt-realtime-2.1",
        "instructions": "Be kind.",
        "output_modalities": ["audio"],
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "noise_reduction": {"type": "near_field"},
                "transcription": {"model": "gpt-4o-mini-transcribe"},
                "turn_detection": {"type": "semantic_vad"},
            },
            "output": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "voice": "marin",
                "speed": 1,
            },
        },
        "tool_choice": "auto",
        "tools": [{"type": "function", "name": "f", "description": "d", "strict": False}],
        "tracing": "auto",
        "include": None,
        "prompt": {"id": "pmpt_1"},
        "reasoning": {"effort": "low"},
        "truncation": {"type": "retention_ratio", "retention_ratio": 0.8},
        "parallel_tool_calls": True,
        "max_output_tokens": "inf",
    }
    echoed = confirmed(driver, session)
    assert echoed["model"] == "gpt-realtime-2.1"
    assert echoed["truncation"] == session["truncation"]
    assert echoed["audio"]["input"]["noise_reduction"] == {"type": "near_field"}


def test_foreign_voice_is_echoed_and_spoken_by_the_servers_own() -> None:
    base = SessionConfig(voice="joe")
    driver = Driver(base=base, voices=frozenset({"joe", "ann"})).started()
    for wanted, spoken in (("marin", "joe"), ("ann", "ann")):
        session = {"audio": {"output": {"voice": wanted}}}
        assert config_after(driver, session).voice == spoken
        echoed = driver.say(SessionUpdated(driver.config))[0]["session"]
        assert echoed["audio"]["output"]["voice"] == wanted


def test_unknown_language_is_refused_where_the_known_are_listed() -> None:
    driver = Driver(languages=frozenset({"en", "de"})).started()
    german = {"audio": {"input": {"transcription": {"language": "de"}}}}
    assert config_after(driver, german).language == "de"
    assert driver.update({"audio": {"input": {"transcription": {"language": "xx"}}}}) == []
    assert driver.error()["param"] == "session.audio.input.transcription.language"


def test_model_of_the_url_wins_over_that_of_an_update() -> None:
    driver = Driver({"model": "ours"}).started()
    assert confirmed(driver, {"model": "gpt-realtime-2.1"})["model"] == "ours"


def test_session_sent_back_whole_is_taken() -> None:
    driver = Driver().started()
    echoed = confirmed(driver, {})
    assert confirmed(driver, echoed) == echoed


@pytest.mark.parametrize(
    ("session", "code", "param"),
    [
        ({"type": None}, "missing_required_parameter", "session.type"),
        ({"type": "transcription"}, "invalid_parameter", "session.type"),
        ({"type": ["realtime"]}, "invalid_parameter", "session.type"),
        ({"modalities": ["text"]}, "unknown_parameter", "session.modalities"),
        ({"audio": {"input": {"rate": 1}}}, "unknown_parameter", "session.audio.input.rate"),
        ({"audio": 5}, "invalid_type", "session.audio"),
        ({"audio": {"audio": {"audio": {}}}}, "unknown_parameter", "session.audio.audio"),
        ({"instructions": 5}, "invalid_type", "session.instructions"),
        ({"output_modalities": ["text", "audio"]}, "invalid_value", "session.output_modalities"),
        ({"output_modalities": []}, "invalid_value", "session.output_modalities"),
        ({"max_output_tokens": 0}, "invalid_value", "session.max_output_tokens"),
        ({"max_output_tokens": 4097}, "invalid_value", "session.max_output_tokens"),
        ({"max_output_tokens": True}, "invalid_type", "session.max_output_tokens"),
        (
            {"audio": {"output": {"speed": 1.6}}},
            "invalid_value",
            "session.audio.output.speed",
        ),
        (
            {"audio": {"output": {"voice": {}}}},
            "invalid_type",
            "session.audio.output.voice",
        ),
        (
            {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 7999}}}},
            "invalid_value",
            "session.audio.input.format.rate",
        ),
        (
            {"audio": {"input": {"format": {"type": "audio/opus"}}}},
            "invalid_value",
            "session.audio.input.format.type",
        ),
        (
            {"audio": {"input": {"turn_detection": {"type": "server_vad", "threshold": 1.5}}}},
            "invalid_value",
            "session.audio.input.turn_detection.threshold",
        ),
        (
            {"audio": {"input": {"turn_detection": {"type": "server_vad", "eagerness": "low"}}}},
            "unknown_parameter",
            "session.audio.input.turn_detection.eagerness",
        ),
        ({"tools": [{"type": "function"}]}, "missing_required_parameter", "session.tools.0.name"),
        (
            {"tools": [{"type": "mcp"}]},
            "invalid_value",
            "session.tools.0.type",
        ),
    ],
)
def test_wrong_update_gets_its_error_and_changes_nothing(
    session: dict[str, Any], code: str, param: str
) -> None:
    driver = Driver().started()
    before = confirmed(driver, {})
    update = {"instructions": "changed", "type": "realtime", **session}
    assert driver.send("session.update", event_id="u1", session=update) == []
    error = driver.error()
    assert (error["code"], error["param"]) == (code, param)
    assert error["type"] == "invalid_request_error"
    assert error["event_id"] == "u1"
    assert confirmed(driver, {}) == before


def test_vad_without_a_type_is_merged_while_on_and_incomplete_while_off() -> None:
    driver = Driver().started()
    untyped = {"audio": {"input": {"turn_detection": {"threshold": 0.8}}}}
    echoed = confirmed(driver, untyped)
    assert echoed["audio"]["input"]["turn_detection"]["threshold"] == 0.8
    confirmed(driver, {"audio": {"input": {"turn_detection": None}}})
    assert driver.update(untyped) == []
    assert driver.error()["param"] == "session.audio.input.turn_detection.type"


def test_update_sent_before_created_is_answered_after_it() -> None:
    driver = Driver()
    (update,) = driver.update({"instructions": "Early."})
    assert driver.update({"nonsense": 1}) == []
    assert driver.sent() == []
    assert isinstance(update, UpdateSession)
    started = SessionStarted("sess_1", driver.config)
    events = driver.say(started, SessionUpdated(update.config))
    assert types(events) == ["session.created", "error", "session.updated"]
    assert events[0]["session"]["instructions"] == ""
    assert events[2]["session"]["instructions"] == "Early."


def test_updates_in_a_row_build_on_each_other_before_the_first_is_answered() -> None:
    driver = Driver().started()
    first = config_after(driver, {"instructions": "One."})
    second = config_after(driver, {"audio": {"output": {"voice": "marin", "speed": 0.5}}})
    assert (second.instructions, second.speed) == ("One.", 0.5)
    events = driver.say(SessionUpdated(first), SessionUpdated(second))
    assert [event["session"]["audio"]["output"]["voice"] for event in events] == [
        "default",
        "marin",
    ]


def test_update_refused_by_the_core_is_forgotten() -> None:
    driver = Driver().started()
    session = {"type": "realtime", "audio": {"output": {"voice": "marin"}}}
    (update,) = driver.send("session.update", event_id="u9", session=session)
    assert isinstance(update, UpdateSession)
    driver.protocol.receive_output(
        SessionError(SessionErrorCode.VOICE_LOCKED, "Too late.", update.ref)
    )
    error = driver.error()
    assert (error["code"], error["event_id"]) == ("cannot_update_voice", "u9")
    assert confirmed(driver, {})["audio"]["output"]["voice"] == "default"


def test_rates_beyond_24_khz_are_echoed_to_those_who_asked() -> None:
    driver = Driver().started()
    driver.own_rate = True
    wire = {"type": "audio/pcm", "rate": 44100}
    echoed = confirmed(driver, {"audio": {"input": {"format": wire}, "output": {"format": wire}}})
    assert echoed["audio"]["input"]["format"] == echoed["audio"]["output"]["format"] == wire


def test_g711_echo_has_no_rate_even_if_one_was_sent() -> None:
    driver = Driver().started()
    wire = {"type": "audio/pcma", "rate": 8000}
    echoed = confirmed(driver, {"audio": {"input": {"format": wire}}})
    assert echoed["audio"]["input"]["format"] == {"type": "audio/pcma"}
