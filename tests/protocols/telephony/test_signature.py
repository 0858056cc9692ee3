import pytest

from protocols.telephony.signature import url_forms, valid_signature

# Twilio's scheme, computed independently: base64(HMAC-SHA1("12345", url)).
URL, SIGNATURE = "wss://example.com/twilio", "4qZsm0/0bGQYw36gQ+0YyAX07W0="


@pytest.mark.parametrize(
    "url",
    [URL, "https://example.com/twilio", "ws://example.com/twilio", "wss://example.com:443/twilio"],
)
def test_signature_is_valid_however_a_proxy_shows_the_url(url: str) -> None:
    assert valid_signature("12345", url, SIGNATURE)


@pytest.mark.parametrize(
    ("token", "url", "signature"),
    [
        ("12346", URL, SIGNATURE),
        ("12345", "wss://example.com/twilio/", SIGNATURE),
        ("12345", "wss://example.com:8443/twilio", SIGNATURE),
        ("12345", "wss://evil.example/twilio", SIGNATURE),
        ("12345", URL, ""),
        ("12345", URL, SIGNATURE.lower()),
        ("12345", URL, "ü\ud800"),
    ],
)
def test_anything_else_is_not_valid(token: str, url: str, signature: str) -> None:
    assert not valid_signature(token, url, signature)


def test_port_and_slash_are_tried_where_twilio_may_differ() -> None:
    assert url_forms("https://example.com") == [
        "wss://example.com",
        "wss://example.com/",
        "wss://example.com:443",
        "wss://example.com:443/",
    ]
    assert url_forms("wss://[fd00::1]:8000/a?b=c") == ["wss://[fd00::1]:8000/a?b=c"]
