"""`antiphon say TEXT -o out.wav`: speaks a text into a file."""

import argparse
import asyncio
import itertools
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import soundfile  # type: ignore[import-untyped]  # it ships no stubs

from antiphon.commands.models import open_store
from antiphon.config import Config, add_config_arguments, config_from_args
from engines.base import Ticket
from engines.errors import BadRequest
from tts.speech_stream import speak_text
from tts.synthesizer import VoiceOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the flags."""
    add_config_arguments(parser)
    parser.add_argument("text", help="what to say; - reads it from standard input")
    parser.add_argument("-o", "--output", type=Path, required=True, help="WAV file to write")
    parser.add_argument("--speed", type=float, default=1.0, help="0.25..1.5, 1 is the voice's own")


def run(args: argparse.Namespace) -> int:
    """Writes the file; returns 0.

    Raises:
        BadRequest: there is nothing to say, or the file cannot be written.
    """
    config = config_from_args(args)
    text = sys.stdin.read() if args.text == "-" else args.text
    if not text.strip():
        raise BadRequest("there is nothing to say: the text is empty")
    if args.output.suffix.lower() != ".wav":
        raise BadRequest(f"{args.output.name}: only WAV is written; name it .wav")
    if not 0.25 <= args.speed <= 1.5:
        raise BadRequest(f"--speed {args.speed:g} is outside 0.25..1.5")
    duration_s = asyncio.run(say(config, text, args.output, VoiceOptions(speed=args.speed)))
    if not duration_s:
        raise BadRequest("there is nothing to say: the text has no words")
    print(f"{args.output}: {duration_s:.1f} s", file=sys.stderr)
    return 0


async def _whole(text: str) -> AsyncIterator[str]:
    yield text


async def say(config: Config, text: str, output: Path, voice: VoiceOptions) -> float:
    """Speaks a text into a 16-bit WAV file at the voice's own rate; returns its seconds."""
    from antiphon.embedded import Role, embedded, ensure_models

    folders = ensure_models(config, open_store(config), (Role.VOICE,))
    numbers = itertools.count()
    written = 0
    async with embedded(config, folders) as engines:
        synthesizer = engines.synthesizer()
        rate_hz = synthesizer.sample_rate_hz
        try:
            file = soundfile.SoundFile(
                output, "w", rate_hz, channels=1, subtype="PCM_16", format="WAV"
            )
        except (OSError, soundfile.LibsndfileError) as error:
            raise BadRequest(f"{output} cannot be written: {error}") from error
        with file:
            pieces = speak_text(
                synthesizer, _whole(text), voice, lambda: Ticket(f"say.{next(numbers)}")
            )
            async for _, samples in pieces:
                file.write(samples)
                written += len(samples)
    return written / rate_hz
