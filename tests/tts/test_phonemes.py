"""Phonemes and their ids."""

import sys
from pathlib import Path

import pytest

from engines.errors import NotFound, Unsupported
from tts.phonemes import PhonemeIds, Phonemizer, read_voice_config

IDS = {"_": [0], "^": [1], "$": [2], " ": [3], ",": [4], "a": [5], "b": [6, 7]}


def test_ids_have_marks_around_them_and_a_pad_after_each() -> None:
    assert PhonemeIds(IDS).encode(["a", "b"]) == (1, 0, 5, 0, 6, 7, 0, 2)


def test_a_phoneme_that_the_voice_does_not_know_is_left_out() -> None:
    assert PhonemeIds(IDS).encode(["a", "?"]) == PhonemeIds(IDS).encode(["a"])


@pytest.mark.parametrize(
    ("sentence", "first"),
    [
        ("aaaa aaaaa, aaa aaaa", "aaaa aaaaa,"),
        ("aaa aaa aaa aaaaa aa", "aaa aaa aaa "),
        ("a" * 40, "a" * 14),
    ],
)
def test_a_long_sentence_is_cut_at_commas_else_spaces_else_anywhere(
    sentence: str, first: str
) -> None:
    pieces = PhonemeIds(IDS, longest=32).pieces(list(sentence))
    assert "".join(pieces[0]) == first
    assert "".join(map("".join, pieces)) == sentence
    assert all(len(PhonemeIds(IDS).encode(piece)) <= 32 for piece in pieces)


def test_sentences_come_apart_and_keep_their_punctuation() -> None:
    sentences = Phonemizer("en-us").phonemize("Hello there, friend. How are you?")
    assert ["".join(sentence)[-1] for sentence in sentences] == [".", "?"]
    assert "," in sentences[0]


@pytest.mark.parametrize("text", ["", "...", " - "])
def test_text_without_sound_has_no_phonemes(text: str) -> None:
    assert Phonemizer("en-us").phonemize(text) == []


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "piper.phonemize_espeak", None)
    with pytest.raises(Unsupported, match=r"antiphon\[piper\]"):
        Phonemizer("en-us")


def test_a_directory_without_a_voice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no Piper voice"):
        read_voice_config(tmp_path)


def test_a_voice_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.onnx.json").write_text('{"phoneme_type": "pinyin"}')
    with pytest.raises(Unsupported, match="espeak"):
        read_voice_config(tmp_path)
