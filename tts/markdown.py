"""Takes the marks of Markdown and HTML out of a text and leaves the words."""

import re

_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.MULTILINE | re.DOTALL), replacement)
    for pattern, replacement in (
        (r"^[ \t]*(```|~~~)[^`\n]*$.*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", ""),  # code block: not spoken
        (r"<!--.*?-->", ""),
        (r"<((?:https?://|mailto:)[^>\s]+)>", r"\1"),
        (r"</?[A-Za-z][^<>]*>", " "),
        (r"!?\[([^\[\]]*)\]\([^()]*(?:\([^()]*\)[^()]*)*\)", r"\1"),  # link or picture: its text
        (r"\[\^[^\]]+\]:?", ""),  # footnote
        (r"\[([^\[\]]+)\]\[[^\[\]]*\]", r"\1"),
        (r"^[ \t]*(?:[-*_][ \t]*){3,}$", ""),  # ruler
        (r"^[ \t|:=-]*-{2,}[ \t|:=-]*$", ""),  # second line of a table or of a heading
        (r"^[ \t]*(?:>[ \t]?)+", ""),
        (r"^[ \t]*#{1,6}[ \t]+(.*?)[ \t#]*$", r"\1"),
        (r"^[ \t]*[-*+\u2022][ \t]+(?:\[[ xX]\][ \t]+)?", ""),
        (r"^[ \t]*(\d{1,3})[.)][ \t]+", r"\1, "),
        (r"^[ \t]*\|[ \t]*|[ \t]*\|[ \t]*$", ""),
        (r"[ \t]*\|[ \t]*", ", "),
        (r"`+([^`]*)`+", r"\1"),
        (r"\\([\\`*_{}\[\]()#+.!|~>-])", r"\1"),
        (r"(?<=\d)(\s?)\*(\s?)(?=\d)", "\\1\u00d7\\2"),  # a product, not emphasis
        (r"\*+|~~|`+", ""),
        (r"(?<!\w)_+|_+(?!\w)", ""),
        (r"_+", " "),  # snake_case
    )
)


def strip_markdown(text: str) -> str:
    """Returns the text without marks; the text of links stays, code blocks go.

    Marks need not be balanced: a stream is cut into clauses before they are spoken.
    """
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
