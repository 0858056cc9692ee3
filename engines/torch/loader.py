"""Builds models from files on disk: finds out what a directory holds and reads it.

Nothing is downloaded here, and no tokenizer is read: engines speak of ids only.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from engines.errors import EngineFailed, NotFound, Unsupported
from engines.torch.models.llama import Llama
from engines.torch.models.whisper import Whisper


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Says how weights are held.

    Attributes:
        dtype: of weights, activations and caches; float32 or bfloat16.
        encoder_dtype: of an encoder half, where it differs; None takes `dtype`.
        calibrate: measure which lossless layout of the linear weights is quickest here and
            take it; language models only.
    """

    dtype: torch.dtype = torch.float32
    encoder_dtype: torch.dtype | None = None
    calibrate: bool = False


Model = Whisper | Llama
Loader = Callable[[Path, dict[str, Any], LoadOptions], Model]

# Architecture in config.json -> module that reads it, imported on use.
_ARCHITECTURES = {
    "WhisperForConditionalGeneration": "engines.torch.hf_whisper",
    "LlamaForCausalLM": "engines.torch.hf_llama",
}
_CTRANSLATE2 = "engines.torch.ct2_whisper"
_Wanted = TypeVar("_Wanted", Whisper, Llama)


def load_model(directory: Path, options: LoadOptions = LoadOptions()) -> Model:
    """Loads the model in a directory.

    Args:
        directory: a Hugging Face directory with safetensors, or a CTranslate2 Whisper.
        options: how weights are held.

    Raises:
        NotFound: a file is missing.
        Unsupported: the architecture or the format is not known.
        EngineFailed: the files are damaged.
    """
    config = read_json(directory / "config.json")
    return _reader(directory, config)(directory, config, options)


def load_whisper(directory: Path, options: LoadOptions = LoadOptions()) -> Whisper:
    """Loads a Whisper; errors as in `load_model`."""
    return _expect(load_model(directory, options), Whisper, directory)


def load_llama(directory: Path, options: LoadOptions = LoadOptions()) -> Llama:
    """Loads a llama-family model; errors as in `load_model`."""
    return _expect(load_model(directory, options), Llama, directory)


def _expect(model: Model, wanted: type[_Wanted], directory: Path) -> _Wanted:
    if not isinstance(model, wanted):
        raise Unsupported(f"{directory} holds a {type(model).__name__}, not a {wanted.__name__}.")
    return model


def _reader(directory: Path, config: dict[str, Any]) -> Loader:
    names = config.get("architectures") or []
    for name in names:
        if name in _ARCHITECTURES:
            return _load_function(_ARCHITECTURES[name])
    if not names and (directory / "model.bin").is_file():
        return _load_function(_CTRANSLATE2)
    known = ", ".join(_ARCHITECTURES)
    raise Unsupported(
        f"{directory} holds {', '.join(names) or 'no named architecture'}; known are {known}."
    )


def _load_function(module: str) -> Loader:
    load: Loader = import_module(module).load
    return load


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object. Raises `NotFound` or `EngineFailed` (not JSON, not an object)."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise NotFound(f"{path} does not exist.") from error
    except ValueError as error:
        raise EngineFailed(f"{path} is not valid JSON.") from error
    if not isinstance(value, dict):
        raise EngineFailed(f"{path} is not a JSON object.")
    return value


def assign_weights(model: nn.Module, weights: dict[str, torch.Tensor], source: Path) -> None:
    """Puts weights into a model built on the meta device.

    Raises:
        EngineFailed: a weight is missing, left over, or has the wrong shape.
    """
    try:
        model.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        raise EngineFailed(f"The weights in {source} do not fit its configuration.") from error
