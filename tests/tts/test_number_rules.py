"""Numbers in running text, each read by its kind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts.english import ENGLISH
from tts.number_rules import NumberSpeller


@pytest.fixture(scope="module")
def speller() -> NumberSpeller:
    return NumberSpeller(ENGLISH)


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("It is 98.6 degrees.", "It is ninety-eight point six degrees."),
        ("It costs $3.50.", "It costs three dollars and fifty cents."),
        ("just $0.99", "just ninety-nine cents"),
        ("$1 and £2", "one dollar and two pounds"),
        ("-$5", "minus five dollars"),
        ("5 €", "five euros"),
        ("$1.5 million", "one point five million dollars"),
        ("50% of 3.5 %", "fifty percent of three point five percent"),
        ("at 3:30 pm", "at three thirty P M"),
        ("at 9am", "at nine A M"),
        ("at 3:00", "at three o'clock"),
        ("at 15:05", "at fifteen oh five"),
        ("at 21:00", "at twenty-one hundred"),
        ("12:30:45", "twelve thirty forty-five"),
        ("odds of 10:75", "odds of ten seventy-five"),
        ("call 555-1234", "call five five five, one two three four"),
        ("+1 555 123", "plus one, five five five, one two three"),
        (
            "(020) 7946 0958",
            "zero two zero, seven nine four six, zero nine five eight",
        ),
        ("the 1st and the 22nd", "the first and the twenty-second"),
        ("the 1990s", "the nineteen nineties"),
        ("the 1900s", "the nineteen hundreds"),
        ("in 1984.", "in nineteen eighty-four."),
        ("2024-05-01", "May first, twenty twenty-four"),
        ("item #5", "item number five"),
        ("40-60", "forty to sixty"),
        ("40\u201360\u00b0C", "forty to sixty degrees Celsius"),
        ("-5 \u00b0C", "minus five degrees Celsius"),
        ("1 km", "one kilometer"),
        ("100 km/h", "one hundred kilometers an hour"),
        ("2048 MB", "two thousand forty-eight megabytes"),
        ("1/2 cup", "one half cup"),
        ("2\u00bd cups", "two and one half cups"),
        ("5/8", "five over eight"),
        ("10\u202f000", "ten thousand"),
        ("H2O", "H two O"),
        ("a1b2c", "a one b two c"),
        ("no numbers", "no numbers"),
    ],
)
def test_a_number_is_read_by_its_kind(speller: NumberSpeller, text: str, spoken: str) -> None:
    assert speller.spell(text) == spoken


@given(st.text(alphabet="0123456789.,:-/%$ +()#ap\u00bd\u00b0", max_size=40))
def test_no_digit_survives_in_any_mess_of_numbers(speller: NumberSpeller, text: str) -> None:
    assert not any(character.isdecimal() for character in speller.spell(text))
