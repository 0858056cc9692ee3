"""Files written by CTranslate2 itself, read by our parser."""

from pathlib import Path

import numpy as np
import pytest
import torch

from engines.errors import EngineFailed, Unsupported
from engines.torch.ct2_whisper import Ct2File
from engines.torch.loader import load_whisper
from engines.torch.models.whisper import Whisper

specs = pytest.importorskip("ctranslate2").specs

VOCAB, WIDTH, FFN = 24, 16, 32


def _write(directory: Path, quantization: str | None) -> None:
    """Saves a random Whisper of one layer each by CTranslate2's own specification."""
    random = np.random.default_rng(5)
    spec = specs.WhisperSpec(1, 2, 1, 2)
    shapes = {
        "encoder/conv1": (WIDTH, 80, 3),
        "encoder/conv2": (WIDTH, WIDTH, 3),
        "ffn/linear_0": (FFN, WIDTH),
        "ffn/linear_1": (WIDTH, FFN),
        "self_attention/linear_0": (3 * WIDTH, WIDTH),
        "/attention/linear_1": (2 * WIDTH, WIDTH),
        "embeddings": (VOCAB, WIDTH),
        "projection": (VOCAB, WIDTH),
    }

    def fill(layer: object, name: str, value: object) -> None:
        has_bias = name.endswith("/bias") and "projection" not in name
        if value is not None and not has_bias:
            return
        shape = next((s for part, s in shapes.items() if part in name), (WIDTH, WIDTH))
        if name.endswith(("bias", "gamma", "beta")):
            shape = (WIDTH,) if "layer_norm" in name else shape[:1]
        values = random.normal(size=shape).astype(np.float32)
        setattr(layer, name.rsplit("/", 1)[-1], values)

    spec._visit(fill)
    for half, positions in ((spec.encoder, 50), (spec.decoder, 20)):
        encodings = random.normal(size=(positions, WIDTH)).astype(np.float32)
        half.position_encodings.encodings = encodings
    spec.decoder.projection.weight = spec.decoder.embeddings.weight
    spec.register_vocabulary([str(index) for index in range(VOCAB)])
    spec.validate()
    spec.optimize(quantization)
    directory.mkdir()
    spec.save(str(directory))


@torch.inference_mode()
def _logits(model: Whisper) -> torch.Tensor:
    torch.manual_seed(0)
    state = model.decoder.new_state(4)
    model.decoder.read_audio(state, model.encoder(torch.randn(1, 80, 100)))
    return model.decoder(torch.tensor([[1, 2, 3]]), state)


@pytest.mark.parametrize(
    ("quantization", "tolerance"),
    [("float16", 0.01), ("bfloat16", 0.05), ("int16", 0.02), ("int8", 0.1), ("int8_float16", 0.1)],
)
def test_quantized_file_gives_nearly_the_logits_of_the_exact_one(
    tmp_path: Path, quantization: str, tolerance: float
) -> None:
    _write(tmp_path / "exact", None)
    _write(tmp_path / "small", quantization)
    exact = _logits(load_whisper(tmp_path / "exact"))
    small = _logits(load_whisper(tmp_path / "small"))
    assert 0 < (small - exact).abs().max() < tolerance * exact.abs().max()


def test_sizes_are_worked_out_from_the_file(tmp_path: Path) -> None:
    _write(tmp_path / "model", None)
    config = load_whisper(tmp_path / "model").config
    assert (config.mels, config.width, config.encoder_ffn, config.vocab) == (80, WIDTH, FFN, VOCAB)
    assert (config.encoder_heads, config.decoder_layers) == (2, 1)
    assert (config.frames, config.context) == (50, 20)


def test_alias_reads_what_it_stands_for(tmp_path: Path) -> None:
    _write(tmp_path / "model", None)
    file = Ct2File(tmp_path / "model" / "model.bin")
    assert "decoder/projection/weight" in file
    torch.testing.assert_close(
        file.raw("decoder/projection/weight"), file.raw("decoder/embeddings/weight")
    )
    assert len(file.names()) == len(set(file.names()))


@pytest.mark.parametrize("kept_bytes", [3, 40, 2000, -1])
def test_file_that_ends_too_early_is_an_engine_failure(tmp_path: Path, kept_bytes: int) -> None:
    _write(tmp_path / "model", None)
    path = tmp_path / "model" / "model.bin"
    path.write_bytes(path.read_bytes()[:kept_bytes])
    with pytest.raises(EngineFailed, match="damaged or ends too early"):
        load_whisper(tmp_path / "model")


def test_empty_file_is_an_engine_failure(tmp_path: Path) -> None:
    _write(tmp_path / "model", None)
    (tmp_path / "model" / "model.bin").write_bytes(b"")
    with pytest.raises(EngineFailed):
        load_whisper(tmp_path / "model")


def test_other_binary_version_is_refused(tmp_path: Path) -> None:
    _write(tmp_path / "model", None)
    path = tmp_path / "model" / "model.bin"
    path.write_bytes(b"\x05" + path.read_bytes()[1:])
    with pytest.raises(Unsupported, match="version 5"):
        load_whisper(tmp_path / "model")


def test_missing_variable_is_named(tmp_path: Path) -> None:
    _write(tmp_path / "model", None)
    path = tmp_path / "model" / "model.bin"
    path.write_bytes(path.read_bytes().replace(b"encoder/conv2/bias", b"encoder/conv2/bear"))
    with pytest.raises(EngineFailed, match="encoder/conv2/bias"):
        load_whisper(tmp_path / "model")
