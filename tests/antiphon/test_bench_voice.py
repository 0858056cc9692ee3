import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from antiphon import cli
from antiphon.bench.voice import Outcome, Question, load_questions, summarize
from antiphon.spoken_turn import SpokenTurn
from engines.errors import BadRequest, EngineFailed
from tests.support.scripted_realtime import one_turn, scripted_realtime


def answered(first_audio_s: float, heard: str) -> SpokenTurn:
    turn = SpokenTurn(spoken_s=1.0, started_s=10.0)
    turn.heard["u1"] = heard
    turn.stopped_s, turn.final_s, turn.first_text_s = 11.5, 11.6, 11.7
    turn.first_audio_s = first_audio_s
    return turn


def question(text: str | None) -> Question:
    return Question("q.wav", np.ones(16_000, np.float32), text)


def test_summary_counts_from_the_true_end_of_speech_and_compares_with_the_silence() -> None:
    turns = [
        (question("what is this"), answered(11.8, "what is this")),
        (question("who is that"), answered(12.0, "who was that")),
    ]
    figures = summarize(Outcome(turns, ["the turn did not end in time"], 500))
    assert figures["voice_to_voice_p50_ms"] == 900.0
    assert figures["voice_to_voice_p95_ms"] == 990.0
    assert (figures["endpoint_ms"], figures["final_ms"]) == (500.0, 600.0)
    assert (figures["first_text_ms"], figures["first_audio_ms"]) == (700.0, 900.0)
    assert figures["voice_to_voice_over_silence"] == 1.8
    assert figures["wer"] == pytest.approx(1 / 6, abs=1e-3)
    assert (figures["turns"], figures["failed_turns"]) == (2, 1)


def test_word_errors_are_not_invented_where_the_words_are_unknown() -> None:
    assert summarize(Outcome([(question(None), answered(12.0, "anything"))]))["wer"] is None


def test_run_without_an_answer_fails_with_the_reason() -> None:
    with pytest.raises(EngineFailed, match="no room"):
        summarize(Outcome([], ["no room"], 500))


def test_questions_are_cut_off_after_their_last_voiced_sample(tmp_path: Path) -> None:
    path = tmp_path / "q.wav"
    samples = np.zeros(16_000, np.float32)
    samples[:8_000] = 0.5
    soundfile.write(path, samples, 16_000)
    (loaded,) = load_questions([path], ["hm"])
    assert (len(loaded.samples), loaded.text) == (8_000, "hm")


def test_texts_must_match_the_files(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="--text"):
        load_questions([tmp_path / "q.wav"], ["one", "two"])


async def test_bench_of_a_running_server_prints_one_json_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "q.wav"
    soundfile.write(path, np.full(1_600, 0.5, np.float32), 16_000)
    async with scripted_realtime(lambda each: setattr(each, "script", one_turn("yes"))) as server:
        given = ["bench", "voice", "--json", "--quick", "--turns", "2", "--url", server.url]
        given += ["--audio", str(path), "--text", "yes"]
        assert await asyncio.to_thread(cli.main, given) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["turns"], figures["wer"], figures["silence_ms"]) == (2, 0.0, 500)
    assert figures["configuration"]["server"] == server.url
