"""Checkpoints for parity tests: tiny random ones on disk, and whisper-base in transformers."""

import re
from pathlib import Path
from typing import Any

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

from engines.torch.ct2_whisper import Ct2File


def tiny_llama(directory: Path, max_shard_size: str = "1GB", **changes: Any) -> LlamaForCausalLM:
    """Saves a random llama with grouped queries and untied embeddings; returns it."""
    sizes: dict[str, Any] = {
        "vocab_size": 97,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "tie_word_embeddings": False,
        "initializer_range": 0.3,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    torch.manual_seed(7)
    model = LlamaForCausalLM(LlamaConfig(**(sizes | changes))).eval()
    model.save_pretrained(directory, max_shard_size=max_shard_size)
    return model


def tiny_whisper(directory: Path, **changes: Any) -> WhisperForConditionalGeneration:
    """Saves a random Whisper of 2 s windows; returns it."""
    sizes: dict[str, Any] = {
        "vocab_size": 120,
        "num_mel_bins": 80,
        "d_model": 32,
        "encoder_layers": 3,
        "encoder_attention_heads": 2,
        "encoder_ffn_dim": 64,
        "decoder_layers": 2,
        "decoder_attention_heads": 4,
        "decoder_ffn_dim": 48,
        "max_source_positions": 100,
        "max_target_positions": 40,
        "decoder_start_token_id": 100,
        "init_std": 0.3,
        "pad_token_id": 99,
        "bos_token_id": 99,
        "eos_token_id": 99,
        "suppress_tokens": None,
        "begin_suppress_tokens": None,
    }
    torch.manual_seed(11)
    model = WhisperForConditionalGeneration(WhisperConfig(**(sizes | changes))).eval()
    model.save_pretrained(directory)
    return model


_CT2_NAMES = (
    (r"/layer_(\d+)/", r"/layers/\1/"),
    ("position_encodings/encodings", "embed_positions/weight"),
    ("decoder/embeddings", "decoder/embed_tokens"),
    ("self_attention/layer_norm", "self_attn_layer_norm"),
    ("attention/layer_norm", "encoder_attn_layer_norm"),
    ("ffn/layer_norm", "final_layer_norm"),
    ("ffn/linear_0", "fc1"),
    ("ffn/linear_1", "fc2"),
    ("self_attention/linear_0", "self_attn/q_proj k_proj v_proj"),
    ("self_attention/linear_1", "self_attn/out_proj"),
    ("attention/linear_0", "encoder_attn/q_proj"),
    ("attention/linear_1", "encoder_attn/k_proj v_proj"),
    ("attention/linear_2", "encoder_attn/out_proj"),
    ("gamma", "weight"),
    ("beta", "bias"),
    ("/", "."),
)


def whisper_base_in_transformers(directory: Path) -> WhisperForConditionalGeneration:
    """Puts the weights of a CTranslate2 whisper-base into transformers' own model."""
    config = WhisperConfig(
        vocab_size=51_865,
        d_model=512,
        encoder_layers=6,
        encoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_layers=6,
        decoder_attention_heads=8,
        decoder_ffn_dim=2048,
    )
    file = Ct2File(directory / "model.bin")
    weights: dict[str, torch.Tensor] = {}
    for name in file.names():
        values = file.get(name, torch.float32)
        if values.ndim == 0:
            continue
        theirs = name
        for pattern, replacement in _CT2_NAMES:
            theirs = re.sub(pattern, replacement, theirs)
        for part, piece in _split_projections(f"model.{theirs}", values):
            weights[part] = piece
    weights["proj_out.weight"] = weights["model.decoder.embed_tokens.weight"]
    model = WhisperForConditionalGeneration(config).eval()
    model.load_state_dict(weights)
    return model


def _split_projections(name: str, values: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    found = re.match(r"(.*\.)((?:\w_proj ?)+)\.(weight|bias)$", name)
    if found is None:
        return [(name, values)]
    prefix, joined, kind = found.groups()
    parts = joined.split()
    pieces = zip(parts, values.chunk(len(parts)), strict=True)
    # Whisper's key projection has no bias.
    return [
        (f"{prefix}{part}.{kind}", piece)
        for part, piece in pieces
        if (part, kind) != ("k_proj", "bias")
    ]
