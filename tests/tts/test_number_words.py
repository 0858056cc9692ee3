"""Numbers, one by one, against how English reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts.english import ENGLISH
from tts.number_words import cardinal, decimal, digits, ordinal, year

TABLE = ENGLISH.numbers


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (40, "forty"),
        (99, "ninety-nine"),
        (100, "one hundred"),
        (342, "three hundred forty-two"),
        (1_000, "one thousand"),
        (20_015, "twenty thousand fifteen"),
        (1_000_001, "one million one"),
        (2_300_000_000, "two billion three hundred million"),
        (-7, "minus seven"),
        (10**15, "one" + " zero" * 15),
    ],
)
def test_cardinals_are_read_in_words(number: int, words: str) -> None:
    assert cardinal(number, TABLE) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, "first"),
        (2, "second"),
        (3, "third"),
        (12, "twelfth"),
        (20, "twentieth"),
        (21, "twenty-first"),
        (100, "one hundredth"),
        (113, "one hundred thirteenth"),
        (1_000, "one thousandth"),
    ],
)
def test_ordinals_bend_their_last_word(number: int, words: str) -> None:
    assert ordinal(number, TABLE) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1905, "nineteen oh five"),
        (1900, "nineteen hundred"),
        (1984, "nineteen eighty-four"),
        (2000, "two thousand"),
        (2007, "two thousand seven"),
        (2024, "twenty twenty-four"),
    ],
)
def test_years_are_read_in_halves_but_around_a_millennium(number: int, words: str) -> None:
    assert year(number, TABLE) == words


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("3.14", "three point one four"),
        ("37,0", "thirty-seven point zero"),
        ("1,234", "one thousand two hundred thirty-four"),
        ("1,234.5", "one thousand two hundred thirty-four point five"),
        (".5", "point five"),
        ("007", "zero zero seven"),
        ("1.2.10", "one point two point ten"),
    ],
)
def test_marks_inside_a_number_group_it_or_divide_it(written: str, words: str) -> None:
    assert decimal(written, TABLE) == words


def test_digits_are_read_one_by_one() -> None:
    assert digits("4-07", TABLE) == "four zero seven"


@given(st.integers(min_value=0, max_value=10**15 - 1))
def test_any_cardinal_reads_back_as_the_same_number(number: int) -> None:
    assert _read(cardinal(number, TABLE)) == number


def _read(words: str) -> int:
    small = {word: value for value, word in enumerate(TABLE.below_hundred)}
    scales = {word: 1000 ** (power + 1) for power, word in enumerate(TABLE.scales)}
    total = part = 0
    for word in words.split():
        if word in scales:
            total, part = total + part * scales[word], 0
        elif word == TABLE.hundred:
            part *= 100
        else:
            part += small[word]
    return total + part
