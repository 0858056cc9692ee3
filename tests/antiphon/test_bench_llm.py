"""`antiphon bench llm` on a random model: it counts what the engine really delivers."""

import json
from pathlib import Path

import pytest

from antiphon import cli
from antiphon.bench import llm
from tests.support.checkpoints import tiny_llama


def test_bench_prints_figures_that_agree_with_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny_llama(tmp_path, vocab_size=40_000, max_position_embeddings=1100)
    monkeypatch.setattr(llm, "ensure_models", lambda *_: {llm.Role.LM: tmp_path})
    monkeypatch.setattr(llm, "NEW_TOKENS", 8)
    assert cli.main(["bench", "llm", "--json", "--quick", "--threads", "1"]) == 0
    figures = json.loads(capsys.readouterr().out)
    alone, together = figures["batch1_tok_s"], figures["batch16_tok_s"]
    assert figures["ratio_16_to_1"] == pytest.approx(together / alone, rel=0.01)
    theirs = figures["transformers_tok_s"]
    assert figures["ratio_vs_transformers"] == pytest.approx(alone / theirs, rel=0.01)
    assert figures["prefix_hit_speedup"] > 1  # some positions instead of a thousand
    assert figures["threads"] == 1


def test_peer_can_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny_llama(tmp_path, vocab_size=40_000, max_position_embeddings=1100)
    monkeypatch.setattr(llm, "ensure_models", lambda *_: {llm.Role.LM: tmp_path})
    monkeypatch.setattr(llm, "NEW_TOKENS", 4)
    assert cli.main(["bench", "llm", "--json", "--quick", "--no-peer"]) == 0
    assert json.loads(capsys.readouterr().out)["transformers_tok_s"] is None
