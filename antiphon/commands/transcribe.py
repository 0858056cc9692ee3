"""`antiphon transcribe FILE`: writes down what is said in a recording of any length."""

import argparse
import asyncio
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

from tqdm import tqdm

from antiphon.commands.models import open_store
from antiphon.config import Config, add_config_arguments, config_from_args
from asr.audio_file import inspect_audio, read_audio
from asr.config import SAMPLE_RATE_HZ
from asr.formats import FORMATS
from asr.transcript import Segment, Task, TranscribeOptions
from engines.base import Samples


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the flags."""
    add_config_arguments(parser)
    parser.add_argument("file", type=Path, help="WAV, FLAC, MP3 or OGG")
    parser.add_argument("--format", choices=tuple(FORMATS), default="text")
    parser.add_argument("--language", help="ISO 639-1 code; detected if not given")
    parser.add_argument("--prompt", default="", help="words to be expected")
    parser.add_argument("--translate", action="store_true", help="write English whatever is said")


def run(args: argparse.Namespace) -> int:
    """Prints the transcript; returns 0."""
    info = inspect_audio(args.file)  # before anything is loaded: a bad file costs no wait
    config = config_from_args(args)
    task = Task.TRANSLATE if args.translate else Task.TRANSCRIBE
    options = TranscribeOptions(args.language, args.prompt, task)
    with _progress(info.duration_s) as bar:
        blocks = _counted(read_audio(args.file), bar)
        segments = asyncio.run(_transcribe(config, blocks, options))
    sys.stdout.write(FORMATS[args.format](segments))
    return 0


async def _transcribe(
    config: Config, blocks: Iterable[Samples], options: TranscribeOptions
) -> list[Segment]:
    from antiphon.embedded import Role, embedded, ensure_models

    folders = ensure_models(config, open_store(config), (Role.VAD, Role.ASR))
    async with embedded(config, folders) as engines:
        segments = engines.long_transcriber().transcribe(
            blocks, request_id="transcribe", options=options
        )
        return [segment async for segment in segments]


def _progress(duration_s: float | None) -> "tqdm[NoReturn]":
    """Returns a bar that is shown on terminals only; the total may be unknown."""
    total = None if duration_s is None else round(duration_s, 1)
    return tqdm(total=total, unit="s", desc="transcribing", disable=not sys.stderr.isatty())


def _counted(blocks: Iterable[Samples], bar: "tqdm[NoReturn]") -> Iterator[Samples]:
    for block in blocks:
        yield block
        bar.update(round(len(block) / SAMPLE_RATE_HZ, 1))
