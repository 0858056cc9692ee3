"""Reads a CTranslate2 Whisper directory (the layout that faster-whisper publishes).

The format is CTranslate2's binary version 6, little-endian, as its `ModelSpec` writes it:
version, specification name, revision, then the variables (name, shape, dtype, bytes), then
the aliases (name, name of the variable it stands for). A quantized weight has a companion
`<name>_scale` by which it is divided: one scale a row (int8) or one in all (int16).
"""

import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engines.errors import EngineFailed, Unsupported
from engines.torch.loader import LoadOptions, assign_weights
from engines.torch.models.whisper import Whisper, WhisperConfig

BINARY_VERSION = 6
SPEC_NAME = "WhisperSpec"
SPEC_REVISION = 3
# CTranslate2's DataType enumeration; numpy has no bfloat16, so its bits come as int16.
_NUMPY_DTYPES = ("float32", "int8", "int16", "int32", "float16", "int16")
_BFLOAT16 = 5


class Ct2File:
    """Is a parsed model.bin: scalars and arrays by name, aliases resolved.

    Args:
        path: the file; it is mapped, and a variable is copied when it is asked for.

    Raises:
        Unsupported: another version or model.
        EngineFailed: the file ends too early.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            try:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError as error:  # an empty file cannot be mapped
                raise EngineFailed(f"{path} is empty.") from error
        self._at = 0
        self._variables: dict[str, tuple[tuple[int, ...], int, int]] = {}
        self._aliases: dict[str, str] = {}
        try:
            self._parse()
        except (struct.error, UnicodeDecodeError) as error:
            raise EngineFailed(f"{path} is damaged or ends too early.") from error

    def _parse(self) -> None:
        found = (self._number("<I"), self._string(), self._number("<I"))
        if found != (BINARY_VERSION, SPEC_NAME, SPEC_REVISION):
            raise Unsupported(
                f"{self.path} is {found[1]} {found[2]} in binary version {found[0]}; wanted is "
                f"{SPEC_NAME} {SPEC_REVISION} in version {BINARY_VERSION}."
            )
        for _ in range(self._number("<I")):
            name = self._string()
            shape = tuple(self._number("<I") for _ in range(self._number("<B")))
            dtype, size = self._number("<B"), self._number("<I")
            self._variables[name] = (shape, dtype, self._at)
            self._at += size
        for _ in range(self._number("<I")):
            name = self._string()
            self._aliases[name] = self._string()

    def _number(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return int(value)

    def _string(self) -> str:
        length = self._number("<H")  # with the closing zero
        text = self._data[self._at : self._at + length]
        if len(text) != length:
            raise EngineFailed(f"{self.path} is damaged or ends too early.")
        self._at += length
        return text[:-1].decode()

    def __contains__(self, name: str) -> bool:
        return self._aliases.get(name, name) in self._variables

    def names(self) -> list[str]:
        """Returns the names of all variables, without aliases."""
        return list(self._variables)

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a variable. Raises `EngineFailed` if it is not there."""
        return self._find(name)[0]

    def _find(self, name: str) -> tuple[tuple[int, ...], int, int]:
        try:
            return self._variables[self._aliases.get(name, name)]
        except KeyError as error:
            raise EngineFailed(f"{self.path} lacks the variable {name}.") from error

    def raw(self, name: str) -> Tensor:
        """Copies one variable as it is stored. Raises `EngineFailed` if it is not there."""
        shape, dtype, offset = self._find(name)
        if dtype >= len(_NUMPY_DTYPES):
            raise Unsupported(f"{self.path} stores {name} in the unknown type {dtype}.")
        count = int(np.prod(shape, dtype=np.int64))
        values = np.frombuffer(self._data, _NUMPY_DTYPES[dtype], count, offset)
        tensor = torch.from_numpy(values.reshape(shape).copy())
        return tensor.view(torch.bfloat16) if dtype == _BFLOAT16 else tensor

    def get(self, name: str, dtype: torch.dtype) -> Tensor:
        """Copies one variable as `dtype`, scales divided out."""
        values = self.raw(name)
        if f"{name}_scale" in self:
            scale = self.raw(f"{name}_scale").float()
            values = values.float() / scale.view(-1, *[1] * (values.ndim - 1))
        return values.to(dtype)


def read_config(file: Ct2File) -> WhisperConfig:
    """Works the sizes out from the shapes."""
    width, mels, _ = file.shape("encoder/conv1/weight")
    frames, _ = file.shape("encoder/position_encodings/encodings")
    context, _ = file.shape("decoder/position_encodings/encodings")
    vocab, _ = file.shape("decoder/embeddings/weight")
    return WhisperConfig(
        mels=mels,
        width=width,
        encoder_layers=_count_layers(file, "encoder"),
        encoder_heads=int(file.raw("encoder/num_heads")),
        encoder_ffn=file.shape("encoder/layer_0/ffn/linear_0/weight")[0],
        decoder_layers=_count_layers(file, "decoder"),
        decoder_heads=int(file.raw("decoder/num_heads")),
        decoder_ffn=file.shape("decoder/layer_0/ffn/linear_0/weight")[0],
        vocab=vocab,
        start_id=_start_id(vocab),
        frames=frames,
        context=context,
    )


def _start_id(vocab: int) -> int:
    # English-only checkpoints have 51,864 ids and one text id fewer than the multilingual
    # ones; start of transcript follows the end-of-text id, which follows the text ids.
    return 50_257 if vocab == 51_864 else 50_258


def _count_layers(file: Ct2File, half: str) -> int:
    count = 0
    while f"{half}/layer_{count}/ffn/linear_0/weight" in file:
        count += 1
    return count


def load(directory: Path, config: dict[str, Any], options: LoadOptions) -> Whisper:
    """Loads the model; see `engines.torch.loader.load_model`. The config is not needed."""
    file = Ct2File(directory / "model.bin")
    sizes = read_config(file)
    with torch.device("meta"):
        model = Whisper(sizes)
    weights = _read_encoder(file, sizes, options.encoder_dtype or options.dtype)
    weights |= _read_decoder(file, sizes, options.dtype)
    assign_weights(model, weights, directory)
    model.freeze()
    return model


def _read_encoder(file: Ct2File, config: WhisperConfig, dtype: torch.dtype) -> dict[str, Tensor]:
    names = {"encoder.positions": "encoder/position_encodings/encodings"}
    names |= _pair("encoder.conv1", "encoder/conv1") | _pair("encoder.conv2", "encoder/conv2")
    names |= _norm("encoder.norm", "encoder/layer_norm")
    for index in range(config.encoder_layers):
        ours, theirs = f"encoder.layers.{index}", f"encoder/layer_{index}"
        names |= _norm(f"{ours}.attention_norm", f"{theirs}/self_attention/layer_norm")
        names |= _pair(f"{ours}.qkv", f"{theirs}/self_attention/linear_0")
        names |= _pair(f"{ours}.out", f"{theirs}/self_attention/linear_1")
        names |= _mlp(ours, theirs)
    return {ours: file.get(theirs, dtype) for ours, theirs in names.items()}


def _read_decoder(file: Ct2File, config: WhisperConfig, dtype: torch.dtype) -> dict[str, Tensor]:
    names = {
        "decoder.tokens": "decoder/embeddings/weight",
        "decoder.positions": "decoder/position_encodings/encodings",
    } | _norm("decoder.norm", "decoder/layer_norm")
    for index in range(config.decoder_layers):
        ours, theirs = f"decoder.layers.{index}", f"decoder/layer_{index}"
        names |= _norm(f"{ours}.self_norm", f"{theirs}/self_attention/layer_norm")
        names |= _pair(f"{ours}.qkv", f"{theirs}/self_attention/linear_0")
        names |= _pair(f"{ours}.self_out", f"{theirs}/self_attention/linear_1")
        names |= _norm(f"{ours}.cross_norm", f"{theirs}/attention/layer_norm")
        names |= _pair(f"{ours}.cross_q", f"{theirs}/attention/linear_0")
        names |= _pair(f"{ours}.cross_kv", f"{theirs}/attention/linear_1")
        names |= _pair(f"{ours}.cross_out", f"{theirs}/attention/linear_2")
        names |= _mlp(ours, theirs)
    weights = {ours: file.get(theirs, dtype) for ours, theirs in names.items()}
    weights["decoder.head.weight"] = weights["decoder.tokens"]  # Whisper ties its output layer
    return weights


def _pair(ours: str, theirs: str) -> dict[str, str]:
    return {f"{ours}.weight": f"{theirs}/weight", f"{ours}.bias": f"{theirs}/bias"}


def _norm(ours: str, theirs: str) -> dict[str, str]:
    return {f"{ours}.weight": f"{theirs}/gamma", f"{ours}.bias": f"{theirs}/beta"}


def _mlp(ours: str, theirs: str) -> dict[str, str]:
    return (
        _norm(f"{ours}.mlp_norm", f"{theirs}/ffn/layer_norm")
        | _pair(f"{ours}.fc1", f"{theirs}/ffn/linear_0")
        | _pair(f"{ours}.fc2", f"{theirs}/ffn/linear_1")
    )
