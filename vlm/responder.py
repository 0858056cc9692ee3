"""Writes replies: a conversation in, the assistant's next turn out as it is made."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from engines.base import (
    FinishReason,
    GenerateRequest,
    ReleaseRequest,
    Ticket,
    TokenDelta,
    TokenEngine,
)
from engines.errors import BadRequest
from vlm.chat_template import ChatTemplate
from vlm.config import ResponderConfig
from vlm.detokenizer import Detokenizer
from vlm.history import first_kept
from vlm.messages import ROLES, ChatMessage, ReplyDelta, ReplyOptions
from vlm.stop_strings import StopStrings

__all__ = ["ChatMessage", "ReplyDelta", "ReplyOptions", "Responder", "ResponderConfig"]

_TURN_MARKS = 5  # tokens that a template spends on one turn besides its text


class Responder:
    """Turns conversations into replies; shared by all sessions, keeps nothing of them.

    Args:
        engine: continues token sequences.
        template: the same model's tokenizer and chat template.
        config: defaults.
    """

    def __init__(
        self, engine: TokenEngine, template: ChatTemplate, config: ResponderConfig | None = None
    ) -> None:
        self._engine = engine
        self._template = template
        self._config = config or ResponderConfig()

    @classmethod
    def load(
        cls, engine: TokenEngine, directory: Path, config: ResponderConfig | None = None
    ) -> "Responder":
        """Reads the template from the model's directory; see `ChatTemplate.load`."""
        return cls(engine, ChatTemplate.load(directory), config)

    async def reply(
        self, messages: Sequence[ChatMessage], options: ReplyOptions, ticket: Ticket
    ) -> AsyncGenerator[ReplyDelta, None]:
        """Yields the reply as it is made; the last delta has `finish`.

        Closing the generator aborts the engine's request. With instructions in the options
        an empty conversation is allowed: the assistant speaks first.

        Raises:
            BadRequest: there is nothing to reply to, a role is unknown, or the last turn
                alone is longer than the model's context.
            AntiphonError: whatever the engine raises.
        """
        # In a thread: a long conversation takes long to tokenize, and all sessions share the loop.
        request = await asyncio.to_thread(self._request, messages, options, ticket)
        detokenizer = Detokenizer(self._template.tokenizer)
        stops = StopStrings((*self._template.marks, *self._config.stop_strings))
        output_tokens = 0
        last = ReplyDelta("", FinishReason.ABORTED)
        async with _closing(self._engine.generate(request)) as deltas:
            async for delta in deltas:
                output_tokens += len(delta.ids)
                text = stops.push(detokenizer.push(delta.ids)) if delta.ids else ""
                if text:
                    yield ReplyDelta(text)
                finish = FinishReason.STOP if stops.stopped else delta.finish
                if finish is not None:
                    last = ReplyDelta("", finish, delta.prompt_tokens, delta.cached_tokens)
                    break
        rest = stops.push(detokenizer.flush()) + stops.flush()
        prompt_tokens = last.prompt_tokens or len(request.prompt_ids)
        yield replace(last, text=rest, prompt_tokens=prompt_tokens, output_tokens=output_tokens)

    async def prime(self, options: ReplyOptions, ticket: Ticket) -> None:
        """Computes what every reply of a session begins with, before it is wanted.

        Cancelling keeps what was computed so far.

        Raises:
            AntiphonError: whatever the engine raises.
        """
        head = self._head(options, [])
        if not head:
            return
        prompt_ids = await asyncio.to_thread(self._template.render, head)
        request = GenerateRequest(ticket, prompt_ids, 1, cache_salt=options.cache_salt)
        async with _closing(self._engine.generate(request)) as deltas:
            async for _ in deltas:
                pass

    async def release(self, ticket: Ticket, cache_salt: str = "") -> None:
        """Frees what the engine keeps for the ticket's session."""
        await self._engine.release(ReleaseRequest(ticket, cache_salt))

    def _request(
        self, messages: Sequence[ChatMessage], options: ReplyOptions, ticket: Ticket
    ) -> GenerateRequest:
        prompt_ids = self._template.render(self._prompt(messages, options))
        max_tokens = options.max_tokens
        context = self._engine.capabilities.max_context
        if context:
            room = context - len(prompt_ids)
            if room < 1:
                raise BadRequest(f"The message does not fit into {context} tokens.")
            max_tokens = min(max_tokens, room)
        return GenerateRequest(
            ticket,
            prompt_ids,
            max_tokens,
            options.sampling or self._config.sampling,
            self._template.stop_ids,
            cache_salt=options.cache_salt,
        )

    def _prompt(self, messages: Sequence[ChatMessage], options: ReplyOptions) -> list[ChatMessage]:
        """Puts the system prompt and as much of the conversation as fits in a row."""
        for message in messages:
            if message.role not in ROLES:
                raise BadRequest(f"The role {message.role!r} is not one of {', '.join(ROLES)}.")
        turns = [message for message in messages if message.text.strip()]
        head: list[ChatMessage] = []
        while turns and turns[0].role == "system":
            head.append(turns.pop(0))
        if not turns and not options.instructions:
            raise BadRequest("The conversation is empty.")
        sizes = [self._template.count(turn.text) + _TURN_MARKS for turn in turns]
        start = first_kept([turn.role for turn in turns], sizes, self._config.history_tokens)
        return [*self._head(options, head), *turns[start:]]

    def _head(self, options: ReplyOptions, leading: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Returns what stands before the conversation: system prompt and examples."""
        instructions = options.instructions or self._config.instructions
        system = "\n".join(text for text in (instructions, *(m.text for m in leading)) if text)
        examples = () if options.instructions else self._config.examples
        return [*([ChatMessage("system", system)] if system else []), *examples]


@asynccontextmanager
async def _closing(deltas: AsyncIterator[TokenDelta]) -> AsyncIterator[AsyncIterator[TokenDelta]]:
    """Closes the engine's stream at once, which frees its slot, not at garbage collection."""
    try:
        yield deltas
    finally:
        close = getattr(deltas, "aclose", None)
        if close is not None:
            await close()
