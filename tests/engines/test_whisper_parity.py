"""Our Whisper against transformers and faster-whisper, with the same weights."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from transformers import WhisperForConditionalGeneration

from engines.base import SpeechRequest, Ticket
from engines.torch.loader import load_whisper, read_json
from engines.torch.models.log_mel import LogMel
from engines.torch.models.whisper import Whisper
from engines.torch.whisper_engine import WhisperRunner
from tests.support.checkpoints import tiny_whisper, whisper_base_in_transformers
from tests.support.models import model_path
from tests.support.speech import SPEECH_FILES, read_speech

PREFIX = (50258, 50259, 50359, 50363)  # start, English, transcribe, no timestamps
END_ID = 50257
BLANK_ID = 220
FULL_WINDOW = 30 * 16_000


@pytest.fixture(scope="module")
def ours() -> Whisper:
    return load_whisper(model_path("whisper-base"))


@pytest.fixture(scope="module")
def theirs() -> WhisperForConditionalGeneration:
    return whisper_base_in_transformers(model_path("whisper-base"))


def _greedy(runner: WhisperRunner, stem: str, suppress_ids: tuple[int, ...] = ()) -> list[int]:
    request = SpeechRequest(
        Ticket(stem),
        read_speech(stem),
        PREFIX,
        max_tokens=100,
        stop_ids=(END_ID,),
        suppress_ids=suppress_ids,
        begin_suppress_ids=(BLANK_ID, END_ID),
    )
    runner.check(request)
    return [token for delta in runner.run(request) if delta for token in delta.ids]


@torch.inference_mode()
@pytest.mark.parametrize("stem", SPEECH_FILES)
def test_logits_and_greedy_ids_of_real_speech_equal_those_of_transformers(
    stem: str, ours: Whisper, theirs: WhisperForConditionalGeneration
) -> None:
    tokens = _greedy(WhisperRunner(ours), stem)
    assert len(tokens) > 10
    mel = LogMel(80)(torch.from_numpy(read_speech(stem)), FULL_WINDOW)
    ids = torch.tensor([[*PREFIX, *tokens]])
    expected = theirs(input_features=mel, decoder_input_ids=ids).logits
    state = ours.decoder.new_state(ids.shape[1])
    ours.decoder.read_audio(state, ours.encoder(mel))
    assert (ours.decoder(ids, state) - expected).abs().max() < 1e-4

    # If every id is their likeliest after those before it, their greedy search gives the same.
    following = expected[0, len(PREFIX) - 1 :]
    following[0, [BLANK_ID, END_ID]] = -torch.inf
    assert following.argmax(-1).tolist() == [*tokens, END_ID]


@torch.inference_mode()
def test_decoding_id_by_id_equals_one_pass(ours: Whisper) -> None:
    mel = LogMel(80)(torch.from_numpy(read_speech("1221-135766-0002")), 6 * 16_000)
    ids = torch.tensor([[*PREFIX, 5349, 257, 1002, 13]])
    encoded = ours.encoder(mel)
    whole, stepped = ours.decoder.new_state(2), ours.decoder.new_state(2)
    for state in (whole, stepped):
        ours.decoder.read_audio(state, encoded)
    at_once = ours.decoder(ids, whole)
    one_by_one = [ours.decoder(ids[:, at : at + 1], stepped) for at in range(ids.shape[1])]
    assert (torch.cat(one_by_one, 1) - at_once).abs().max() < 1e-4


def test_text_of_real_speech_equals_that_of_faster_whisper(ours: Whisper) -> None:
    faster_whisper = pytest.importorskip("faster_whisper")
    directory = model_path("whisper-base")
    peer = faster_whisper.WhisperModel(str(directory), device="cpu", compute_type="float32")
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    suppress_ids = tuple(read_json(directory / "config.json")["suppress_ids"])
    runner = WhisperRunner(ours)
    for stem in SPEECH_FILES:
        segments, _ = peer.transcribe(
            read_speech(stem),
            language="en",
            beam_size=1,
            temperature=0.0,
            without_timestamps=True,
            condition_on_previous_text=False,
        )
        expected = "".join(segment.text for segment in segments)
        text = tokenizer.decode(_greedy(runner, stem, suppress_ids), skip_special_tokens=True)
        assert text.strip() == expected.strip()


@torch.inference_mode()
@pytest.mark.parametrize("mels", [80, 128])
def test_random_safetensors_checkpoint_equals_transformers(tmp_path: Path, mels: int) -> None:
    theirs = tiny_whisper(tmp_path, num_mel_bins=mels)
    ours = load_whisper(tmp_path)
    torch.manual_seed(1)
    mel, ids = torch.randn(2, mels, 200), torch.randint(0, 120, (2, 9))
    encoded = ours.encoder(mel)
    expected = theirs(input_features=mel, decoder_input_ids=ids)
    assert (encoded - expected.encoder_last_hidden_state).abs().max() < 1e-4
    state = ours.decoder.new_state(9, batch=2)
    ours.decoder.read_audio(state, encoded)
    assert (ours.decoder(ids, state) - expected.logits).abs().max() < 1e-4
