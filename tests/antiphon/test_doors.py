import hashlib

import pytest

from antiphon.config import Config, load_config
from antiphon.doors import access_of, protocol_settings
from engines.base import Tier
from protocols.auth import Principal, origin_allowed
from streams.config import TurnDetection
from streams.errors import Unauthorized

KEY = "0123456789abcdef0123"
DIGESTED = "abcdefghijklmnopqrst"


def test_server_without_keys_is_open_to_guests() -> None:
    keys = access_of(Config()).keys
    assert keys.is_open
    assert keys.identify(None).tier is Tier.FREE


def test_key_and_digest_alike_give_their_owner_and_tier() -> None:
    digest = hashlib.sha256(DIGESTED.encode()).hexdigest().upper()
    listed = [
        {"name": "anna", "key": KEY, "tier": "paid"},
        {"name": "otto", "sha256": digest, "tier": "batch"},
    ]
    keys = access_of(load_config(flags={"access.keys": listed})).keys
    assert not keys.is_open
    assert keys.identify(KEY) == Principal("anna", Tier.PAID)
    assert keys.identify(DIGESTED) == Principal("otto", Tier.BATCH)
    for wrong in (None, "", KEY[:-1], digest):
        with pytest.raises(Unauthorized):
            keys.identify(wrong)


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        ("http://127.0.0.1:8123", True),
        ("http://localhost:8123", True),
        ("https://voice.example.com", True),
        ("https://app.example.com", True),
        ("http://127.0.0.1:9999", False),
        ("https://evil.example", False),
        ("https://voice.example.com.evil.example", False),
        ("http://voice.example.com", False),
        ("null", False),
    ],
)
def test_pages_of_our_own_the_public_and_the_listed_origins_may_come_in(
    origin: str | None, allowed: bool
) -> None:
    config = load_config(
        flags={
            "server.port": 8123,
            "server.public_url": "https://voice.example.com/antiphon",
            "server.allowed_origins": ["https://app.example.com"],
        }
    )
    assert origin_allowed(origin, access_of(config).origins) is allowed


@pytest.mark.parametrize(
    ("public_url", "stream_url", "expected"),
    [
        (None, None, None),
        ("https://voice.example.com", None, "wss://voice.example.com/twilio"),
        ("https://voice.example.com:8443/a/", None, "wss://voice.example.com:8443/a/twilio"),
        ("https://voice.example.com", "wss://calls.example.com/x", "wss://calls.example.com/x"),
    ],
)
def test_twilios_address_is_the_configured_one_or_derived_from_the_public_one(
    public_url: str | None, stream_url: str | None, expected: str | None
) -> None:
    flags = {"server.public_url": public_url, "twilio.stream_url": stream_url}
    twilio = protocol_settings(load_config(flags=flags)).twilio
    assert twilio is not None
    assert twilio.public_url == expected


def test_twilios_secrets_are_handed_on_in_the_clear() -> None:
    flags = {"twilio.auth_token": "account", "twilio.parameter_token": "parameter"}
    twilio = protocol_settings(load_config(flags=flags)).twilio
    assert twilio is not None
    assert (twilio.auth_token, twilio.stream_token) == ("account", "parameter")


def test_every_door_begins_with_the_operators_session() -> None:
    flags = {
        "sessions.instructions": "Be brief.",
        "sessions.turn_detection.silence_ms": 250,
        "sessions.limits.max_session_s": 77.0,
    }
    settings = protocol_settings(load_config(flags=flags), ["en", "de"])
    assert settings.twilio is not None
    for base in (settings.realtime.base, settings.twilio.base):
        assert base.instructions == "Be brief."
        assert base.turn_detection == TurnDetection(silence_ms=250)
    assert settings.realtime.max_session_s == 77.0
    assert settings.realtime.languages == {"en", "de"}
    assert settings.realtime.transcription_model == "whisper-base"
