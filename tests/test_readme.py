"""The README keeps its word: its commands exist, its links lead somewhere.

Its Python is run by `tests/e2e/test_readme_code.py`.
"""

import argparse
import re
import shlex

import pytest

from antiphon.cli import COMMANDS, load_command
from antiphon.config import config_from_args
from tests.support.readme import README, readme_blocks

ROOT = README.parent
TEXT = README.read_text()
ASSIGNMENT = re.compile(r"[A-Z_]+=")


def shell_commands() -> list[list[str]]:
    """Returns the words of every command in the README's shell blocks."""
    lines = "\n".join(readme_blocks("sh")).replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


COMMAND_LINES = shell_commands()


def environment_of(words: list[str]) -> dict[str, str]:
    """Takes the leading assignments off a command and returns them."""
    environment = {}
    while ASSIGNMENT.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    return environment


def test_there_are_commands_to_check() -> None:
    assert len(COMMAND_LINES) >= 5
    assert readme_blocks("python")


@pytest.mark.parametrize("words", COMMAND_LINES, ids=" ".join)
def test_command_can_be_typed_as_it_stands(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = list(words)
    for name, value in environment_of(words).items():
        monkeypatch.setenv(name, value)
    if words[0] == "make":
        assert_make_target(words[1])
        return
    if words[0] == ".":  # puts the command on the path
        assert words[1:] == [".venv/bin/activate"]
        return
    assert words[0] == "antiphon"
    assert words[1] in COMMANDS
    parser = argparse.ArgumentParser()
    load_command(words[1]).add_arguments(parser)
    args = parser.parse_args(words[2:])
    if words[1] == "serve":
        flags = {"server.host": args.host}
        assert config_from_args(args, flags).access.keys


def assert_make_target(name: str) -> None:
    assert re.search(rf"^{re.escape(name)}:", (ROOT / "Makefile").read_text(), re.MULTILINE), name


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`make ([a-z-]+)", TEXT))))
def test_target_named_in_the_text_exists(name: str) -> None:
    assert_make_target(name)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\((?!\w+:)([^)#]+)", TEXT))))
def test_link_leads_to_a_file(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("code", readme_blocks("python"))
def test_python_block_compiles(code: str) -> None:
    compile(code, "README.md", "exec", flags=0)
