"""Reads a `LlamaForCausalLM` directory."""

import logging
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engines.errors import Unsupported
from engines.torch.calibration import calibrate
from engines.torch.layers.rope import Llama3Scaling
from engines.torch.layers.weight_formats import Packing, is_lossless
from engines.torch.loader import LoadOptions, assign_weights
from engines.torch.models.llama import Llama, LlamaConfig
from engines.torch.safetensors_dir import SafetensorsDir

logger = logging.getLogger(__name__)


def read_config(config: dict[str, Any]) -> LlamaConfig:
    """Picks the sizes out of config.json. Raises `Unsupported` for an unknown variant."""
    activation = config.get("hidden_act", "silu")
    if activation != "silu":
        raise Unsupported(f"The activation {activation} is not supported in a llama model.")
    # Older files keep theta beside `rope_scaling`; newer ones put both in `rope_parameters`.
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    heads = config["num_attention_heads"]
    return LlamaConfig(
        vocab=config["vocab_size"],
        width=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or config["hidden_size"] // heads,
        ffn=config["intermediate_size"],
        norm_eps=config["rms_norm_eps"],
        context=config["max_position_embeddings"],
        rope_theta=rope.get("rope_theta") or config.get("rope_theta") or 10_000.0,
        rope_scaling=_read_scaling(rope),
        tied=bool(config.get("tie_word_embeddings")),
        attention_bias=bool(config.get("attention_bias")),
        mlp_bias=bool(config.get("mlp_bias")),
    )


def _read_scaling(rope: dict[str, Any]) -> Llama3Scaling | None:
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return None
    if kind != "llama3":
        raise Unsupported(f"The rotary scaling {kind} is not supported.")
    return Llama3Scaling(
        factor=rope["factor"],
        low_freq_factor=rope["low_freq_factor"],
        high_freq_factor=rope["high_freq_factor"],
        original_context=rope["original_max_position_embeddings"],
    )


def load(directory: Path, config: dict[str, Any], options: LoadOptions) -> Llama:
    """Loads the model; see `engines.torch.loader.load_model`."""
    sizes = read_config(config)
    with torch.device("meta"):
        model = Llama(sizes)
    weights = _read_weights(SafetensorsDir(directory), sizes, options.dtype)
    assign_weights(model, weights, directory)
    model.freeze(_packing(weights) if options.calibrate else None)
    return model


def _packing(weights: dict[str, Tensor]) -> Packing | None:
    """Returns the layout that suits the widest product of a layer, which stands for all."""
    weight = weights["layers.0.mlp.gate_up.weight"]
    # The head is as wide as the vocabulary and may come from elsewhere: both must be exact.
    calibration = calibrate(weight) if weight.dtype is torch.float32 else None
    if calibration is None:
        return None
    if not all(
        is_lossless(value, calibration.packing.decode)
        for name, value in weights.items()
        if value.dim() == 2 and name != "tokens"
    ):
        return None
    logger.info(
        "linear weights are held as %s: %.2f times float32 in decode steps, %.2f in prefill",
        calibration.packing.decode,
        calibration.decode_gain,
        calibration.prefill_gain,
    )
    return calibration.packing


def _read_weights(
    source: SafetensorsDir, config: LlamaConfig, dtype: torch.dtype
) -> dict[str, Tensor]:
    tokens = source.get("model.embed_tokens.weight", dtype)
    weights = {
        "tokens": tokens,
        "norm.weight": source.get("model.norm.weight", dtype),
        "head.weight": tokens if config.tied else source.get("lm_head.weight", dtype),
    }
    for index in range(config.layers):
        ours, theirs = f"layers.{index}", f"model.layers.{index}"
        attention, mlp = f"{theirs}.self_attn", f"{theirs}.mlp"
        plain = {
            f"{ours}.attention_norm": f"{theirs}.input_layernorm",
            f"{ours}.mlp_norm": f"{theirs}.post_attention_layernorm",
        }
        for name, other in plain.items():
            weights[f"{name}.weight"] = source.get(f"{other}.weight", dtype)
        fused = {
            f"{ours}.attention.qkv": [f"{attention}.{part}_proj" for part in "qkv"],
            f"{ours}.attention.out": [f"{attention}.o_proj"],
            f"{ours}.mlp.gate_up": [f"{mlp}.gate_proj", f"{mlp}.up_proj"],
            f"{ours}.mlp.down": [f"{mlp}.down_proj"],
        }
        for name, others in fused.items():
            has_bias = config.mlp_bias if ".mlp." in name else config.attention_bias
            for kind in ("weight", "bias") if has_bias else ("weight",):
                weights[f"{name}.{kind}"] = source.stack([f"{o}.{kind}" for o in others], dtype)
    return weights
