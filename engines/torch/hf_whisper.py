"""Reads a `WhisperForConditionalGeneration` directory."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engines.torch.loader import LoadOptions, assign_weights
from engines.torch.models.whisper import Whisper, WhisperConfig
from engines.torch.safetensors_dir import SafetensorsDir


def read_config(config: dict[str, Any]) -> WhisperConfig:
    """Picks the sizes out of config.json."""
    return WhisperConfig(
        mels=config["num_mel_bins"],
        width=config["d_model"],
        encoder_layers=config["encoder_layers"],
        encoder_heads=config["encoder_attention_heads"],
        encoder_ffn=config["encoder_ffn_dim"],
        decoder_layers=config["decoder_layers"],
        decoder_heads=config["decoder_attention_heads"],
        decoder_ffn=config["decoder_ffn_dim"],
        vocab=config["vocab_size"],
        start_id=config["decoder_start_token_id"],
        frames=config["max_source_positions"],
        context=config["max_target_positions"],
    )


def load(directory: Path, config: dict[str, Any], options: LoadOptions) -> Whisper:
    """Loads the model; see `engines.torch.loader.load_model`."""
    sizes = read_config(config)
    with torch.device("meta"):
        model = Whisper(sizes)
    source = SafetensorsDir(directory)
    encoder_dtype = options.encoder_dtype or options.dtype
    weights = _Half(source, "encoder", encoder_dtype).read_encoder(sizes.encoder_layers)
    weights |= _Half(source, "decoder", options.dtype).read_decoder(sizes.decoder_layers)
    assign_weights(model, weights, directory)
    model.freeze()
    return model


class _Half:
    """Reads encoder or decoder and gives its weights our names."""

    def __init__(self, source: SafetensorsDir, half: str, dtype: torch.dtype) -> None:
        self._source = source
        self._half = half
        self._dtype = dtype

    def read_encoder(self, layers: int) -> dict[str, Tensor]:
        weights = {
            "encoder.positions": self._get("embed_positions.weight"),
            **self._pair("conv1", "conv1"),
            **self._pair("conv2", "conv2"),
            **self._pair("norm", "layer_norm"),
        }
        for index in range(layers):
            ours = theirs = f"layers.{index}"
            weights |= self._pair(f"{ours}.attention_norm", f"{theirs}.self_attn_layer_norm")
            weights |= self._fused(f"{ours}.qkv", f"{theirs}.self_attn", "qkv")
            weights |= self._pair(f"{ours}.out", f"{theirs}.self_attn.out_proj")
            weights |= self._mlp(ours, theirs)
        return weights

    def read_decoder(self, layers: int) -> dict[str, Tensor]:
        tokens = self._get("embed_tokens.weight")
        weights = {
            "decoder.tokens": tokens,
            "decoder.head.weight": tokens,  # Whisper ties its output layer
            "decoder.positions": self._get("embed_positions.weight"),
            **self._pair("norm", "layer_norm"),
        }
        for index in range(layers):
            ours = theirs = f"layers.{index}"
            weights |= self._pair(f"{ours}.self_norm", f"{theirs}.self_attn_layer_norm")
            weights |= self._fused(f"{ours}.qkv", f"{theirs}.self_attn", "qkv")
            weights |= self._pair(f"{ours}.self_out", f"{theirs}.self_attn.out_proj")
            weights |= self._pair(f"{ours}.cross_norm", f"{theirs}.encoder_attn_layer_norm")
            weights |= self._pair(f"{ours}.cross_q", f"{theirs}.encoder_attn.q_proj")
            weights |= self._fused(f"{ours}.cross_kv", f"{theirs}.encoder_attn", "kv")
            weights |= self._pair(f"{ours}.cross_out", f"{theirs}.encoder_attn.out_proj")
            weights |= self._mlp(ours, theirs)
        return weights

    def _get(self, name: str) -> Tensor:
        return self._source.get(f"model.{self._half}.{name}", self._dtype)

    def _pair(self, ours: str, theirs: str) -> dict[str, Tensor]:
        return {
            f"{self._half}.{ours}.{kind}": self._get(f"{theirs}.{kind}")
            for kind in ("weight", "bias")
        }

    def _mlp(self, ours: str, theirs: str) -> dict[str, Tensor]:
        return (
            self._pair(f"{ours}.mlp_norm", f"{theirs}.final_layer_norm")
            | self._pair(f"{ours}.fc1", f"{theirs}.fc1")
            | self._pair(f"{ours}.fc2", f"{theirs}.fc2")
        )

    def _fused(self, ours: str, theirs: str, parts: str) -> dict[str, Tensor]:
        weight = torch.cat([self._get(f"{theirs}.{part}_proj.weight") for part in parts])
        # Whisper's key projection has no bias.
        biases = [
            torch.zeros(weight.shape[1], dtype=self._dtype)
            if part == "k"
            else self._get(f"{theirs}.{part}_proj.bias")
            for part in parts
        ]
        name = f"{self._half}.{ours}"
        return {f"{name}.weight": weight, f"{name}.bias": torch.cat(biases)}
