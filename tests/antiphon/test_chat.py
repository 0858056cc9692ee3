import io
import sys

import pytest

from antiphon.cli import main
from tests.support.models import model_path


@pytest.fixture(scope="module", autouse=True)
def model() -> None:
    model_path("smollm2-135m-instruct")


def test_one_message_gets_one_reply_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "--message", "What do bees make?", "--max-tokens", "12"]) == 0
    shown = capsys.readouterr()
    assert "honey" in shown.out.lower()
    assert shown.out.endswith("\n")
    assert shown.err == ""


def test_conversation_from_a_pipe_ends_at_the_end_of_the_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hello.\nWhat do bees make?\n"))
    assert main(["chat", "--max-tokens", "8"]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.strip().splitlines()) == 2
    assert shown.err == ""
