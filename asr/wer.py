"""Counts wrong words, after Whisper's normalisation of English spelling and numbers."""

from collections.abc import Sequence
from typing import Any, cast


def normalized_words(text: str) -> list[str]:
    """Returns the words in lower case without marks; numbers as digits ("35%").

    The rules are those of the Whisper paper, appendix C, as `transformers` ships them,
    without its table of British spellings.
    """
    from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

    normalizer = cast(Any, EnglishTextNormalizer)({})
    return str(normalizer(text)).split()


def edit_distance(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """Returns the least number of insertions, deletions and substitutions."""
    row = list(range(len(hypothesis) + 1))
    for index, word in enumerate(reference, start=1):
        above, row = row, [index]
        for column, other in enumerate(hypothesis, start=1):
            change = above[column - 1] + (word != other)
            row.append(min(change, above[column] + 1, row[-1] + 1))
    return row[-1]


def word_errors(reference: str, hypothesis: str) -> tuple[int, int]:
    """Returns the number of wrong words and of words in the reference."""
    words = normalized_words(reference)
    return edit_distance(words, normalized_words(hypothesis)), len(words)


def word_error_rate(reference: str, hypothesis: str) -> float:
    """Returns wrong words per word of the reference; 0 is perfect, above 1 is possible."""
    errors, words = word_errors(reference, hypothesis)
    if not words:
        return 0.0 if not errors else float("inf")
    return errors / words
