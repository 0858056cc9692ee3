"""Writes a Whisper tokenizer of a dozen words in Hugging Face's layout."""

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

WORDS = ("Ġyes", "Ġno", "Ġhello", "Ġthere", ".", "Ġthank", "Ġyou", "Ġagain")
CONTROLS = (
    "<|endoftext|>",
    "<|startoftranscript|>",
    "<|en|>",
    "<|es|>",
    "<|yue|>",
    "<|translate|>",
    "<|transcribe|>",
    "<|startoflm|>",
    "<|startofprev|>",
    "<|nospeech|>",
    "<|notimestamps|>",
)


def write_tiny_whisper(directory: Path) -> Path:
    """Writes `tokenizer.json` and `generation_config.json`; returns the directory."""
    vocabulary = {word: index for index, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="."))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(CONTROLS))
    tokenizer.save(str(directory / "tokenizer.json"))
    generation = {"suppress_tokens": [4], "begin_suppress_tokens": [7, 8]}
    (directory / "generation_config.json").write_text(json.dumps(generation))
    return directory
