import json

import pytest

from asr.transcript import Task
from asr.whisper_tokens import WhisperTokens
from engines.errors import BadRequest, EngineFailed
from tests.support.models import model_path
from tests.support.tiny_whisper import CONTROLS, WORDS, write_tiny_whisper


@pytest.fixture(scope="module")
def base() -> WhisperTokens:
    return WhisperTokens(model_path("whisper-base"))


@pytest.fixture
def tiny(tmp_path) -> WhisperTokens:
    return WhisperTokens(write_tiny_whisper(tmp_path))


def test_whisper_base_has_the_ids_of_its_paper_release(base):
    assert (base.eot, base.sot, base.translate, base.transcribe) == (50257, 50258, 50358, 50359)
    assert (base.sot_prev, base.no_speech, base.no_timestamps) == (50361, 50362, 50363)
    assert base.multilingual and len(base.languages) == 99
    assert (base.languages["en"], base.languages["su"]) == (50259, 50357)


def test_the_prefix_names_language_and_task(base):
    assert base.prefix("en") == (50258, 50259, 50359, 50363)
    assert base.prefix("es", Task.TRANSLATE) == (50258, 50262, 50358, 50363)


def test_a_prompt_comes_before_the_transcript(base):
    assert base.prefix("en", prompt=(7, 8)) == (50361, 7, 8, 50258, 50259, 50359, 50363)


@pytest.mark.parametrize("code", ["en", "EN", "en-US", "en_gb"])
def test_a_language_may_be_spelt_with_its_region(base, code):
    assert base.language_id(code) == 50259


@pytest.mark.parametrize("code", ["xx", "", "english"])
def test_an_unknown_language_is_refused_by_name(base, code):
    with pytest.raises(BadRequest, match=repr(code)):
        base.prefix(code)


def test_language_ids_lead_back_to_codes(base):
    assert base.language_of(50262) == "es"
    assert base.language_of(50258) is None


def test_suppression_is_read_from_the_ctranslate2_configuration(base):
    assert base.begin_suppress_ids == (220, 50257)
    assert len(base.suppress_ids) == 88 and base.suppress_ids[:3] == (1, 2, 7)


def test_decoding_gives_back_the_text_without_controls_and_timestamps(base):
    ids = base.encode(" Grüße, 富士康!")
    assert base.decode((50258, 50259, 50364, *ids, 51864, 50257)) == " Grüße, 富士康!"


def test_controls_spelt_out_in_a_prompt_stay_text(base):
    assert all(token < base.eot for token in base.encode(" <|endoftext|> <|startoftranscript|>"))


def test_the_hugging_face_layout_gives_suppression_and_shifted_controls(tiny):
    assert tiny.eot == len(WORDS)
    assert tiny.no_speech == len(WORDS) + CONTROLS.index("<|nospeech|>")
    assert dict(tiny.languages) == {"en": 10, "es": 11, "yue": 12}
    assert (tiny.suppress_ids, tiny.begin_suppress_ids) == ((4,), (7, 8))
    assert tiny.decode((2, 3, 4)) == " hello there."


def test_a_tokenizer_without_configuration_suppresses_nothing(tmp_path):
    (write_tiny_whisper(tmp_path) / "generation_config.json").unlink()
    tokens = WhisperTokens(tmp_path / "tokenizer.json")
    assert (tokens.suppress_ids, tokens.begin_suppress_ids) == ((), ())


def test_an_english_only_vocabulary_has_no_languages_and_a_short_prefix(tmp_path):
    source = model_path("whisper-base") / "tokenizer.json"
    document = json.loads(source.read_text("utf-8"))
    for token in document["added_tokens"]:
        token["id"] -= 1
    vocabulary = document["model"]["vocab"]
    vocabulary.pop(next(word for word, token in vocabulary.items() if token == 50256))
    vocabulary["<|endoftext|>"] = 50256
    document["model"]["merges"] = []
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(document))
    tokens = WhisperTokens(file)
    assert tokens.eot == 50256 and not tokens.multilingual
    assert tokens.prefix("en", prompt=(5,)) == (tokens.sot_prev, 5, tokens.sot, 50362)


def test_a_missing_tokenizer_is_named(tmp_path):
    with pytest.raises(EngineFailed, match=r"tokenizer\.json"):
        WhisperTokens(tmp_path)


def test_a_tokenizer_of_another_family_is_refused(tmp_path):
    from tokenizers import Tokenizer, models

    Tokenizer(models.WordLevel({"a": 0}, unk_token="a")).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(EngineFailed, match="Whisper"):
        WhisperTokens(tmp_path)
