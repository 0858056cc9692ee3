"""The README's code blocks, for the tests that hold it to its word."""

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def readme_blocks(language: str) -> list[str]:
    """Returns the code blocks of a language, in order."""
    return [body for kind, body in _BLOCK.findall(README.read_text()) if kind == language]
