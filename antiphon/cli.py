"""The `antiphon` command: finds the asked-for command's module, runs it, reports errors.

A command is a module of `antiphon.commands` with `add_arguments(parser)` and
`run(args) -> exit status`; it is imported only when it is called, so that `--help` and the
light commands do not wait for torch.
"""

import argparse
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from typing import Protocol

from engines.errors import AntiphonError, BadRequest, NotFound, TooLarge, Unsupported

COMMANDS = {
    "serve": "run the server",
    "transcribe": "write down what is said in a file",
    "say": "speak a text into a file",
    "chat": "talk to the language model in the terminal",
    "talk": "speak to a running server and hear its reply",
    "models": "list, fetch and verify models",
    "doctor": "check this machine and say what to do",
    "config": "print the effective configuration",
    "bench": "measure",
}
"""Name of each command, which is its module's too, and what it does."""

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2  # as argparse
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
_BAD_INPUT = (BadRequest, NotFound, TooLarge, Unsupported)


class Command(Protocol):
    """Is what a module of `antiphon.commands` offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


def load_command(name: str) -> Command:
    """Imports a command's module."""
    module: Command = importlib.import_module(f"antiphon.commands.{name}")
    return module


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit status.

    Returns:
        0 for success, 1 for a failure, 2 for bad input, 130 for an interruption.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _dispatch(given)
    except AntiphonError as error:
        print(f"antiphon: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT if isinstance(error, _BAD_INPUT) else EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader, say `head`, has gone; nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED


def _dispatch(given: list[str]) -> int:
    if not given or given[0] not in COMMANDS:
        _overview().parse_args(given)  # --help and --version leave here, as do unknown names
        _overview().print_help()
        return EXIT_BAD_INPUT
    name = given[0]
    parser = argparse.ArgumentParser(prog=f"antiphon {name}", description=COMMANDS[name])
    command = load_command(name)
    command.add_arguments(parser)
    status = command.run(parser.parse_args(given[1:]))
    sys.stdout.flush()
    return status


def _overview() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  {name:<{width}}  {does}" for name, does in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="antiphon",
        description=f"Voice in real time.\n\ncommands:\n{listed}",
        epilog="antiphon COMMAND --help tells more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"antiphon {_version()}")
    parser.add_argument("command", nargs="?", choices=tuple(COMMANDS), metavar="COMMAND")
    return parser


def _version() -> str:
    try:
        return importlib.metadata.version("antiphon")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed: run from its sources)"
