"""Abbreviations, and the period that may end the sentence as well."""

import pytest

from tts.abbreviations import expand_abbreviations
from tts.english import ENGLISH
from tts.language import AfterPeriod


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Dr. Smith vs. Mr. Jones", "Doctor Smith versus Mister Jones"),
        ("fruit, e.g. apples", "fruit, for example apples"),
        ("No. 5", "number 5"),
        ("I said No. Then I left.", "I said No. Then I left."),
        ("the U.S. Army", "the U S Army"),
        ("in the U.S. He left", "in the U S. He left"),
        ("and so on, etc.", "and so on, et cetera."),
        ("at 5 p.m. He left", "at 5 P M. He left"),
        ("at 5 p.m. sharp", "at 5 P M sharp"),
        ("St. Paul lives on Main St. now", "Saint Paul lives on Main Street now"),
        ("J. K. Rowling", "J K Rowling"),
        ("vitamin C. it helps", "vitamin C. it helps"),
        ("born Jan. 5", "born January 5"),
        ("Stop. Go.", "Stop. Go."),
        ("example.com", "example.com"),
    ],
)
def test_abbreviations_become_words_and_other_periods_stay(text: str, spoken: str) -> None:
    assert expand_abbreviations(text, ENGLISH) == spoken


def test_every_abbreviation_of_the_table_is_found_in_text() -> None:
    for written, entry in ENGLISH.abbreviations.items():
        after = " 5" if entry.after is AfterPeriod.BEFORE_DIGIT else " Xavier"
        assert (
            expand_abbreviations(f"the {written}{after}", ENGLISH) == f"the {entry.spoken}{after}"
        )
