from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from engines.errors import EngineFailed, NotFound
from engines.torch.gguf_llama import convert_gguf
from engines.torch.loader import load_llama
from tests.support.models import model_path


def test_converted_directory_has_weights_tokenizer_and_template() -> None:
    directory = model_path("smollm2-135m-instruct")
    config = load_llama(directory).config
    assert (config.layers, config.heads, config.kv_heads, config.tied) == (30, 9, 3, True)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hello"}], add_generation_prompt=True, tokenize=False
    )
    assert text.endswith("<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n")
    assert tokenizer.decode(tokenizer("Hello there").input_ids) == "Hello there"


VOCAB, WIDTH, FFN = 300, 32, 64


def _write_gguf(path: Path) -> dict[str, np.ndarray]:
    """Writes a random llama of one layer; returns its weights."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(VOCAB)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    tokens = ["<unk>", "<s>", "</s>", "t", "h", "th"]
    writer.add_token_list(tokens + [f"<{index}>" for index in range(len(tokens), VOCAB)])
    writer.add_token_merges(["t h"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{{ messages[0]['content'] }}")
    random = np.random.default_rng(2)
    shapes = {
        "token_embd": (VOCAB, WIDTH),
        "output": (VOCAB, WIDTH),
        "output_norm": (WIDTH,),
        "blk.0.attn_norm": (WIDTH,),
        "blk.0.ffn_norm": (WIDTH,),
        "blk.0.attn_q": (WIDTH, WIDTH),
        "blk.0.attn_k": (WIDTH, WIDTH),
        "blk.0.attn_v": (WIDTH, WIDTH),
        "blk.0.attn_output": (WIDTH, WIDTH),
        "blk.0.ffn_gate": (FFN, WIDTH),
        "blk.0.ffn_up": (FFN, WIDTH),
        "blk.0.ffn_down": (WIDTH, FFN),
    }
    weights = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    for name, values in weights.items():
        writer.add_tensor(f"{name}.weight", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def test_gguf_file_becomes_a_directory_that_loads(tmp_path: Path) -> None:
    weights = _write_gguf(tmp_path / "tiny.gguf")
    out = tmp_path / "models" / "tiny"
    convert_gguf(tmp_path / "tiny.gguf", out)
    assert (out / "chat_template.jinja").read_text() == "{{ messages[0]['content'] }}"
    assert (out / "tokenizer.json").is_file()
    assert [path.name for path in out.parent.iterdir()] == ["tiny"]
    model = load_llama(out)
    assert (model.config.layers, model.config.width, model.config.context) == (1, WIDTH, 64)
    expected = torch.from_numpy(weights["token_embd"])
    torch.testing.assert_close(model.tokens.detach(), expected, rtol=1e-3, atol=1e-3)


def test_file_that_is_no_gguf_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"not a model")
    with pytest.raises(EngineFailed, match=r"bad\.gguf cannot be converted"):
        convert_gguf(tmp_path / "bad.gguf", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.gguf"]


def test_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        convert_gguf(tmp_path / "none.gguf", tmp_path / "out")


def test_existing_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    convert_gguf(tmp_path / "none.gguf", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
