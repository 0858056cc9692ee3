"""Seams of a text, told with as little look-ahead as possible."""

import pytest

from tts.boundaries import LOOK_AHEAD, Seam, seam_at
from tts.english import ENGLISH


def seam(text: str, *, final: bool = False) -> Seam:
    """Classifies the seam at the mark "|"."""
    index = text.index("|")
    return seam_at(text.replace("|", ""), index, ENGLISH, final=final)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("So it is.| Then", Seam.SENTENCE),
        ("Really?!| Yes", Seam.SENTENCE),
        ("He left.\u201d| She", Seam.SENTENCE),
        ("Well...| maybe", Seam.CLAUSE),
        ("\u201cWow!\u201d| he said", Seam.CLAUSE),
        ("First,| second", Seam.CLAUSE),
        ("This \u2014| that", Seam.CLAUSE),
        ("we go| because of it", Seam.CONJUNCTION),
        ("we| go", Seam.SPACE),
        ("a line|\nnext", Seam.LINE),
        ("a line| \nnext", Seam.LINE),
        ("\u306f\u3044\u3002|\u5143\u6c17", Seam.SENTENCE),
        ("\u306f\u3044\u3001|\u5143\u6c17", Seam.CLAUSE),
        ("\u306f\u3044\u3002|\u300d", Seam.NONE),
    ],
)
def test_seams_are_told_by_what_is_before_and_after(text: str, kind: Seam) -> None:
    assert seam(text + " more") is kind


@pytest.mark.parametrize(
    "text",
    [
        "98.|6",
        "98|.6",
        "37,|0",
        "example.|com",
        "Dr.| Smith",
        "the U.S.| Army",
        "the U.|S.",
        "e.g.| Apples",
        "No.| 5",
        "J.| S. Bach",
        "1.| First",
        "[a link.| Still](http://x.y)",
        "`a.| b`",
    ],
)
def test_atoms_hold_no_seam(text: str) -> None:
    assert seam(text + " more", final=True) is Seam.NONE


@pytest.mark.parametrize("text", ["in the U.S.| He", "I said No.| So", "and so on, etc.| The"])
def test_a_usual_opener_after_an_abbreviation_starts_a_sentence(text: str) -> None:
    assert seam(text + " more") is Seam.SENTENCE


def test_a_comma_before_digits_is_no_place_to_stop() -> None:
    assert seam("May 5,| 2020 was") is Seam.SPACE


@pytest.mark.parametrize("text", ["It is.| ", "in the U.S.| Th", "we go| bec", "Yes.| \u201c"])
def test_an_undecided_seam_waits_and_is_decided_at_the_end(text: str) -> None:
    assert seam(text) is Seam.UNKNOWN
    assert seam(text, final=True) is not Seam.UNKNOWN


def test_an_endless_word_is_not_waited_for() -> None:
    assert seam("we go| " + "x" * (LOOK_AHEAD + 1)) is Seam.SPACE
