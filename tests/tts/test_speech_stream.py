"""A stream of text, spoken in order and ahead of the listener."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field

import numpy as np
import pytest

from engines.base import Samples, Ticket
from engines.errors import EngineFailed
from tts.speech_stream import speak_text
from tts.synthesizer import VoiceOptions

TEXT = ("Good morning. ", "How are ", "you? ", "\U0001f600\n", "I am fine, thank you.")


@dataclass
class ScriptedVoice:
    """Makes two samples a text, of the value of its number, and counts open streams."""

    sample_rate_hz: int = 8000
    voices: tuple[str, ...] = ("default",)
    spoken: list[str] = field(default_factory=list)
    tickets: set[str] = field(default_factory=set)
    open_streams: int = 0
    pieces: int = 1
    fail_at: int = -1

    async def speak(
        self, text: str, *, voice: VoiceOptions, ticket: Ticket
    ) -> AsyncGenerator[Samples, None]:
        number = len(self.spoken)
        self.spoken.append(text)
        self.tickets.add(ticket.request_id)
        self.open_streams += 1
        try:
            if number == self.fail_at:
                raise EngineFailed("broken on purpose")
            for _ in range(self.pieces):
                await asyncio.sleep(0)
                yield np.full(2, number, np.float32)
        finally:
            self.open_streams -= 1


async def deltas(*texts: str) -> AsyncIterator[str]:
    for text in texts:
        yield text


def tickets() -> Ticket:
    return Ticket(f"speech-{next(_numbers)}")


_numbers = itertools.count()


async def test_pieces_come_in_order_with_the_text_that_they_speak() -> None:
    voice = ScriptedVoice()
    heard = [
        (chunk.display, list(samples))
        async for chunk, samples in speak_text(voice, deltas(*TEXT), VoiceOptions(), tickets)
    ]
    assert heard == [
        ("Good morning.", [0, 0]),
        (" How are you?", [1, 1]),
        (" \U0001f600", []),
        ("\nI am fine, thank you.", [2, 2]),
    ]
    assert len(voice.tickets) == 3


async def test_the_next_clause_is_made_while_the_caller_holds_the_first() -> None:
    voice = ScriptedVoice()
    stream = speak_text(voice, deltas(*TEXT), VoiceOptions(), tickets)
    async with aclosing(stream):
        await anext(stream)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(voice.spoken) == 3


async def test_synthesis_waits_for_a_caller_who_does_not_take() -> None:
    voice = ScriptedVoice()
    stream = speak_text(voice, deltas("Say it once. " * 100), VoiceOptions(), tickets)
    async with aclosing(stream):
        await anext(stream)
        for _ in range(500):
            await asyncio.sleep(0)
        assert len(voice.spoken) < 25
        assert len([piece async for piece in stream]) == 99


async def test_closing_early_closes_the_voice() -> None:
    voice = ScriptedVoice(pieces=1000)
    stream = speak_text(voice, deltas(*TEXT), VoiceOptions(), tickets)
    await anext(stream)
    await stream.aclose()
    assert voice.open_streams == 0
    assert len(voice.spoken) == 1


async def test_a_failing_voice_fails_the_stream_after_what_was_good() -> None:
    voice = ScriptedVoice(fail_at=1)
    heard: list[str] = []
    with pytest.raises(EngineFailed, match="on purpose"):
        async for chunk, _ in speak_text(voice, deltas(*TEXT), VoiceOptions(), tickets):
            heard.append(chunk.display)
    assert heard == ["Good morning."]


async def test_no_text_is_no_speech() -> None:
    stream = speak_text(ScriptedVoice(), deltas(), VoiceOptions(), tickets)
    assert [piece async for piece in stream] == []
