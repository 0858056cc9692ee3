"""Reads the weights of a Hugging Face directory, one file or sharded by an index."""

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from engines.errors import EngineFailed, NotFound
from engines.torch.loader import read_json


class SafetensorsDir:
    """Hands out tensors by name; a tensor is read when it is asked for.

    Args:
        directory: holds model.safetensors, or model.safetensors.index.json and its shards.

    Raises:
        NotFound: neither is there, or a shard is missing.
        EngineFailed: a file is damaged.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._files: dict[str, Path] = {}
        for path in self._shards():
            try:
                with safe_open(path, framework="pt") as file:
                    self._files.update(dict.fromkeys(file.keys(), path))
            except SafetensorError as error:
                raise EngineFailed(f"{path} is not a whole safetensors file.") from error

    def _shards(self) -> list[Path]:
        single = self.directory / "model.safetensors"
        if single.is_file():
            return [single]
        index = read_json(self.directory / "model.safetensors.index.json")
        shards = sorted(set(index["weight_map"].values()))
        paths = [self.directory / shard for shard in shards]
        for path in paths:
            if not path.is_file():
                raise NotFound(f"{path}, named in the index, does not exist.")
        return paths

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def get(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """Reads one tensor. Raises `EngineFailed` if the name is not there."""
        path = self._files.get(name)
        if path is None:
            raise EngineFailed(f"{self.directory} lacks the weight {name}.")
        with safe_open(path, framework="pt") as file:
            tensor: torch.Tensor = file.get_tensor(name)
        return tensor.to(dtype)

    def stack(self, names: list[str], dtype: torch.dtype) -> torch.Tensor:
        """Reads several tensors and joins them along the first axis."""
        return torch.cat([self.get(name, dtype) for name in names])
