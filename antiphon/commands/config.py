"""`antiphon config`: prints the effective configuration, each knob with its comment."""

import argparse
import dataclasses
import json

from antiphon.config import add_config_arguments, config_from_args
from antiphon.config_text import as_yaml, knobs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's flags."""
    add_config_arguments(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--yaml", action="store_true", help="as a commented file (the default)")
    form.add_argument("--json", action="store_true", help="as a list of knobs")


def run(args: argparse.Namespace) -> int:
    """Prints it; secrets are masked."""
    config = config_from_args(args)
    if args.json:
        listed = [dataclasses.asdict(knob) for knob in knobs(config)]
        for knob in listed:
            del knob["is_section"]
        print(json.dumps(listed, indent=1))
    else:
        print(as_yaml(config), end="")
    return 0
