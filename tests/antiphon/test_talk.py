import asyncio
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from antiphon import cli
from antiphon.commands.talk import Captions
from tests.support.scripted_realtime import ScriptedRealtime, one_turn, scripted_realtime


@pytest.fixture
def question(tmp_path: Path) -> Path:
    path = tmp_path / "question.wav"
    soundfile.write(path, np.full(4_410, 0.25, np.float32), 44_100)
    return path


async def talk(server: ScriptedRealtime, *arguments: object) -> int:
    given = ["talk", *map(str, arguments), "--url", server.url]
    return await asyncio.to_thread(cli.main, given)


async def test_talk_shows_both_sides_and_saves_the_reply(
    question: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reply = tmp_path / "reply.wav"
    async with scripted_realtime() as server:
        assert await talk(server, question, "-o", reply) == 0
    shown = capsys.readouterr()
    assert shown.out == "  you > hello there\nreply > General Kenobi.\n"
    for stage in ("turn ended", "transcript", "first text", "first audio", "done"):
        assert stage in shown.err
    samples, rate_hz = soundfile.read(reply)
    assert (rate_hz, len(samples)) == (24_000, 12_000)


async def test_failed_reply_gives_its_reason_and_exit_code_one(
    question: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(server: ScriptedRealtime) -> None:
        server.script[-1] = {
            "type": "response.done",
            "response": {"status": "failed", "status_details": {"error": {"message": "no luck"}}},
        }

    async with scripted_realtime(fail) as server:
        assert await talk(server, question) == 1
    assert capsys.readouterr().err == "antiphon: no luck\n"


async def test_question_that_is_no_audio_is_refused_before_anyone_is_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "question.txt"
    path.write_text("what time is it")
    async with scripted_realtime() as server:
        assert await talk(server, path) == 2
        assert server.keys == []
    assert capsys.readouterr().err.count("\n") == 1


def test_missing_microphone_is_said_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)  # import fails
    assert cli.main(["talk"]) == 2
    assert "antiphon talk QUESTION.wav" in capsys.readouterr().err


def test_captions_repeat_the_line_where_the_final_words_differ(
    capsys: pytest.CaptureFixture[str],
) -> None:
    captions = Captions()
    for event in one_turn("hello there"):
        if event["type"].endswith("completed"):
            event["transcript"] = "Hello there!"
        captions.show(event)
    assert capsys.readouterr().out == (
        "  you > hello there\n  you > Hello there!\nreply > General Kenobi.\n"
    )
