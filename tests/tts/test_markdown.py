"""Markdown goes, words stay."""

import pytest

from tts.markdown import strip_markdown


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("**bold** and *italic* and __both__", "bold and italic and both"),
        ("**half of it", "half of it"),
        ("# Title #", "Title"),
        ("> quoted", "quoted"),
        ("- one\n* two\n+ [x] three", "one\ntwo\nthree"),
        ("1. one\n2) two", "1, one\n2, two"),
        ("[text](https://example.com/a_(b))", "text"),
        ("![a cat](cat.png)", "a cat"),
        ("so it is[^1]", "so it is"),
        ("<https://example.com>", "https://example.com"),
        ("<b>loud</b>", " loud "),
        ("use `print` here", "use print here"),
        ("a\n```py\nx = 1\n```\nb", "a\n\nb"),
        ("a\n```py\nx = 1", "a\n"),
        ("~~gone~~", "gone"),
        ("snake_case", "snake case"),
        ("2*3", "2\u00d73"),
        ("\\*", ""),
        ("| a | b |\n|---|---|\n| c | d |", "a, b\n\nc, d"),
        ("***", ""),
        ("a - b", "a - b"),
    ],
)
def test_marks_are_taken_out(text: str, plain: str) -> None:
    assert strip_markdown(text) == plain
