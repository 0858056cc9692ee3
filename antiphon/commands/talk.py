"""`antiphon talk`: speaks to a running server and hears its reply."""

import argparse
import asyncio
import importlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile  # type: ignore[import-untyped]  # it ships no stubs

from antiphon.realtime_client import DEFAULT_URL, FRAME_MS, hold_turn, open_conversation, spoken
from antiphon.spoken_turn import REPLY_FORMAT, SpokenTurn, WireEvent, end_of_speech
from asr.audio_file import read_audio
from asr.config import SAMPLE_RATE_HZ
from engines.base import Samples
from engines.errors import BadRequest, EngineFailed, Unsupported

_PATIENCE_S = 600.0  # with a microphone: how long somebody may take to say something
_MICROPHONE_FRAMES = 500  # 10 s of speech that the network may hold up


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's flags."""
    parser.add_argument(
        "question",
        nargs="?",
        type=Path,
        metavar="QUESTION.wav",
        help="an audio file that asks something; without it, the microphone is used",
    )
    parser.add_argument("-o", "--output", type=Path, help="write the spoken reply to this WAV")
    parser.add_argument("--url", default=DEFAULT_URL, help="default: %(default)s")
    parser.add_argument(
        "--key", default=os.environ.get("ANTIPHON_API_KEY", ""), help="or set ANTIPHON_API_KEY"
    )
    parser.add_argument(
        "--timeout", type=float, default=60.0, help="seconds to wait for the end of the reply"
    )


def run(args: argparse.Namespace) -> int:
    """Asks one question from a file, or holds a conversation by microphone until Ctrl-C."""
    if args.output is not None and not args.output.resolve().parent.is_dir():
        raise BadRequest(f"there is no directory {args.output.resolve().parent}")
    asyncio.run(_ask_file(args) if args.question else _converse(args))
    return 0


async def _ask_file(args: argparse.Namespace) -> None:
    blocks = await asyncio.to_thread(lambda: list(read_audio(args.question)))
    samples = np.concatenate(blocks)
    turn = SpokenTurn(spoken_s=end_of_speech(samples, SAMPLE_RATE_HZ))
    async with open_conversation(args.url, args.key, input_rate_hz=SAMPLE_RATE_HZ) as client:
        await hold_turn(
            client,
            spoken(samples, SAMPLE_RATE_HZ),
            turn,
            timeout_s=args.timeout,
            on_event=Captions().show,
        )
    _report(turn, args.output)


async def _converse(args: argparse.Namespace) -> None:
    """Takes turns: listens, plays the reply, listens again."""
    device = _sound_device()
    print("Speak; the reply is played when you have finished. Ctrl-C ends.")
    async with open_conversation(args.url, args.key, input_rate_hz=SAMPLE_RATE_HZ) as client:
        while True:
            turn = SpokenTurn()
            frames = _microphone(device)
            await hold_turn(client, frames, turn, timeout_s=_PATIENCE_S, on_event=Captions().show)
            _report(turn, args.output)
            await asyncio.to_thread(_play, device, turn.sound)


def _sound_device() -> Any:
    try:
        device: Any = importlib.import_module("sounddevice")
        device.check_input_settings(channels=1, samplerate=SAMPLE_RATE_HZ)
    except ImportError as error:
        raise Unsupported(
            "the microphone needs the package sounddevice (pip install sounddevice); "
            "or give an audio file: antiphon talk QUESTION.wav"
        ) from error
    except Exception as error:  # PortAudioError, or OSError where PortAudio itself is missing
        raise Unsupported(
            f"no microphone can be opened ({error}); give an audio file: antiphon talk QUESTION.wav"
        ) from error
    return device


async def _microphone(device: Any) -> AsyncIterator[Samples]:
    loop = asyncio.get_running_loop()
    frames: asyncio.Queue[Samples] = asyncio.Queue(_MICROPHONE_FRAMES)

    def keep(frame: Samples) -> None:
        if frames.full():
            frames.get_nowait()  # the oldest: a caller who waits wants to be heard now
        frames.put_nowait(frame)

    def deliver(block: Samples, *_: Any) -> None:  # called on the audio thread
        loop.call_soon_threadsafe(keep, block[:, 0].copy())

    frame_samples = SAMPLE_RATE_HZ * FRAME_MS // 1000
    with device.InputStream(
        samplerate=SAMPLE_RATE_HZ, channels=1, blocksize=frame_samples, callback=deliver
    ):
        while True:
            yield await frames.get()


def _play(device: Any, sound: Samples) -> None:
    device.play(sound, REPLY_FORMAT.rate_hz)
    device.wait()


class Captions:
    """Prints both sides' words as they come, one line a speaker."""

    def __init__(self) -> None:
        self._line = ""  # whose line is being written
        self._written = ""  # what stands on it after the name

    def show(self, event: WireEvent) -> None:
        """Prints what one event adds."""
        match event["type"]:
            case "conversation.item.input_audio_transcription.delta":
                self._add("you", event["delta"])
            case "conversation.item.input_audio_transcription.completed":
                self._complete("you", event["transcript"])
            case "response.output_audio_transcript.delta":
                self._add("reply", event["delta"])
            case "response.done":
                self._end_line()

    def _add(self, name: str, text: str) -> None:
        if self._line != name:
            self._end_line()
            self._line, text = name, text.lstrip()
            print(f"{name:>5} > ", end="")
        self._written += text
        print(text, end="", flush=True)

    def _complete(self, name: str, text: str) -> None:
        if self._line == name and text.startswith(self._written):
            text = text[len(self._written) :]
        elif self._written:
            self._end_line()  # the final words differ from what was shown
        self._add(name, text)
        self._end_line()

    def _end_line(self) -> None:
        if self._line:
            print(flush=True)
        self._line = self._written = ""


def _report(turn: SpokenTurn, output: Path | None) -> None:
    """Prints what each stage took, counted from the last spoken sample, and saves the reply."""
    if turn.failure:
        raise EngineFailed(turn.failure)
    if not turn.transcript:
        raise BadRequest("no words were heard")
    known = turn.spoken_s > 0
    start_s = turn.end_s if known else turn.stopped_s or 0.0
    stages = {
        "turn ended": turn.stopped_s if known else None,
        "transcript": turn.final_s,
        "first text": turn.first_text_s,
        "first audio": turn.first_audio_s,
        "done": turn.done_s,
    }
    told = ", ".join(
        f"{name} {(at_s - start_s) * 1000:.0f} ms" for name, at_s in stages.items() if at_s
    )
    print(f"After {'the last word' if known else 'the end of the turn'}: {told}.", file=sys.stderr)
    seconds = len(turn.sound) / REPLY_FORMAT.rate_hz
    if output is not None:
        soundfile.write(output, turn.sound, REPLY_FORMAT.rate_hz, subtype="PCM_16")
        print(f"{seconds:.1f} s of reply in {output}", file=sys.stderr)
