"""Speaks a stream of text, the next clause in the making while the current one is taken."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

import numpy as np

from engines.base import Samples, Ticket
from tts.chunker import TextChunk, TextChunker
from tts.config import ChunkerConfig
from tts.synthesizer import Synthesizer, VoiceOptions

_PIECES_AHEAD = 16
"""Pieces of speech that are made before the caller asks for them; then synthesis waits."""

_Piece = tuple[TextChunk, Samples]


async def speak_text(
    synthesizer: Synthesizer,
    text: AsyncIterator[str],
    voice: VoiceOptions,
    ticket_factory: Callable[[], Ticket],
    config: ChunkerConfig | None = None,
) -> AsyncGenerator[_Piece, None]:
    """Yields pieces of speech with the chunk of text that each belongs to, in order.

    A chunk with nothing to say comes once, with no samples, so that the displays of the
    chunks add up to the text (two chunks may be equal: tell them apart by `is`). Closing
    the generator stops synthesis.

    Args:
        synthesizer: the voice.
        text: deltas of any size.
        voice: who speaks, and how fast.
        ticket_factory: makes a ticket for each chunk; request ids must differ.
        config: where to cut.

    Raises:
        AntiphonError: whatever the text's source or the voice raises.
    """
    speaker = _Speaker(synthesizer, voice, ticket_factory, TextChunker(config))
    producer = asyncio.create_task(speaker.run(text))
    try:
        while not (producer.done() and speaker.pieces.empty()):
            piece = await speaker.pieces.get()
            if piece is not None:
                yield piece
        await producer
    finally:
        producer.cancel()
        await asyncio.gather(producer, return_exceptions=True)


class _Speaker:
    """Fills a bounded queue with speech; a None in it wakes the reader at the end."""

    def __init__(
        self,
        synthesizer: Synthesizer,
        voice: VoiceOptions,
        ticket_factory: Callable[[], Ticket],
        chunker: TextChunker,
    ) -> None:
        self._synthesizer = synthesizer
        self._voice = voice
        self._ticket_factory = ticket_factory
        self._chunker = chunker
        self.pieces: asyncio.Queue[_Piece | None] = asyncio.Queue(_PIECES_AHEAD)

    async def run(self, text: AsyncIterator[str]) -> None:
        try:
            async for delta in text:
                for chunk in self._chunker.push(delta):
                    await self._speak(chunk)
            for chunk in self._chunker.flush():
                await self._speak(chunk)
        finally:
            if not self.pieces.full():  # a reader of a full queue is not asleep
                self.pieces.put_nowait(None)

    async def _speak(self, chunk: TextChunk) -> None:
        silent = True
        if chunk.spoken:
            speech = self._synthesizer.speak(
                chunk.spoken, voice=self._voice, ticket=self._ticket_factory()
            )
            async with aclosing(speech):
                async for samples in speech:
                    silent = False
                    await self.pieces.put((chunk, samples))
        if silent:
            await self.pieces.put((chunk, np.zeros(0, np.float32)))
