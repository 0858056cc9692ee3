import json
from pathlib import Path

import pytest
import torch

from engines.errors import EngineFailed, NotFound, Unsupported
from engines.torch.loader import LoadOptions, load_llama, load_model, load_whisper
from engines.torch.teacher_forcing import logits_of
from tests.support.checkpoints import tiny_llama, tiny_whisper


def _change_config(directory: Path, **changes: object) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@torch.inference_mode()
def test_sharded_checkpoint_equals_the_single_file(tmp_path: Path) -> None:
    tiny_llama(tmp_path / "one")
    tiny_llama(tmp_path / "many", max_shard_size="10KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 1
    one, many = (load_llama(tmp_path / name) for name in ("one", "many"))
    (expected,) = logits_of(one, (1, 5, 9))
    (logits,) = logits_of(many, (1, 5, 9))
    torch.testing.assert_close(logits, expected)


@torch.inference_mode()
def test_bfloat16_stays_near_float32(tmp_path: Path) -> None:
    tiny_llama(tmp_path, initializer_range=0.1)
    exact = load_llama(tmp_path)
    rough = load_llama(tmp_path, LoadOptions(torch.bfloat16))
    (expected,) = logits_of(exact, (1, 5, 9, 3))
    (logits,) = logits_of(rough, (1, 5, 9, 3))
    assert logits.dtype == torch.float32
    assert 0 < (logits - expected).abs().max() < 0.05 * expected.abs().max()


@torch.inference_mode()
def test_encoder_dtype_leaves_the_decoder_alone(tmp_path: Path) -> None:
    tiny_whisper(tmp_path)
    mixed = load_whisper(tmp_path, LoadOptions(encoder_dtype=torch.bfloat16))
    encoded = mixed.encoder(torch.randn(1, 80, 200))
    state = mixed.decoder.new_state(4)
    mixed.decoder.read_audio(state, encoded)
    assert encoded.dtype == torch.bfloat16
    assert state.cross[0][0].dtype == torch.float32
    assert mixed.decoder(torch.tensor([[100, 3]]), state).isfinite().all()


def test_old_style_rope_settings_are_read(tmp_path: Path) -> None:
    tiny_llama(tmp_path)
    scaling = {
        "type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }
    _change_config(tmp_path, rope_parameters=None, rope_theta=5e5, rope_scaling=scaling)
    config = load_llama(tmp_path).config
    assert config.rope_theta == 5e5
    assert config.rope_scaling is not None and config.rope_scaling.factor == 8.0


def test_directory_without_config_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"config\.json"):
        load_model(tmp_path)


def test_unknown_architecture_is_refused_with_those_known(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["ParrotForCausalLM"]}')
    with pytest.raises(Unsupported, match=r"Parrot.*LlamaForCausalLM"):
        load_model(tmp_path)


def test_model_of_another_kind_is_refused(tmp_path: Path) -> None:
    tiny_llama(tmp_path)
    with pytest.raises(Unsupported, match="not a Whisper"):
        load_whisper(tmp_path)


def test_unknown_rope_is_refused(tmp_path: Path) -> None:
    tiny_llama(tmp_path)
    _change_config(tmp_path, rope_parameters={"rope_type": "yarn", "rope_theta": 1e4})
    with pytest.raises(Unsupported, match="yarn"):
        load_llama(tmp_path)


def test_missing_shard_is_not_found(tmp_path: Path) -> None:
    tiny_llama(tmp_path, max_shard_size="10KB")
    next(tmp_path.glob("*.safetensors")).unlink()
    with pytest.raises(NotFound, match="named in the index"):
        load_model(tmp_path)


def test_truncated_weights_are_an_engine_failure(tmp_path: Path) -> None:
    tiny_llama(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(EngineFailed, match="whole safetensors"):
        load_model(tmp_path)


def test_missing_weight_is_named(tmp_path: Path) -> None:
    tiny_llama(tmp_path)
    _change_config(tmp_path, num_hidden_layers=3)
    with pytest.raises(EngineFailed, match=r"lacks the weight model\.layers\.2"):
        load_model(tmp_path)


def test_weights_of_other_sizes_are_an_engine_failure(tmp_path: Path) -> None:
    tiny_llama(tmp_path)
    _change_config(tmp_path, vocab_size=50)
    with pytest.raises(EngineFailed, match="do not fit"):
        load_model(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]"])
def test_damaged_config_is_an_engine_failure(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(EngineFailed, match="JSON"):
        load_model(tmp_path)
