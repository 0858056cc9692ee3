"""Turns written text into what a voice should say; what is displayed stays as it was.

Marks, emoji and the tails of web addresses go; numbers, abbreviations and symbols become
words; punctuation that shapes the voice stays.
"""

import re
import unicodedata

from tts.abbreviations import expand_abbreviations
from tts.addresses import spell_addresses
from tts.language import Language
from tts.markdown import strip_markdown
from tts.number_rules import NumberSpeller

_EMOTICON = re.compile(r"(?<!\S)(?:[:;=8][-'^]?[()DPpOo/\\|*3]|<3|[xX]D)(?![\w])")
_KEPT_PUNCTUATION = frozenset(".,!?;:'-")
_DROPPED_MARKS = frozenset("\u00a7\u00b6\u2020\u2021\u2022\u00b7\u2030\u2032\u2033")
_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u02bc": "'", "\u2026": "..."})

_TIDY: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<!\w)'+|'+(?!\w)", ""),  # quotation marks, as against apostrophes
        (r"(?<=\s)-+(?=\s)|-{2,}", ","),
        (r"(?<!\w)-+|-+(?!\w)", " "),
        (r"(?<=[^\s.,!?;:])\s*\n\s*", ", "),  # the end of a line, a heading, an item
        (r"\s+", " "),
        (r" (?=[.,!?;:])", ""),
        (r"[,;:](?:\s*[,;:])+", ","),
        (r"([.!?])(?:\s*[,;:])+", r"\1"),
        (r"[,;:]+\s*(?=[.!?])", ""),
        (r"([!?])[!?.]+", r"\1"),
        (r"\.{2,}(?=\w)", "... "),
        (r"\.{2,}", "..."),
        (r"^[\s.,!?;:-]+", ""),
    )
)


class SpeechCleaner:
    """Makes the spoken form of a text.

    Args:
        language: whose words stand for numbers and symbols.
    """

    def __init__(self, language: Language) -> None:
        self._language = language
        self._numbers = NumberSpeller(language)

    def spoken(self, text: str) -> str:
        """Returns what to say; empty if there is nothing that can be said."""
        text = strip_markdown(unicodedata.normalize("NFC", text))
        text = _EMOTICON.sub(" ", text).translate(_QUOTES)
        text = re.sub(r"(?<=[a-z]{2}[.!?])(?=[A-Z][a-z])", " ", text)  # a forgotten space
        text = spell_addresses(text, self._language)
        text = expand_abbreviations(text, self._language)
        text = _spell_operators(text, self._language)
        text = self._numbers.spell(text)
        for symbol, word in self._language.symbols.items():
            text = text.replace(symbol, f" {word} ")
        text = _tidy("".join(map(_pronounceable, _brackets_as_pauses(text))))
        return text if any(character.isalnum() for character in text) else ""


def _spell_operators(text: str, language: Language) -> str:
    """Speaks "a = b" and "2+2", but not the dash of a sentence or the plus of a brand."""

    def word(match: re.Match[str]) -> str:
        return f" {language.operators[match[1]]} "

    text = re.sub(r"(?<=\w)\s+([+=<>])\s+(?=\w)", word, text)
    text = re.sub(r"(?<=\d)\s?([+=<>])\s?(?=\d)", word, text)
    return re.sub(r"(?<=\d)\s([-\u2212/])\s(?=\d)", word, text)


def _brackets_as_pauses(text: str) -> str:
    """Speaks an aside between pauses, and dashes as pauses."""
    text = re.sub(r"(?<=\w)\((s|es)\)", r"\1", text)
    text = re.sub(r"\s*[(\[{]\s*", ", ", text)
    text = re.sub(r"\s*[)\]}](?=\s*\w)", ",", text)
    return re.sub(r"\s*[\u2014\u2015]\s*|\s+\u2013\s+", ", ", text).replace("\u2013", "-")


def _pronounceable(character: str) -> str:
    """Keeps letters, marks, digits, spaces and punctuation that shapes the voice."""
    if character in _KEPT_PUNCTUATION or character == "\n":
        return character
    category = unicodedata.category(character)
    if "\ufe00" <= character <= "\ufe0f" or category in ("Cf", "Me"):
        return ""  # variation selectors, joiners, keycaps
    if category[0] in "LM" or category in ("Nd", "Nl"):
        return character
    if category == "Po" and character > "\u00a0" and character not in _DROPPED_MARKS:
        return character  # the full stops and commas of other scripts
    return " "


def _tidy(text: str) -> str:
    for pattern, replacement in _TIDY:
        text = pattern.sub(replacement, text)
    return text.strip()
