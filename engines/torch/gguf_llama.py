"""Turns a GGUF file into a Hugging Face directory, once, through `transformers`."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch

from engines.errors import EngineFailed, NotFound


def convert_gguf(gguf: Path, out_dir: Path, dtype: torch.dtype = torch.float16) -> None:
    """Writes config, weights, tokenizer and chat template of a GGUF file.

    The directory appears whole or not at all: it is written beside its place and renamed.

    Args:
        gguf: the file.
        out_dir: what to create; nothing is done if it exists.
        dtype: of the written weights. Quantized GGUF blocks carry float16 scales, so
            float16 loses nothing that matters and takes half the disk of float32.

    Raises:
        NotFound: the GGUF file does not exist.
        EngineFailed: it cannot be read or the result cannot be written.
    """
    if out_dir.exists():
        return
    if not gguf.is_file():
        raise NotFound(f"{gguf} does not exist.")
    out_dir.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{out_dir.name}-", dir=out_dir.parent))
    try:
        _convert(gguf, draft, dtype)
        _open_to_all(draft)
        draft.rename(out_dir)
    except Exception as error:  # the libraries below raise bare Exception, too
        raise EngineFailed(f"{gguf} cannot be converted: {error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _open_to_all(directory: Path) -> None:
    # Temporary names come readable by their owner only; a cache may be filled by one user
    # and served by another.
    directory.chmod(0o755)
    for file in directory.iterdir():
        file.chmod(0o644)


def _convert(gguf: Path, directory: Path, dtype: torch.dtype) -> None:
    # Imported here: transformers takes seconds to import, and only a first fetch needs it.
    import transformers

    where, name = str(gguf.parent), gguf.name
    tokenizer = transformers.AutoTokenizer.from_pretrained(where, gguf_file=name)
    options: dict[str, Any] = {"gguf_file": name, "dtype": dtype}
    # Later releases keep the weights in GGUF blocks, which cannot be saved, unless they are
    # told not to; earlier ones know only the dense form.
    if hasattr(transformers, "GgufConfig"):
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(where, **options)
    tokenizer.save_pretrained(directory)
    model.save_pretrained(directory)
