"""Web and mail addresses are read by their host."""

import pytest

from tts.addresses import spell_addresses
from tts.english import ENGLISH


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("See https://www.example.com/a/b?c=1.", "See example dot com."),
        ("(http://example.org)", "(example dot org)"),
        ("www.example.com, then", "example dot com, then"),
        ("example.com is up", "example dot com is up"),
        ("docs.example.co.uk/start now", "docs dot example dot co dot uk now"),
        ("write to ann.lee@example.com.", "write to ann dot lee at example dot com."),
        ("run main.py", "run main dot py"),
        ("ask @ann", "ask at ann"),
        ("i.e. this", "i.e. this"),
        ("an end.Next one", "an end.Next one"),
        ("98.6", "98.6"),
    ],
)
def test_an_address_is_read_as_its_host_and_other_dots_stay(text: str, spoken: str) -> None:
    assert spell_addresses(text, ENGLISH) == spoken
