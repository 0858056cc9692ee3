"""Chunks of a text stream, the same for every way in which the text may arrive."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts.chunker import TextChunk, TextChunker
from tts.config import ChunkerConfig

SCRAPS = (
    *("Dr. Smith", "98.6", "37,0", "3.14", "example.com", "the U.S.", "e.g.", "No. 5", "p.m."),
    *("well", "and", "because", "He", "The", "it", "x" * 40, "\U0001f600", "\u5143\u6c17\u3002"),
    *(".", ". ", ", ", "! ", "?", "\n", "\n\n", " ", "... ", "\u201c", "\u201d ", " - ", "\u2014"),
    *("```\n", "~~~", "`", "``", "[a. b](http://c.d)", "[", "](", ")", "**", "1. ", "- ", "# "),
)
texts = st.lists(st.sampled_from(SCRAPS), max_size=40).map("".join)


def chunks_of(text: str, *, cuts: list[int] | None = None) -> list[TextChunk]:
    """Feeds the text, split at `cuts`, and returns all chunks."""
    chunker = TextChunker()
    places = [0, *sorted(cuts or []), len(text)]
    found: list[TextChunk] = []
    for start, end in pairwise(places):
        found += chunker.push(text[start:end])
    return found + chunker.flush()


def displays(text: str) -> list[str]:
    return [chunk.display for chunk in chunks_of(text)]


def letters(text: str) -> list[TextChunk]:
    return chunks_of(text, cuts=list(range(1, len(text))))


@given(st.one_of(texts, st.text(max_size=200)), st.data())
def test_chunks_are_the_same_for_any_split_of_the_text(text: str, data: st.DataObject) -> None:
    whole = chunks_of(text)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=12))
    assert chunks_of(text, cuts=cuts) == whole
    assert letters(text) == whole


@given(st.one_of(texts, st.text(max_size=400)))
def test_displays_add_up_to_the_text(text: str) -> None:
    assert "".join(displays(text)) == text


@given(texts)
def test_chunks_stay_under_the_longest_length_unless_they_are_one_atom(text: str) -> None:
    for chunk in displays(text):
        atom = max((len(word) for word in chunk.split(" ")), default=0)
        assert len(chunk.strip()) <= ChunkerConfig().max_chars + atom + 1


@pytest.mark.parametrize(
    "atom",
    ["98.6", "Dr. Smith", "example.com", "37,0", "3.14", "U.S. Army", "e.g. apples", "No. 5"],
)
def test_an_atom_is_never_split_wherever_it_stands(atom: str) -> None:
    for words in range(0, 60):
        text = "word " * words + atom + " is here. Next one."
        assert sum(atom in display for display in displays(text)) == 1


def test_the_first_chunk_ends_at_a_comma_and_later_ones_at_sentences() -> None:
    text = "Well, to be honest, I am not sure. It may rain, or snow, or not. We will see."
    assert displays(text) == [
        "Well, to be honest,",
        " I am not sure.",
        " It may rain, or snow, or not.",
        " We will see.",
    ]


def test_a_long_first_clause_ends_before_a_conjunction() -> None:
    text = "The answer to that is rather simple because we all know it. Yes, we do know."
    assert displays(text)[0] == "The answer to that is rather simple"


def test_one_short_sentence_is_spoken_at_once_only_at_the_start() -> None:
    assert displays("Yes. No. Maybe. I mean it.") == ["Yes.", " No. Maybe.", " I mean it."]


def test_the_first_sentence_comes_out_as_soon_as_the_next_one_begins() -> None:
    chunker = TextChunker()
    assert chunker.push("Good morning. ") == []
    assert chunker.push("H") == [TextChunk("Good morning.", "Good morning.")]


def test_a_chunk_is_at_most_so_many_times_longer_than_the_one_before() -> None:
    config = ChunkerConfig(first_max_chars=20, growth=2, max_chars=80)
    chunker = TextChunker(config)
    lengths = [len(c.display.strip()) for c in chunker.push("word " * 100) + chunker.flush()]
    assert lengths[0] <= 20
    assert max(lengths) <= 80
    assert all(after <= max(20, 2 * (before + 1)) for before, after in pairwise(lengths))
    assert max(lengths) > 60


def test_a_long_sentence_is_cut_at_its_last_comma() -> None:
    chunker = TextChunker(ChunkerConfig(growth=100.0))
    chunks = chunker.push(
        "Hello there. It goes" + " on" * 40 + ", and" + " on" * 60 + " to the end."
    )
    assert [chunk.display[-4:] for chunk in chunks + chunker.flush()] == ["ere.", " on,", "end."]


def test_code_is_displayed_line_by_line_and_not_spoken() -> None:
    text = "Look at this:\n```py\nx = 1. Or 2\n```\nThat was it."
    assert chunks_of(text) == [
        TextChunk("Look at this:", "Look at this:"),
        TextChunk("\n```py\n", ""),
        TextChunk("x = 1. Or 2\n", ""),
        TextChunk("```\n", ""),
        TextChunk("That was it.", "That was it."),
    ]


def test_a_fence_opened_and_closed_in_one_line_does_not_silence_the_rest() -> None:
    assert [chunk.spoken for chunk in chunks_of("```x``` it is.\nDone.")] == ["x it is.", "Done."]


def test_a_link_is_spoken_by_its_text_and_displayed_whole() -> None:
    link = "Read [the docs. Really](https://example.com/a.b) today."
    assert chunks_of(link) == [TextChunk(link, "Read the docs. Really today.")]


def test_emoji_alone_do_not_count_as_the_first_chunk() -> None:
    chunks = chunks_of("\U0001f600\nWell, to be honest, yes.")
    assert [chunk.spoken for chunk in chunks] == ["", "Well, to be honest,", "yes."]


def test_after_a_flush_the_next_text_starts_anew() -> None:
    chunker = TextChunker()
    first = chunker.push("```\ncode") + chunker.flush()
    assert [chunk.spoken for chunk in first] == ["", ""]
    again = chunker.push("Well, to be honest, yes.") + chunker.flush()
    assert [chunk.spoken for chunk in again] == ["Well, to be honest,", "yes."]
