"""Feeds a voice activity engine with audio that comes in pieces of any size."""

import numpy as np
from numpy.typing import NDArray

from asr.config import CHUNK_SAMPLES
from engines.base import Samples, Ticket, VoiceActivityEngine
from engines.errors import NotFound


class VoiceActivityDetector:
    """Scores one stream of 16 kHz mono audio in chunks of 512 samples.

    Calls must not overlap. `close` must be called once the stream is over, also after an
    error: the engine keeps state for each open stream.

    Args:
        engine: where the scoring is done.
        ticket: names the stream and says how urgent it is.
    """

    def __init__(self, engine: VoiceActivityEngine, ticket: Ticket) -> None:
        self._engine = engine
        self._ticket = ticket
        self._stream_id: str | None = None
        self._remainder = np.zeros(0, dtype=np.float32)

    @property
    def pending_samples(self) -> int:
        """Counts samples that wait for the rest of their chunk, 0..511."""
        return len(self._remainder)

    async def open(self) -> None:
        """Starts the stream; does nothing if it is running."""
        if self._stream_id is None:
            self._stream_id = await self._engine.open(self._ticket)

    async def push(self, samples: Samples) -> NDArray[np.float32]:
        """Takes audio of shape (samples,); returns the scores of the chunks it completed.

        Returns:
            Speech probabilities, shape (chunks,), perhaps empty.
        """
        stream_id = self._require_open()
        joined = np.concatenate((self._remainder, samples)).astype(np.float32, copy=False)
        whole = len(joined) - len(joined) % CHUNK_SAMPLES
        self._remainder = joined[whole:].copy()
        if whole == 0:
            return np.zeros(0, dtype=np.float32)
        try:
            return await self._engine.push(stream_id, joined[:whole])
        except NotFound:  # the lease of a stream that brought nothing for long has ended
            self._stream_id = await self._engine.open(self._ticket)
            return await self._engine.push(self._stream_id, joined[:whole])

    async def flush(self) -> NDArray[np.float32]:
        """Scores the remainder, filled up with silence; returns shape (0,) or (1,)."""
        if not len(self._remainder):
            return np.zeros(0, dtype=np.float32)
        return await self.push(np.zeros(CHUNK_SAMPLES - len(self._remainder), dtype=np.float32))

    async def close(self) -> None:
        """Frees the engine's state for this stream; may be called again."""
        stream_id, self._stream_id = self._stream_id, None
        self._remainder = np.zeros(0, dtype=np.float32)
        if stream_id is not None:
            await self._engine.close(stream_id)

    def _require_open(self) -> str:
        if self._stream_id is None:
            raise RuntimeError("the voice activity stream is not open: call open() first")
        return self._stream_id
