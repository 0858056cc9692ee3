"""Reads the ids of a Whisper checkpoint from its own files: words, languages, controls.

Nothing is assumed about numbers: large-v3 has one language more than the models before
it, which shifts every control id, and English-only models have another vocabulary.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tokenizers import Tokenizer

from asr.transcript import Task
from engines.errors import BadRequest, EngineFailed

_LANGUAGE = re.compile(r"<\|([a-z]{2,3})\|>")
# English-only checkpoints keep GPT-2's vocabulary, whose end of text has this number, and
# carry language ids that mean nothing (tokenizer.py of openai/whisper).
_ENGLISH_ONLY_EOT = 50256


class WhisperTokens:
    """Translates between text and ids for one checkpoint.

    Args:
        path: `tokenizer.json`, or the model directory that holds it. Beside it lies
            `config.json` in CTranslate2's layout, or `generation_config.json` in Hugging
            Face's; without either nothing is suppressed.

    Attributes:
        eot, sot, sot_prev, no_timestamps, transcribe, translate: control ids.
        no_speech: id whose probability says that nobody speaks.
        languages: ISO 639-1 code -> id; empty for an English-only model.
        suppress_ids: ids that are never generated.
        begin_suppress_ids: ids that may not come first.
    """

    def __init__(self, path: Path) -> None:
        file = path / "tokenizer.json" if path.is_dir() else path
        self._tokenizer = _load(file)
        self.eot = self._control("<|endoftext|>")
        self.sot = self._control("<|startoftranscript|>")
        self.sot_prev = self._control("<|startofprev|>")
        self.no_timestamps = self._control("<|notimestamps|>")
        self.transcribe = self._control("<|transcribe|>")
        self.translate = self._control("<|translate|>")
        # large-v3 renamed it
        self.no_speech = self._control("<|nospeech|>", "<|nocaptions|>")
        self.languages: Mapping[str, int] = MappingProxyType(self._languages())
        self._codes = {token: code for code, token in self.languages.items()}
        suppress, begin = _suppressed(file.parent)
        self.suppress_ids = suppress
        self.begin_suppress_ids = begin

    @property
    def multilingual(self) -> bool:
        """Says whether the model knows languages other than English."""
        return bool(self.languages)

    def prefix(
        self, language: str, task: Task = Task.TRANSCRIBE, prompt: tuple[int, ...] = ()
    ) -> tuple[int, ...]:
        """Returns the ids that the decoder starts from, without timestamps.

        Args:
            language: ISO 639-1 code; ignored by an English-only model.
            task: what is to be written.
            prompt: ids of words to be expected, without controls.

        Raises:
            BadRequest: the model does not know the language.
        """
        before = (self.sot_prev, *prompt) if prompt else ()
        if not self.multilingual:
            return (*before, self.sot, self.no_timestamps)
        task_id = self.translate if task is Task.TRANSLATE else self.transcribe
        return (*before, self.sot, self.language_id(language), task_id, self.no_timestamps)

    def language_id(self, language: str) -> int:
        """Returns the id of a language given by its code in any case, or like "en-US"."""
        code = language.lower().replace("_", "-").split("-")[0]
        if code not in self.languages:
            raise BadRequest(f"the speech model does not know the language {language!r}")
        return self.languages[code]

    def language_of(self, token: int) -> str | None:
        """Returns the code of a language id; None for any other id."""
        return self._codes.get(token)

    def encode(self, text: str) -> tuple[int, ...]:
        """Returns the ids of plain text; controls spelt out in it stay plain text."""
        plain = text.replace("<|", "< |")
        return tuple(self._tokenizer.encode(plain, add_special_tokens=False).ids)

    def decode(self, ids: tuple[int, ...]) -> str:
        """Returns the text of the ids, controls and timestamps left out."""
        words = [token for token in ids if token < self.eot]
        return str(self._tokenizer.decode(words, skip_special_tokens=False))

    def _control(self, *spellings: str) -> int:
        for spelling in spellings:
            token = self._tokenizer.token_to_id(spelling)
            if token is not None:
                return int(token)
        raise EngineFailed(f"the tokenizer has no {spellings[0]}: it is not Whisper's")

    def _languages(self) -> dict[str, int]:
        if self.eot == _ENGLISH_ONLY_EOT:
            return {}
        found = {}
        # Languages stand between the start of transcript and the tasks.
        for token in range(self.sot + 1, min(self.translate, self.transcribe)):
            match = _LANGUAGE.fullmatch(self._tokenizer.id_to_token(token) or "")
            if match:
                found[match[1]] = token
        return found


def _load(file: Path) -> Tokenizer:
    if not file.is_file():
        raise EngineFailed(f"the speech model has no tokenizer: {file} is missing")
    return Tokenizer.from_file(str(file))


def _read(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text("utf-8"))) if file.is_file() else {}


def _suppressed(directory: Path) -> tuple[tuple[int, ...], tuple[int, ...]]:
    config = _read(directory / "config.json")
    if "suppress_ids" in config:
        return tuple(config["suppress_ids"]), tuple(config.get("suppress_ids_begin", ()))
    generation = {**config, **_read(directory / "generation_config.json")}
    return (
        tuple(generation.get("suppress_tokens") or ()),
        tuple(generation.get("begin_suppress_tokens") or ()),
    )
