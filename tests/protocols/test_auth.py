import pytest

from protocols.auth import (
    Credentials,
    KeyRing,
    Principal,
    allowed_origins,
    credentials,
    origin_allowed,
)
from streams.config import Tier
from streams.errors import Unauthorized

ANNA, BERT = Principal("anna", Tier.PAID), Principal("bert", Tier.BATCH)
RING = KeyRing({"ka": ANNA, "kb": BERT})


def test_each_key_belongs_to_its_owner() -> None:
    assert RING.identify("ka") == ANNA
    assert RING.identify("kb") == BERT


@pytest.mark.parametrize("key", [None, "", "k", "ka ", "KA", "kä\ud800"])
def test_missing_or_unknown_key_is_refused(key: str | None) -> None:
    with pytest.raises(Unauthorized):
        RING.identify(key)


def test_without_keys_everybody_is_the_guest() -> None:
    ring = KeyRing({}, guest=BERT)
    assert ring.is_open
    assert ring.identify(None) == ring.identify("whatever") == BERT


def test_keys_are_kept_as_digests_only() -> None:
    ring = KeyRing({"a-long-secret": ANNA})
    assert "a-long-secret" not in repr(vars(ring))


@pytest.mark.parametrize(
    ("header", "offered", "expected"),
    [
        ("Bearer ka", [], Credentials("ka", None)),
        ("bearer   ka ", ["realtime"], Credentials("ka", "realtime")),
        ("Basic ka", [], Credentials(None, None)),
        (None, ["realtime", "openai-insecure-api-key.kb"], Credentials("kb", "realtime")),
        (
            None,
            ["realtime", "openai-insecure-api-key.ek_1", "openai-agents-sdk.0.20.0"],
            Credentials("ek_1", "realtime"),
        ),
        (None, ["realtime", "realtime-token.s"], Credentials("s", "realtime")),
        (None, ["openai-insecure-api-key.kb"], Credentials("kb", None)),
        (None, ["realtime", "openai-insecure-api-key."], Credentials(None, "realtime")),
        ("Bearer ka", ["realtime", "openai-insecure-api-key.kb"], Credentials("ka", "realtime")),
    ],
)
def test_key_and_answer_are_read_from_header_or_subprotocols(
    header: str | None, offered: list[str], expected: Credentials
) -> None:
    assert credentials(header, offered) == expected


ORIGINS = allowed_origins("127.0.0.1", 8000, ["https://Voice.Example.com/"])


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        ("http://127.0.0.1:8000", True),
        ("http://localhost:8000", True),
        ("HTTP://LOCALHOST:8000", True),
        ("http://[::1]:8000", True),
        ("https://voice.example.com", True),
        ("https://voice.example.com:443", True),
        ("null", False),
        ("", False),
        ("http://localhost:8001", False),
        ("http://localhost", False),
        ("https://localhost:8000", False),
        ("http://rebound.example:8000", False),
        ("http://localhost:8000.evil.example", False),
        ("https://voice.example.com.evil.example", False),
        ("http://[::1:8000", False),
    ],
)
def test_only_own_and_configured_pages_may_call(origin: str | None, allowed: bool) -> None:
    assert origin_allowed(origin, ORIGINS) is allowed


def test_wildcard_must_be_configured_to_allow_all() -> None:
    assert origin_allowed("https://any.example", allowed_origins("::1", 8000, ["*"]))


def test_own_origins_follow_the_bound_address() -> None:
    lan = allowed_origins("192.168.1.5", 8000)
    assert origin_allowed("http://192.168.1.5:8000", lan)
    assert not any("0.0.0.0" in origin for origin in allowed_origins("0.0.0.0", 8000))
    assert origin_allowed("http://[fd00::1]:8000", allowed_origins("fd00::1", 8000))


def test_port_80_is_left_out_as_browsers_do() -> None:
    assert origin_allowed("http://localhost", allowed_origins("127.0.0.1", 80))
