"""The configuration: order of sources, refusals that say what to do, and its own account."""

import json
import os
from pathlib import Path

import pytest
import yaml

from antiphon.config import Config, is_loopback, load_config
from antiphon.config_text import as_yaml, knobs
from engines.base import Tier
from engines.errors import BadRequest
from streams.config import SessionLimits

KEY = "0123456789abcdef0123"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ANTIPHON_")]:
        monkeypatch.delenv(name)


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "antiphon.yaml"
    file.write_text(text)
    return file


def test_flags_win_over_environment_over_file_over_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, "server: {port: 1, grpc_port: 2, drain_s: 3}")
    monkeypatch.setenv("ANTIPHON_SERVER__PORT", "11")
    monkeypatch.setenv("ANTIPHON_SERVER__GRPC_PORT", "12")
    config = load_config(file, {"server.port": 21})
    assert (config.server.port, config.server.grpc_port, config.server.drain_s) == (21, 12, 3)
    assert config.server.host == "127.0.0.1"


def test_file_is_named_by_the_environment_where_no_flag_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_CONFIG", str(write(tmp_path, "server: {port: 7}")))
    assert load_config().server.port == 7


def test_constructor_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_SERVER__PORT", "11")
    assert Config().server.port == 8000


def test_rooms_own_knobs_are_set_by_their_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_SESSIONS__LIMITS__IDLE_TIMEOUT_S", "9.5")
    config = load_config(flags={"sessions.turn_detection.silence_ms": 250})
    assert config.sessions.limits == SessionLimits(idle_timeout_s=9.5)
    assert config.sessions.turn_detection is not None
    assert config.sessions.turn_detection.silence_ms == 250


def test_turn_detection_can_be_switched_off(tmp_path: Path) -> None:
    file = write(tmp_path, "sessions: {turn_detection: null}")
    assert load_config(file).sessions.turn_detection is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sever: {port: 1}", r"sever: there is no such setting; did you mean server\?"),
        ("server: {prot: 1}", r"server\.prot: .*did you mean server\.port\?"),
        ("sessions: {limits: {idle: 1}}", r"sessions\.limits\.idle: there is no such setting"),
        ("server: {port: high}", r"server\.port: .*integer"),
        ("server: {port: 70000}", r"server\.port: .*65535"),
        ("server: {port: 5, grpc_port: 5}", "must differ"),
        ("server: [1]", r"server: "),
        ("- 1", "must hold sections"),
        ("server: {", "is not YAML"),
        ("server: {host: 0.0.0.0}", r"server\.host 0\.0\.0\.0 .*no access\.keys: add one"),
        ("server: {host: example.org}", "reachable from outside"),
        ("server: {allowed_origins: ['*']}", r"every web page .*add access\.keys"),
        ("server: {public_url: 'ftp://x'}", "http://"),
        ("twilio: {stream_url: 'https://x'}", "wss://"),
        ("sessions: {limits: {max_session_s: -1}}", r"max_session_s is -1\.0; .*negative"),
        ("sessions: {turn_detection: {threshold: 1.5}}", r"threshold is 1\.5; .*0\.\.1"),
        ("sessions: {limits: {route_ahead_s: 99}}", "generate_ahead_s"),
        ("access: {keys: [{name: a}]}", "either key or sha256"),
        ("access: {keys: [{name: a, key: short}]}", "openssl rand"),
        (f"access: {{keys: [{{name: a, key: {KEY}, tier: gold}}]}}", "tier"),
        ("access: {keys: [{name: a, sha256: xyz}]}", "64 hexadecimal"),
        (f"access: {{keys: [{{name: a, key: {KEY}}}, {{name: b, key: {KEY}}}]}}", "same key"),
    ],
)
def test_wrong_setting_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BadRequest, match=says) as caught:
        load_config(write(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"none\.yaml cannot be read"):
        load_config(tmp_path / "none.yaml")


@pytest.mark.parametrize("name", ["ANTIPHON_SERVER_PORT", "ANTIPHON_SEVER__PORT"])
def test_environment_variable_that_names_no_setting_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(BadRequest, match=f"{name} names no setting; write ANTIPHON_SECTION__KNOB"):
        load_config()


def test_environment_with_an_unknown_knob_or_broken_json_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTIPHON_SERVER__PROT", "1")
    with pytest.raises(BadRequest, match="did you mean"):
        load_config()
    monkeypatch.delenv("ANTIPHON_SERVER__PROT")
    monkeypatch.setenv("ANTIPHON_ACCESS__KEYS", "[{")
    with pytest.raises(BadRequest, match=r'"access".*line 1'):
        load_config()


def test_any_address_may_be_bound_with_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_ACCESS__KEYS", json.dumps([{"name": "me", "key": KEY}]))
    config = load_config(flags={"server.host": "0.0.0.0"})
    assert config.access.keys[0].engine_tier is Tier.FREE


def test_key_and_its_digest_are_the_same_key(tmp_path: Path) -> None:
    plain = load_config(write(tmp_path, f"access: {{keys: [{{name: a, key: {KEY}}}]}}"))
    digest = plain.access.keys[0].digest
    text = f"access: {{keys: [{{name: a, sha256: {digest.upper()}, tier: paid}}]}}"
    hashed = load_config(write(tmp_path, text))
    assert hashed.access.keys[0].digest == digest
    assert hashed.access.keys[0].engine_tier is Tier.PAID


def test_secrets_are_masked_wherever_the_configuration_is_shown(tmp_path: Path) -> None:
    file = write(
        tmp_path, f"access: {{keys: [{{name: a, key: {KEY}}}]}}\ntwilio: {{auth_token: {KEY}}}"
    )
    config = load_config(file)
    shown = as_yaml(config) + repr(config) + repr([knob.value for knob in knobs(config)])
    assert KEY not in shown
    assert "**********" in as_yaml(config)


def test_printed_configuration_reads_back_as_the_same(tmp_path: Path) -> None:
    config = load_config(
        write(tmp_path, "sessions: {turn_detection: null, instructions: 'Héllo: \"you\"'}")
    )
    assert load_config(write(tmp_path, as_yaml(config))) == config


def test_every_knob_has_a_description_and_its_default() -> None:
    undocumented = [knob.path for knob in knobs(Config()) if not knob.description]
    assert undocumented == []
    by_path = {knob.path: knob for knob in knobs(load_config(flags={"server.port": 7}))}
    assert (by_path["server.port"].value, by_path["server.port"].default) == (7, 8000)
    assert "sessions.limits.idle_timeout_s" in by_path
    assert yaml.safe_load(as_yaml(Config()))["models"]["asr"] == "whisper-base"


@pytest.mark.parametrize(
    ("host", "is_safe"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example.org", False),
        ("", False),
    ],
)
def test_only_loopback_addresses_count_as_loopback(host: str, is_safe: bool) -> None:
    assert is_loopback(host) is is_safe
