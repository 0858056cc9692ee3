"""Spells out abbreviations: "Dr. Smith vs. the U.S." becomes "Doctor Smith versus the U S"."""

import re

from tts.language import AfterPeriod, Language

INITIALS = re.compile(r"(?:[^\W\d_]\.)+")
"""A letter with its period, or several: "J.", "U.S.", "e.g."."""

_CANDIDATE = re.compile(r"(?<![\w.])(?:[^\W\d_]\.(?:[^\W\d_]\.)+|(?:[^\W\d_]{1,6}\.)+)(?!\w)")


def expand_abbreviations(text: str, language: Language) -> str:
    """Returns the text with known abbreviations and initials written as words.

    A period that may also end the sentence is kept at the end of the text and before a
    word that usually opens a sentence.
    """

    def spell(match: re.Match[str]) -> str:
        written = match.group()
        after = text[match.end() :]
        spoken = _spoken_form(written, after, language)
        if spoken is None:
            return written
        return spoken + ("." if sentence_may_follow(after, language) else "")

    return _CANDIDATE.sub(spell, text)


def sentence_may_follow(after: str, language: Language) -> bool:
    """Says whether the text after an abbreviation looks like the start of a sentence."""
    following = re.match(r"\s*\W*(\w*)", after)
    word = following.group(1) if following else ""
    return not word or (after[:1].isspace() and word in language.openers)


def _spoken_form(written: str, after: str, language: Language) -> str | None:
    """Returns the words for one candidate; None if it is an ordinary word or sentence end."""
    if written.lower() == "st." and not re.match(r"\s+[A-Z]", after):
        return "Street"  # "Main St. is", as against "St. Paul"
    known = language.abbreviations.get(written.lower())
    if known is not None:
        if known.after is AfterPeriod.BEFORE_DIGIT and not re.match(r"\s*\d", after):
            return None
        return known.spoken
    if INITIALS.fullmatch(written) and (len(written) > 2 or _is_initial(written, after)):
        return " ".join(written.replace(".", " ").split())
    return None


def _is_initial(written: str, after: str) -> bool:
    """Says whether a single letter with a period stands for a name ("J. Smith")."""
    return written[0].isupper() and re.match(r"\s+[A-Z]", after) is not None
