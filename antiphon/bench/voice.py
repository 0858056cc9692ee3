"""Measures a spoken conversation as a caller lives it: last word in, first sound out.

Questions are streamed at the pace of speech to a running server; every time is taken by
the client, from the true end of speech in the file. The silence that the server waits for
before it takes its turn is part of what a caller waits, so it is part of the figures; it
is also the floor that they are compared with.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from antiphon.realtime_client import FRAME_MS, hold_turn, open_conversation, spoken
from antiphon.server_process import server_process
from antiphon.spoken_turn import VOICED_SHARE, SpokenTurn, end_of_speech
from asr.audio_file import read_audio
from asr.config import SAMPLE_RATE_HZ
from asr.wer import word_errors
from engines.base import Samples
from engines.errors import AntiphonError, BadRequest, EngineFailed

QUESTIONS = (
    "What is the capital of France?",
    "How many days are there in a week?",
    "Why is the sky blue?",
)
TURNS = 20
QUICK_TURNS = 5
QUICK_BUDGET_S = 40.0  # no turn begins later than this after the start; a turn takes under 10 s
TURN_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Question:
    """Is one utterance at 16 kHz, cut off after its last voiced sample.

    `text` is what is said in it, None where nobody told us.
    """

    name: str
    samples: Samples
    text: str | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the target's flags."""
    parser.add_argument("--url", help="a running server; without it, one is started")
    parser.add_argument("--key", default=os.environ.get("ANTIPHON_API_KEY", ""))
    parser.add_argument(
        "--audio", nargs="+", type=Path, default=[], metavar="FILE",
        help="spoken questions, each one utterance; without them, the embedded voice asks",
    )  # fmt: skip
    parser.add_argument(
        "--text", nargs="+", default=[], metavar="WORDS", help="what each of --audio says"
    )
    parser.add_argument("--turns", type=int, help=f"default: {TURNS}, or {QUICK_TURNS} if --quick")


def measure(args: argparse.Namespace) -> dict[str, object]:
    """Asks the questions in turn, each in a conversation of its own, and sums up."""
    deadline_s = time.monotonic() + QUICK_BUDGET_S if args.quick else float("inf")
    with tempfile.TemporaryDirectory() as folder:
        questions = load_questions(args.audio, args.text) or _spoken_questions(Path(folder))
        count = args.turns or (QUICK_TURNS if args.quick else TURNS)
        asked = [questions[index % len(questions)] for index in range(count)]
        with _server_url(args.url, Path(folder) / "server.log") as url:
            outcome = asyncio.run(_ask_all(url, args.key, asked, deadline_s))
    return summarize(outcome) | {
        "configuration": {
            "server": args.url or "own",
            "questions": [question.name for question in questions],
            "conversation": "a new one for each turn",
            "frame_ms": FRAME_MS,
            "input_rate_hz": SAMPLE_RATE_HZ,
            "speech_ends_at_share_of_peak": VOICED_SHARE,
            "cpu_count": os.cpu_count(),
        }
    }


@dataclass(slots=True)
class Outcome:
    """Is filled turn by turn.

    Attributes:
        turns: each answered question with its turn.
        failures: why the others got no reply.
        silence_ms: silence that the server says ends a turn.
    """

    turns: list[tuple[Question, SpokenTurn]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    silence_ms: int | None = None


def summarize(outcome: Outcome) -> dict[str, object]:
    """Returns the figures of a run; raises EngineFailed where no turn was answered."""
    turns = [turn for _, turn in outcome.turns]
    if not turns:
        raise EngineFailed(f"no question was answered: {'; '.join(sorted(set(outcome.failures)))}")
    first_audio = [turn.after_speech_ms(turn.first_audio_s) for turn in turns]
    p50 = _percentile(first_audio, 50)
    silence_ms = outcome.silence_ms
    return {
        "bench": "voice",
        "voice_to_voice_p50_ms": p50,
        "voice_to_voice_p95_ms": _percentile(first_audio, 95),
        "endpoint_ms": _percentile([turn.after_speech_ms(turn.stopped_s) for turn in turns], 50),
        "final_ms": _percentile([turn.after_speech_ms(turn.final_s) for turn in turns], 50),
        "first_text_ms": _percentile(
            [turn.after_speech_ms(turn.first_text_s) for turn in turns], 50
        ),
        "first_audio_ms": p50,
        "silence_ms": silence_ms,
        "voice_to_voice_over_silence": round(p50 / silence_ms, 3) if silence_ms and p50 else None,
        "wer": _word_error_rate(outcome),
        "turns": len(turns),
        "failed_turns": len(outcome.failures),
        "failures": sorted(set(outcome.failures)),
    }


def _word_error_rate(outcome: Outcome) -> float | None:
    """Returns wrong words per word over all questions whose words are known."""
    errors = [
        word_errors(question.text, turn.transcript)
        for question, turn in outcome.turns
        if question.text
    ]
    words = sum(count for _, count in errors)
    return round(sum(wrong for wrong, _ in errors) / words, 4) if words else None


def load_questions(files: Sequence[Path], texts: Sequence[str]) -> list[Question]:
    """Reads questions from files; `texts` are their words, or empty where unknown."""
    if texts and len(texts) != len(files):
        raise BadRequest("--text must hold the words of each --audio, in the same order")
    questions = []
    for index, path in enumerate(files):
        samples = np.concatenate(list(read_audio(path)))
        end = round(end_of_speech(samples, SAMPLE_RATE_HZ) * SAMPLE_RATE_HZ)
        if not end:
            raise BadRequest(f"{path.name} holds no speech")
        text = texts[index] if texts else None
        questions.append(Question(text or path.name, samples[:end], text))
    return questions


def _spoken_questions(folder: Path) -> list[Question]:
    """Lets the embedded voice speak `QUESTIONS`, before anything is timed."""
    files = [folder / f"question-{index}.wav" for index in range(len(QUESTIONS))]
    for text, path in zip(QUESTIONS, files, strict=True):
        command = [sys.executable, "-m", "antiphon", "say", text, "-o", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise EngineFailed(f"the questions could not be spoken: {done.stderr.strip()[-500:]}")
    return load_questions(files, QUESTIONS)


@contextmanager
def _server_url(url: str | None, log: Path) -> Iterator[str]:
    if url is not None:
        yield url
        return
    with server_process(log) as server:
        yield server.ws_url


async def _ask_all(url: str, key: str, asked: Sequence[Question], deadline_s: float) -> Outcome:
    outcome = Outcome()
    for question in asked:
        if time.monotonic() > deadline_s:
            break
        turn = SpokenTurn(spoken_s=len(question.samples) / SAMPLE_RATE_HZ)
        try:
            async with open_conversation(url, key, input_rate_hz=SAMPLE_RATE_HZ) as client:
                detection = client.session["audio"]["input"]["turn_detection"]
                outcome.silence_ms = detection["silence_duration_ms"]
                frames = spoken(question.samples, SAMPLE_RATE_HZ)
                await hold_turn(client, frames, turn, timeout_s=TURN_TIMEOUT_S)
        except AntiphonError as error:
            turn.failure = turn.failure or str(error)
        if turn.failure is None and turn.first_audio_s is None:
            turn.failure = "the reply held no sound"
        if turn.failure is None:
            outcome.turns.append((question, turn))
        else:
            outcome.failures.append(turn.failure)
    return outcome


def _percentile(values_ms: Sequence[float | None], percent: float) -> float | None:
    known = [value for value in values_ms if value is not None]
    return round(float(np.percentile(known, percent)), 1) if known else None
