"""`antiphon chat`: text with the language model in the terminal."""

import argparse
import asyncio
import itertools
import sys

from antiphon.commands.models import open_store
from antiphon.config import Config, add_config_arguments, config_from_args
from engines.base import Ticket
from engines.errors import BadRequest
from vlm.responder import ChatMessage, ReplyOptions, Responder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the flags."""
    add_config_arguments(parser)
    parser.add_argument("--message", help="ask one thing, print the reply, and leave")
    parser.add_argument("--max-tokens", type=int, default=256, help="longest reply")


def run(args: argparse.Namespace) -> int:
    """Chats until end of file or an empty line; returns 0."""
    if args.message is not None and not args.message.strip():
        raise BadRequest("there is nothing to reply to: the message is empty")
    config = config_from_args(args)
    asyncio.run(_chat(config, args.message, args.max_tokens))
    return 0


async def _chat(config: Config, message: str | None, max_tokens: int) -> None:
    from antiphon.embedded import Role, embedded, ensure_models

    folders = ensure_models(config, open_store(config), (Role.LM,))
    options = ReplyOptions(max_tokens=max_tokens, instructions=config.sessions.instructions)
    numbers = itertools.count()
    history: list[ChatMessage] = []
    async with embedded(config, folders) as engines:
        responder = engines.responder()
        while True:
            text = message if message is not None else await asyncio.to_thread(_ask)
            if not text.strip():
                return
            history.append(ChatMessage("user", text.strip()))
            ticket = Ticket(f"chat.{next(numbers)}", session_id="chat", timeout_s=120.0)
            reply = await _print_reply(responder, history, options, ticket)
            history.append(ChatMessage("assistant", reply))
            if message is not None:
                return


async def _print_reply(
    responder: Responder, history: list[ChatMessage], options: ReplyOptions, ticket: Ticket
) -> str:
    reply = ""
    async for delta in responder.reply(history, options, ticket):
        reply += delta.text
        print(delta.text, end="", flush=True)
    print(flush=True)
    return reply.strip()


def _ask() -> str:
    """Reads a line; empty at the end of the input."""
    try:
        return input("> " if sys.stdin.isatty() else "")
    except EOFError:
        return ""
