"""`antiphon models`: lists, fetches and verifies the models of the catalogue."""

import argparse
import dataclasses
import json
import sys
import textwrap

from antiphon.config import Config, add_config_arguments, config_from_args
from antiphon.model_catalogue import ModelEntry
from antiphon.model_sources import HubSource, PypiSource, Source
from antiphon.models import ModelStore
from engines.errors import AntiphonError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's flags."""
    parser.add_argument("action", choices=("list", "fetch", "verify"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="models; all if none is named")
    parser.add_argument("--json", action="store_true", help="list as JSON")
    parser.add_argument(
        "--source", choices=("auto", "hub", "pypi"), default="auto", help="fetch from here only"
    )
    add_config_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Does one of the three; a model that fails does not keep the others from their turn."""
    config = config_from_args(args)
    store = open_store(config, source=args.source)
    names = args.names or [entry.name for entry in store.catalogue]
    for name in names:
        store.entry(name)  # an unknown name is refused before anything is done
    if args.action == "list":
        print(_as_json(store, names) if args.json else _as_text(store, names))
        return 0
    act = store.fetch if args.action == "fetch" else store.verify
    failed = 0
    for name in names:
        try:
            print(f"{name}: ok, {act(name)}")
        except AntiphonError as error:
            print(f"antiphon: {error}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0


def open_store(config: Config, *, source: str = "auto") -> ModelStore:
    """Returns the store that the configuration describes; progress goes to stderr."""
    sources: list[Source] = []
    if source == "hub" or (source == "auto" and config.models.hub):
        sources.append(HubSource())
    if source in ("auto", "pypi"):
        sources.append(PypiSource())
    return ModelStore(
        local=config.models.paths,
        sources=sources,
        report=lambda line: print(line, file=sys.stderr, flush=True),
    )


def _as_json(store: ModelStore, names: list[str]) -> str:
    listed = []
    for name in names:
        entry = store.entry(name)
        listed.append(
            {
                "name": name,
                "role": entry.role,
                "state": store.state(name),
                "download_bytes": entry.download_bytes,
                "licence": entry.licence,
                "provenance": entry.provenance,
                "packages": [wheel.requirement for wheel in entry.wheels],
                "hub": dataclasses.asdict(entry.hub) if entry.hub else None,
            }
        )
    return json.dumps(listed, indent=1)


def _as_text(store: ModelStore, names: list[str]) -> str:
    return "\n\n".join(_paragraph(store.entry(name), store.state(name)) for name in names)


def _paragraph(entry: ModelEntry, state: str) -> str:
    sources = [f"hub {entry.hub.repo_id}"] if entry.hub else []
    sources += [f"PyPI {wheel.requirement}" for wheel in entry.wheels]
    lines = [
        f"{entry.name}  ({entry.role}, {state}, {entry.download_bytes / 1e6:.0f} MB to download)",
        *_indented(f"licence: {entry.licence}"),
        *_indented(entry.provenance),
        *_indented(f"sources: {', '.join(sources)}"),
    ]
    return "\n".join(lines)


def _indented(text: str) -> list[str]:
    return textwrap.wrap(text, 92, initial_indent="    ", subsequent_indent="    ")
