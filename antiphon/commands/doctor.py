"""`antiphon doctor`: checks this machine and says what to do."""

import argparse
import dataclasses
import json

from antiphon.checks import Finding, Verdict, run_checks
from antiphon.commands.models import open_store
from antiphon.config import add_config_arguments, config_from_args


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's flags."""
    parser.add_argument("--json", action="store_true", help="as a list of findings")
    add_config_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Prints a line for each finding; returns 1 if one of them keeps the server from running."""
    config = config_from_args(args)
    findings = []
    for finding in run_checks(config, open_store(config)):
        findings.append(finding)
        if not args.json:
            print(_line(finding), flush=True)
    if args.json:
        print(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=1))
    return 1 if any(finding.verdict is Verdict.FAIL for finding in findings) else 0


def _line(finding: Finding) -> str:
    line = f"{finding.verdict:<4}  {finding.name}: {finding.found}"
    return f"{line}\n      -> {finding.advice}" if finding.advice else line
