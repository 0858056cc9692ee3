"""Finds the part of a growing transcript that can be shown and never taken back.

Local agreement (Liu et al. 2020, "Low-latency sequence-to-sequence speech recognition and
translation by partial hypothesis selection"): a word is stable once two successive
hypotheses agree on it and on all words before it. Words are compared without case and
punctuation. The mark after the last stable word is held back until the next word is
stable, because it is what changes most often ("so." becomes "so, my fellow").
"""

import re
from dataclasses import dataclass

# Scripts written without spaces: Thai, Lao, Burmese, Khmer, kana, Han (BMP).
_DENSE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_UNIT = re.compile(rf"\s*(?:[{_DENSE}]|[^\s{_DENSE}]+)")
_SILENT = re.compile(r"[^\w]|_")
_TRAIL = re.compile(r"[^\w]*$")


@dataclass(frozen=True, slots=True)
class _Word:
    """Is a word with the space before it and the marks after it; `key` is for comparing."""

    text: str
    trail: str
    key: str


def _words(text: str) -> list[_Word]:
    words: list[_Word] = []
    lead = ""
    for unit in _UNIT.findall(text.strip()):
        key = _SILENT.sub("", unit).casefold()
        if key:
            trail = _TRAIL.search(unit)
            cut = trail.start() if trail else len(unit)
            words.append(_Word(lead + unit[:cut], unit[cut:], key))
            lead = ""
        elif words:  # a lone mark belongs to the word before it
            last = words[-1]
            words[-1] = _Word(last.text, last.trail + unit, last.key)
        else:
            lead += unit
    return words


def _agreed(first: list[str], second: list[str]) -> int:
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


def _end_of(committed: list[str], keys: list[str]) -> int:
    """Returns how many of `keys` correspond to the words already given out.

    It is the prefix with the smallest edit distance to them; a tie goes to the longest,
    which repeats nothing.
    """
    if keys[: len(committed)] == committed:
        return len(committed)
    row = list(range(len(keys) + 1))
    for index, word in enumerate(committed, start=1):
        above, row = row, [index]
        for column, key in enumerate(keys, start=1):
            change = above[column - 1] + (word != key)
            row.append(min(change, above[column] + 1, row[-1] + 1))
    return min(range(len(keys) + 1), key=lambda end: (row[end], -end))


def _text(words: list[_Word], begin: int, end: int) -> str:
    """Joins words [begin, end): the marks before the first, none after the last."""
    if begin >= end:
        return ""
    parts = [words[begin - 1].trail] if begin else []
    for word in words[begin : end - 1]:
        parts += (word.text, word.trail)
    parts.append(words[end - 1].text)
    return "".join(parts)


class LocalAgreement:
    """Follows the hypotheses of one utterance."""

    def __init__(self) -> None:
        self._committed: list[str] = []
        self._emitted = ""
        self._previous: list[str] = []

    @property
    def emitted(self) -> str:
        """Is all text given out so far."""
        return self._emitted

    def push(self, text: str) -> str:
        """Takes the next hypothesis for the whole utterance; returns newly stable text."""
        words = _words(text)
        keys = [word.key for word in words]
        begin = _end_of(self._committed, keys)
        before = self._previous[_end_of(self._committed, self._previous) :]
        end = begin + _agreed(before, keys[begin:])
        self._previous = keys
        delta = _text(words, begin, end)
        self._committed += keys[begin:end]
        self._emitted += delta
        return delta

    def finish(self, final_text: str) -> str:
        """Takes the final transcript; returns the rest of it that can be appended.

        The deltas joined are the final text wherever the hypotheses agreed with it; where
        they did not, the final text is what counts.
        """
        final = final_text.strip()
        if final.startswith(self._emitted):
            rest = final[len(self._emitted) :]
        else:
            words = _words(final)
            begin = _end_of(self._committed, [word.key for word in words])
            rest = _text(words, begin, len(words)) + (words[-1].trail if words else "")
        self._emitted += rest
        return rest
