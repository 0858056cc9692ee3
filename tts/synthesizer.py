"""What every voice offers: text in, samples at its own rate out."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from engines.base import Samples, Ticket
from engines.errors import BadRequest, NotFound

DEFAULT_VOICE = "default"
SPEEDS = (0.25, 4.0)
"""Slowest and fastest pace; the range of OpenAI's speech route."""


@dataclass(frozen=True, slots=True)
class VoiceOptions:
    """Says who speaks, and how fast.

    Attributes:
        voice: one of the synthesizer's `voices`.
        speed: 0.25..4; 1 is the voice's own pace, above is faster.
    """

    voice: str = DEFAULT_VOICE
    speed: float = 1.0


class Synthesizer(Protocol):
    """Speaks one piece of cleaned text after another."""

    @property
    def sample_rate_hz(self) -> int: ...

    @property
    def voices(self) -> tuple[str, ...]: ...

    def speak(
        self, text: str, *, voice: VoiceOptions, ticket: Ticket
    ) -> AsyncGenerator[Samples, None]:
        """Yields the speech in pieces; nothing at all where there is nothing to say.

        Closing the generator aborts the engine's request.

        Args:
            text: spoken form, as `TextChunk.spoken`; a sentence or a clause.
            voice: who speaks, and how fast.
            ticket: identity and urgency.

        Raises:
            NotFound: there is no such voice.
            BadRequest: the speed is out of range.
            AntiphonError: whatever the engine raises.
        """
        ...


def check_voice(options: VoiceOptions, voices: tuple[str, ...]) -> None:
    """Raises `NotFound` for an unknown voice and `BadRequest` for a speed out of range."""
    if options.voice not in voices:
        known = ", ".join(voices)
        raise NotFound(f"There is no voice {options.voice!r}; known are {known}.", param="voice")
    slowest, fastest = SPEEDS
    if not slowest <= options.speed <= fastest:
        raise BadRequest(f"The speed must be {slowest} to {fastest}.", param="speed")
