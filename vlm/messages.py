"""What goes into a language model and what comes out, as text."""

from dataclasses import dataclass

from engines.base import FinishReason, Sampling

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """Is one turn of a conversation.

    Attributes:
        role: "system", "user" or "assistant".
        text: what was said; a message of nothing but spaces is left out.
    """

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    """Says how one reply is made; empty or None leaves it to the responder's configuration.

    Attributes:
        max_tokens: the reply is cut after this many; at least 1.
        sampling: how tokens are chosen.
        instructions: system prompt in the place of the responder's own.
        cache_salt: keeps prefix reuse within one tenant.
    """

    max_tokens: int = 256
    sampling: Sampling | None = None
    instructions: str = ""
    cache_salt: str = ""


@dataclass(frozen=True, slots=True)
class ReplyDelta:
    """Adds text to a reply.

    Attributes:
        text: whole characters; the texts of all deltas add up to the reply.
        finish: why the reply ended, in the last delta only.
        prompt_tokens, cached_tokens, output_tokens: counts, in the last delta only.
    """

    text: str
    finish: FinishReason | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
