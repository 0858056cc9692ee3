"""`antiphon bench TARGET`: measures, and prints one JSON object or a short table."""

import argparse
import importlib
import json
from typing import Protocol

TARGETS = {
    "voice": "spoken question in, time to the first sound of the reply",
    "llm": "tokens a second of the language model, alone, in a batch and beside transformers",
}
"""Name of each target, which is its module's in `antiphon.bench` too, and what it measures."""


class Target(Protocol):
    """Is what a module of `antiphon.bench` offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def measure(self, args: argparse.Namespace) -> dict[str, object]:
        """Returns figures by name, all fit for JSON."""
        ...


def load_target(name: str) -> Target:
    """Imports a target's module."""
    module: Target = importlib.import_module(f"antiphon.bench.{name}")
    return module


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares a sub-command for each target."""
    targets = parser.add_subparsers(dest="target", required=True, metavar="TARGET")
    for name, what in TARGETS.items():
        target = targets.add_parser(name, help=what, description=what)
        target.add_argument("--json", action="store_true", help="print one JSON object")
        target.add_argument("--quick", action="store_true", help="fewer rounds; under 60 s")
        load_target(name).add_arguments(target)


def run(args: argparse.Namespace) -> int:
    """Measures and prints."""
    figures = load_target(args.target).measure(args)
    if args.json:
        print(json.dumps(figures, ensure_ascii=False))
    else:
        width = max(map(len, figures))
        for name, value in figures.items():
            print(f"{name:<{width}}  {value}")
    return 0
