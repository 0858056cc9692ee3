"""Says what kind of seam lies at a position of a text, looking ahead as little as it must.

Atoms hold no seam: "98.6", "37,0", "example.com" have no space after the mark, and
"Dr. Smith", "U.S. Army", "No. 5", "J. S. Bach" are known from the language's table.
"""

import re
from enum import IntEnum

from tts.abbreviations import INITIALS
from tts.language import AfterPeriod, Language

_CLOSERS = "\"'\u2019\u201d\u00bb)]}*_~\u300d\u300f\uff09"
_OPENERS = "\"'\u2018\u201c\u00ab([{*_~"
_ENDS = ".!?\u2026\u0964\u061f"
_PAUSES = ",;:\u060c\u061b\u2014\u2013"
_WIDE_ENDS = "\u3002\uff01\uff1f\uff61"
_WIDE_PAUSES = "\uff0c\u3001\uff1b\uff1a"
_MAY_FOLLOW = frozenset(_CLOSERS + _WIDE_ENDS + _WIDE_PAUSES)
_LIST_NUMBER = re.compile(r"\(?\d{1,3}[.)]")
_WORD = re.compile(r"\w+(?:['\u2019]\w+)*")

LOOK_AHEAD = 24
"""Characters of a following word that may be awaited before it counts as complete."""


class Seam(IntEnum):
    """Orders kinds of seams by how well a voice can stop there."""

    UNKNOWN = -1  # more text is needed to tell
    NONE = 0  # inside a word or an atom
    SPACE = 1  # between two words
    CONJUNCTION = 2  # before "and", "because", ...
    CLAUSE = 3  # after a comma, semicolon, colon or dash
    SENTENCE = 4
    LINE = 5


def seam_at(text: str, index: int, language: Language, *, final: bool = False) -> Seam:
    """Classifies the seam between `text[:index]` and `text[index:]`.

    Args:
        text: from the start of the current chunk.
        index: 1..len(text) - 1.
        language: whose abbreviations, openers and conjunctions are known.
        final: no more text follows, so the answer is never `UNKNOWN`.
    """
    if not text[index].isspace():
        return _seam_without_space(text, index)
    if text[index] == "\n":
        return Seam.LINE
    if text[index - 1].isspace():
        return Seam.NONE  # the seam was before the first of these spaces
    following = text[index:].lstrip(" \t\r\u00a0\u3000")
    if not following:
        return Seam.NONE if final else Seam.UNKNOWN
    if following[0] == "\n":
        return Seam.LINE
    if _is_inside_markup(text[:index]):
        return Seam.NONE
    token = re.split(r"\s", text[:index])[-1]
    return _seam_after(token, text[: index - len(token)], following, language, final)


def _seam_without_space(text: str, index: int) -> Seam:
    """Finds seams of scripts that put no space between sentences."""
    if text[index - 1] not in _MAY_FOLLOW or text[index] in _MAY_FOLLOW:
        return Seam.NONE
    before = text[:index].rstrip(_CLOSERS)
    if not before:
        return Seam.NONE
    if before[-1] in _WIDE_ENDS:
        return Seam.SENTENCE
    return Seam.CLAUSE if before[-1] in _WIDE_PAUSES else Seam.NONE


def _seam_after(token: str, before: str, following: str, language: Language, final: bool) -> Seam:
    """Classifies the space after `token`; `following` starts with the next word."""
    core = token.rstrip(_CLOSERS)
    at_line_start = not before.strip() or before.rstrip(" \t").endswith("\n")
    if at_line_start and _LIST_NUMBER.fullmatch(token):
        return Seam.NONE
    if core and core[-1] in _ENDS + _WIDE_ENDS:
        if core[-1] == ".":
            held = _after_period(core.lstrip(_OPENERS), following, language, final)
            if held is not Seam.SENTENCE:
                return held
        first = following.lstrip(_OPENERS)[:1]
        if not first and not final:
            return Seam.UNKNOWN
        return Seam.CLAUSE if first.islower() else Seam.SENTENCE
    if core and core[-1] in _PAUSES + _WIDE_PAUSES:
        return Seam.SPACE if core[-1] == "," and following[0].isdigit() else Seam.CLAUSE
    if token in ("-", "--", "---"):
        return Seam.CLAUSE if before.strip() else Seam.NONE  # a dash, or the mark of an item
    word, complete = _next_word(following, final)
    if not complete:
        return Seam.UNKNOWN
    return Seam.CONJUNCTION if word in language.conjunctions else Seam.SPACE


def _after_period(word: str, following: str, language: Language, final: bool) -> Seam:
    """Says whether the period of `word` ends a sentence or belongs to an abbreviation."""
    known = language.abbreviations.get(word.lower())
    if known is None and not INITIALS.fullmatch(word):
        return Seam.SENTENCE
    after = known.after if known is not None else AfterPeriod.MAY_END
    if after is AfterPeriod.BEFORE_DIGIT:
        return Seam.NONE if following[0].isdigit() else Seam.SENTENCE
    if after is AfterPeriod.NEVER_ENDS:
        return Seam.NONE
    following_word, complete = _next_word(following, final)
    if not complete:
        return Seam.UNKNOWN
    return Seam.SENTENCE if following_word in language.openers else Seam.NONE


def _next_word(following: str, final: bool) -> tuple[str, bool]:
    """Returns the word at the start, and whether it is known to be complete."""
    start = len(following) - len(following.lstrip(_OPENERS))
    match = _WORD.match(following, start)
    end = match.end() if match else start
    rest = following[end : end + 2]  # an apostrophe may go on: "It", "It's"
    complete = final or len(rest) == 2 or (rest != "" and rest not in "'\u2019")
    return (match.group() if match else ""), complete or end - start > LOOK_AHEAD


def _is_inside_markup(before: str) -> bool:
    """Says whether a link or a piece of inline code is still open."""
    line = before[before.rfind("\n") + 1 :]
    if line.count("`") % 2:
        return True
    opened = line.rfind("[")
    if opened > line.rfind("]"):
        return True
    target = line.rfind("](")
    return target >= 0 and ")" not in line[target:]
