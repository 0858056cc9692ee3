"""The command line: every command loads, and every failure is one line and a status."""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon import cli
from antiphon.cli import COMMANDS, load_command, main
from engines.errors import (
    AntiphonError,
    BadRequest,
    EngineFailed,
    NotFound,
    Overloaded,
    TooLarge,
    Unsupported,
)


class RaisingCommand:
    """Is a command that fails in a given way."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        pass

    def run(self, args: argparse.Namespace) -> int:
        raise self.error


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("ANTIPHON_CACHE_DIR", str(tmp_path))
    yield tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_command_of_the_table_loads_and_has_help(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert load_command(name)
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    assert f"usage: antiphon {name}" in capsys.readouterr().out


def test_help_lists_all_commands_without_importing_torch() -> None:
    code = (
        "import sys; from antiphon.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print('torch' in sys.modules)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert all(name in shown for name in COMMANDS)
    assert shown.splitlines()[-1] == "False"


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("antiphon ")


def test_no_command_shows_help_and_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "commands:" in capsys.readouterr().out


def test_unknown_command_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["sreve"])
    assert caught.value.code == 2
    assert "sreve" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BadRequest("no speech in it"), 2),
        (NotFound("no such file"), 2),
        (TooLarge("over the limit"), 2),
        (Unsupported("not in this build"), 2),
        (EngineFailed("the step raised"), 1),
        (Overloaded("full"), 1),
        (AntiphonError("something"), 1),
    ],
)
def test_error_becomes_one_line_and_a_status(
    error: AntiphonError,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "load_command", lambda _: RaisingCommand(error))
    assert main(["say"]) == status
    assert capsys.readouterr().err == f"antiphon: {error}\n"


def test_interruption_ends_quietly_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "load_command", lambda _: RaisingCommand(KeyboardInterrupt()))
    assert main(["say"]) == 130
    assert capsys.readouterr().err == ""


def test_reader_that_goes_away_leaves_no_traceback() -> None:
    command = f"{sys.executable} -m antiphon config | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("#")
    assert done.stderr == ""


def test_models_list_shows_licence_and_state_of_each(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "list"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "whisper-base (asr, absent, 133 MB to download)" in shown
    assert "CC0" in shown
    assert "licensed for research" in shown
    assert "GPL-3.0" in shown


def test_models_list_as_json_has_one_object_a_model(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "list", "silero-vad", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["name"] == "silero-vad"
    assert listed["state"] == "absent"
    assert listed["packages"] == ["silero-vad==6.2.3"]


def test_models_verify_of_an_absent_model_says_what_to_do(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "verify", "silero-vad"]) == 1
    assert "run: antiphon models fetch silero-vad" in capsys.readouterr().err


def test_models_with_an_unknown_name_lists_those_that_exist(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "list", "nemo"]) == 2
    assert "it knows whisper-base" in capsys.readouterr().err


def test_config_takes_set_flags_and_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--json", "--set", "server.port=8123"]) == 0
    listed = {knob["path"]: knob for knob in json.loads(capsys.readouterr().out)}
    assert listed["server.port"]["value"] == 8123
    assert listed["server.port"]["default"] == 8000


@pytest.mark.parametrize("flag", ["server.port", "server.prot=1", "server.port={"])
def test_config_refuses_a_wrong_set_flag(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--set", flag]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["chat", "--message", " "], "the message is empty"),
        (["say", "hello", "-o", "hello.mp3"], "name it .wav"),
        (["models", "verify", "nobody"], "nobody"),
        (["config", "--set", "sessions.limits.idle_timeout_s=.nan"], "must be a number"),
        (["config", "--set", "engine.max_running=1"], "max_sessions"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_input_that_can_mean_nothing_is_bad_input_in_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
