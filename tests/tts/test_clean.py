"""The spoken form of what language models write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts.clean import SpeechCleaner
from tts.english import ENGLISH


@pytest.fixture(scope="module")
def cleaner() -> SpeechCleaner:
    return SpeechCleaner(ENGLISH)


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("**Hello** world! \U0001f600\U0001f44d\U0001f3fd", "Hello world!"),
        ("\U0001f1eb\U0001f1f7 France \u2764\ufe0f", "France"),
        ("I like it :) <3", "I like it"),
        ("Use `print()` now.", "Use print, now."),
        ("- item *one*\n- item two", "item one, item two"),
        (
            "He said \u201cyes\u201d \u2014 John\u2019s \u2018toy\u2019\u2026",
            "He said yes, John's toy...",
        ),
        ("Paris (the capital) is big (really).", "Paris, the capital, is big, really."),
        ("a < b and 2+2=4", "a less than b and two plus two equals four"),
        ("10 - 3", "ten minus three"),
        ("well - maybe -- or not", "well, maybe, or not"),
        ("AT&T and and/or", "AT and T and and or"),
        ("Wait...what?! No!!!", "Wait... what? No!"),
        ("ok.Then", "ok. Then"),
        ("done \u2705 \u2192 next", "done next"),
        (
            "It is 37,0 \u00b0C, i.e. normal.",
            "It is thirty-seven point zero degrees Celsius, that is normal.",
        ),
        ("caf\u00e9", "caf\u00e9"),
        ("\u3053\u3093\u306b\u3061\u306f\u3002", "\u3053\u3093\u306b\u3061\u306f\u3002"),
        ("Sure thing,", "Sure thing,"),
        ("don't", "don't"),
    ],
)
def test_text_becomes_what_a_person_would_say(
    cleaner: SpeechCleaner, text: str, spoken: str
) -> None:
    assert cleaner.spoken(text) == spoken


@pytest.mark.parametrize(
    "text", ["", "  \n", "...", "\U0001f600", "---", "```\nx = 1\n```", "(?!)"]
)
def test_text_without_words_has_nothing_to_say(cleaner: SpeechCleaner, text: str) -> None:
    assert cleaner.spoken(text) == ""


@given(st.text(max_size=60))
def test_nothing_unpronounceable_is_left_of_any_text(cleaner: SpeechCleaner, text: str) -> None:
    spoken = cleaner.spoken(text)
    assert not set(spoken) & set('*#`_|~<>[]{}()\\/@&^=+"\n\u200d\ufe0f')
    assert spoken == "" or any(character.isalnum() for character in spoken)


@given(st.from_regex(r"([A-Z][a-z]{1,8} [a-z]{2,8}[.!?] ){1,4}", fullmatch=True))
def test_plain_sentences_are_spoken_as_they_are(cleaner: SpeechCleaner, text: str) -> None:
    written = [word.lower() for word in text.split()]
    if not any(word in ENGLISH.abbreviations for word in written):
        assert cleaner.spoken(text).split() == text.split()
