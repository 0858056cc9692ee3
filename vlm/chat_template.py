"""Messages to prompt ids: a model's tokenizer and the chat template that it was trained on."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Template, TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from engines.errors import BadRequest, NotFound, Unsupported
from vlm.messages import ChatMessage

# What ends a turn in the families that we know, or begins somebody else's;
# generation_config.json often names only the end of the text.
_TURN_ENDS = (
    *("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>", "</s>"),
    *("<|im_start|>", "<|start_header_id|>", "<start_of_turn>"),
)


class ChatTemplate:
    """Renders conversations for one model.

    A longer conversation renders to ids that begin with those of a shorter one, as far as
    the model's own template allows: a single differing id loses the cache behind it.

    Args:
        tokenizer: the model's tokenizer.
        source: Jinja source of the chat template.
        tokens: "bos_token", "eos_token" and their like, for the template.
        stop_ids: ids that end a turn.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        source: str,
        tokens: Mapping[str, str],
        stop_ids: tuple[int, ...],
    ) -> None:
        self.tokenizer = tokenizer
        self.stop_ids = stop_ids
        self._template = _compile(source)
        self._tokens = dict(tokens)
        added = tokenizer.get_added_tokens_decoder().values()
        self._marks = tuple(token.content for token in added if token.special)

    @classmethod
    def load(cls, directory: Path) -> "ChatTemplate":
        """Reads a Hugging Face model directory.

        Raises:
            NotFound: there is no tokenizer.json.
            Unsupported: the model has no chat template.
        """
        path = directory / "tokenizer.json"
        if not path.is_file():
            raise NotFound(f"There is no tokenizer.json in {directory}.")
        tokenizer = Tokenizer.from_file(str(path))
        config = _read_json(directory / "tokenizer_config.json")
        tokens = {name: _content(config[name]) for name in config if name.endswith("_token")}
        generation = _read_json(directory / "generation_config.json")
        return cls(
            tokenizer,
            _find_source(directory, config),
            tokens,
            _stop_ids(tokenizer, tokens, generation),
        )

    @property
    def marks(self) -> tuple[str, ...]:
        """Special tokens as text; none of them belongs into a message or a reply."""
        return self._marks

    def render(self, messages: Sequence[ChatMessage]) -> tuple[int, ...]:
        """Returns the prompt that asks the assistant for the next turn.

        Special tokens inside of a message's text are taken out: nobody but the template
        may end a turn or begin one.

        Raises:
            BadRequest: the template refuses this order of roles.
        """
        turns = [
            {"role": message.role, "content": self.plain(message.text)} for message in messages
        ]
        try:
            prompt = self._template.render(
                messages=turns, add_generation_prompt=True, **self._tokens
            )
        except TemplateError as error:
            raise BadRequest(f"The model's chat template refuses this: {error}.") from error
        return tuple(self.tokenizer.encode(prompt, add_special_tokens=False).ids)

    def count(self, text: str) -> int:
        """Returns how many tokens a text has by itself."""
        return len(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def plain(self, text: str) -> str:
        """Returns the text without special tokens, also such as appear by their removal."""
        before = None
        while before != text:
            before = text
            for mark in self._marks:
                text = text.replace(mark, "")
        return text


def _compile(source: str) -> Template:
    """Compiles a template in the dialect that model authors write for."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(
        value, ensure_ascii=False, **options
    )
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda pattern: datetime.now().strftime(pattern)
    return environment.from_string(source)


def _refuse(message: str) -> None:
    raise TemplateError(message)


def _find_source(directory: Path, config: Mapping[str, Any]) -> str:
    """Finds the template: a file of its own in newer models, else in the configuration."""
    path = directory / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    stored = config.get("chat_template")
    if isinstance(stored, list):  # several named templates
        stored = {entry["name"]: entry["template"] for entry in stored}.get("default")
    if not isinstance(stored, str):
        raise Unsupported(f"The model in {directory} has no chat template.")
    return stored


def _stop_ids(
    tokenizer: Tokenizer, tokens: Mapping[str, str], generation: Mapping[str, Any]
) -> tuple[int, ...]:
    """Collects every id that ends a turn."""
    stored = generation.get("eos_token_id")
    ids: set[int] = set(stored if isinstance(stored, list) else [] if stored is None else [stored])
    ends: Iterable[str] = (*_TURN_ENDS, tokens.get("eos_token", ""))
    ids.update(found for end in ends if (found := tokenizer.token_to_id(end)) is not None)
    return tuple(sorted(ids))


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _content(token: object) -> str:
    """Returns a token's text; older files wrap it in an object."""
    return str(token["content"]) if isinstance(token, dict) else str(token or "")
