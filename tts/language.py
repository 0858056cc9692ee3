"""What a language is to the voice: one table of words, and no code.

A new language is a new `Language` value beside `tts/english.py`. The rules that read the
table live in `tts/number_words.py`, `tts/abbreviations.py`, `tts/clean.py` and
`tts/boundaries.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class AfterPeriod(StrEnum):
    """Says what the period of an abbreviation may mean besides itself."""

    NEVER_ENDS = "never_ends"  # "Dr. Smith": a name always follows
    MAY_END = "may_end"  # "etc.", "U.S.": ends a sentence if a usual opener follows
    BEFORE_DIGIT = "before_digit"  # "No. 5": an abbreviation only if a digit follows


@dataclass(frozen=True, slots=True)
class Abbreviation:
    """Is one abbreviation: how it is spoken, and whether a sentence may end with it."""

    spoken: str
    after: AfterPeriod = AfterPeriod.NEVER_ENDS


@dataclass(frozen=True, slots=True)
class NumberTable:
    """Holds the words that numbers are made of.

    Attributes:
        below_hundred: exactly 100 cardinals, so that no language's irregularities need code.
        hundred: the word after 1..9.
        scales: names of 10**3, 10**6, 10**9, ...
        minus, point, percent, range_joiner, over, joiner: words between numbers; `joiner`
            is the "and" of money and of fractions.
        zero_in_year: the "oh" of 1905 and of 3:05.
        ordinals: irregular ordinals by their cardinal word, for the last word of a number.
        ordinal_endings: (ending of the last word, its replacement), first match wins.
        ordinal_suffixes: what is written after the digits of an ordinal ("st", "nd").
        fractions: "1/2" and its like, spelled out.
    """

    below_hundred: tuple[str, ...]
    hundred: str
    scales: tuple[str, ...]
    minus: str
    point: str
    percent: str
    range_joiner: str
    over: str
    zero_in_year: str
    joiner: str
    ordinals: Mapping[str, str]
    ordinal_endings: tuple[tuple[str, str], ...]
    ordinal_suffixes: tuple[str, ...]
    fractions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Plural:
    """Is a noun counted by numbers."""

    one: str
    many: str

    def for_amount(self, amount: str) -> str:
        """Returns the form that follows an amount written in digits."""
        return self.one if amount == "1" else self.many


@dataclass(frozen=True, slots=True)
class Currency:
    """Is a currency's whole unit and, where it has one, its hundredth."""

    whole: Plural
    hundredth: Plural | None = None


@dataclass(frozen=True, slots=True)
class Language:
    """Is all that the voice knows of one language.

    Attributes:
        code: ISO 639-1.
        numbers: the words of numbers.
        abbreviations: by their written form, period included, in lower case.
        units: written after a number, case kept ("km", "GB").
        currencies: by sign.
        months: twelve names.
        oclock, hundred_hours: the full hour on a 12-hour and on a 24-hour clock.
        symbols: words for single symbols that are spoken anywhere ("&").
        operators: words for symbols that are spoken between spaces only ("2 + 2").
        number_sign: the "#" of "#5".
        dot, at: the "." and "@" of addresses.
        conjunctions: words before which a clause may begin.
        openers: words that usually open a sentence, capitalised.
    """

    code: str
    numbers: NumberTable
    abbreviations: Mapping[str, Abbreviation]
    units: Mapping[str, Plural]
    currencies: Mapping[str, Currency]
    months: tuple[str, ...]
    oclock: str
    hundred_hours: str
    symbols: Mapping[str, str]
    operators: Mapping[str, str]
    number_sign: str
    dot: str
    at: str
    conjunctions: frozenset[str]
    openers: frozenset[str]
