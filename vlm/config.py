"""How replies are made, unless a request says otherwise."""

from dataclasses import dataclass, field

from engines.base import Sampling
from vlm.messages import ChatMessage

INSTRUCTIONS = "You are a helpful voice assistant. Answer in one short sentence."

# A small model follows examples better than rules. With the rule alone SmolLM2-135M answers
# in paragraphs and calls a quotation a recipe; with these it mostly says one sensible sentence.
EXAMPLES = (
    ChatMessage("user", "Can you hear me?"),
    ChatMessage("assistant", "Yes, I can hear you well."),
    ChatMessage("user", "Who are you?"),
    ChatMessage("assistant", "I am Antiphon, a voice assistant."),
    ChatMessage("user", "I went for a walk in the rain."),
    ChatMessage("assistant", "I hope you did not get too wet."),
    ChatMessage("user", "What do bees make?"),
    ChatMessage("assistant", "Bees make honey."),
    ChatMessage("user", "Tell me a story."),
    ChatMessage("assistant", "Once a cat found a red ball and played with it all day."),
    ChatMessage("user", "Thank you."),
    ChatMessage("assistant", "You are welcome."),
)


@dataclass(frozen=True, slots=True)
class ResponderConfig:
    """Says how a responder speaks and how much it remembers.

    Attributes:
        instructions: system prompt where the request brings none.
        examples: exchanges shown to the model before the conversation, together with
            `instructions`; not shown where the request brings instructions of its own.
        sampling: how tokens are chosen; the slight repetition penalty breaks the loops
            into which a small model falls when greedy.
        history_tokens: conversation shown to the model; past it the oldest turns are left
            out. More remembers longer and costs prefill when the prefix is not cached.
        stop_strings: text that ends a reply, beside the model's own end marks.
    """

    instructions: str = INSTRUCTIONS
    examples: tuple[ChatMessage, ...] = EXAMPLES
    sampling: Sampling = field(default_factory=lambda: Sampling(repetition_penalty=1.05))
    history_tokens: int = 1024
    stop_strings: tuple[str, ...] = ()
