import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from antiphon import cli
from antiphon.cli import main
from asr.wer import word_error_rate
from tests.support.models import model_path
from tests.support.speech import AUDIO_DIR

JFK = (
    "And so my fellow Americans, ask not what your country can do for you, "
    "ask what you can do for your country."
)


def text_file(path: Path) -> None:
    path.write_text("this is no audio at all\n" * 50)


def empty_file(path: Path) -> None:
    path.touch()


def no_samples(path: Path) -> None:
    soundfile.write(path, np.zeros(0, np.float32), 16_000, format="WAV")


def cut_mp3(path: Path) -> None:
    whole = (AUDIO_DIR / "silero_test.mp3").read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize(
    ("name", "make", "says"),
    [
        ("notes.txt", text_file, "not audio in a known format"),
        ("empty.wav", empty_file, "is empty"),
        ("silent.wav", no_samples, "holds no audio"),
        ("half.mp3", cut_mp3, "is cut off"),
        ("none.wav", lambda path: None, "there is no file"),
        ("folder.wav", Path.mkdir, "is not a file"),
    ],
)
def test_bad_file_is_bad_input_told_in_one_line_before_anything_is_loaded(
    name: str,
    make: object,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ANTIPHON_CACHE_DIR", str(tmp_path / "cache"))  # no models in there
    make(tmp_path / name)  # type: ignore[operator]
    assert main(["transcribe", str(tmp_path / name)]) == cli.EXIT_BAD_INPUT
    shown = capsys.readouterr()
    assert shown.out == ""
    assert says in shown.err
    assert shown.err.count("\n") == 1
    assert not (tmp_path / "cache").exists()


def test_unknown_format_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["transcribe", str(AUDIO_DIR / "jfk.flac"), "--format", "docx"])
    assert caught.value.code == 2
    assert "srt" in capsys.readouterr().err


def test_recording_is_written_down_in_the_asked_for_format(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("whisper-base", "silero-vad"):
        model_path(name)
    assert main(["transcribe", str(AUDIO_DIR / "jfk.flac"), "--format", "json"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert word_error_rate(JFK, json.loads(shown.out)["text"]) <= 0.1
