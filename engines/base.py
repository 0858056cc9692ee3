"""What every engine back end offers: the interfaces, with their messages beside them.

This room speaks of token ids, embeddings and samples. It knows nothing of text, audio
formats, sessions or clients. An engine may live in a process of its own.
"""

from collections.abc import AsyncIterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engines.messages import (
    Capabilities,
    Embeddings,
    EmbeddingSpan,
    EncodeItem,
    EngineStats,
    FinishReason,
    GenerateRequest,
    Pace,
    ReleaseRequest,
    Samples,
    Sampling,
    SpanAttention,
    SpeechRequest,
    Ticket,
    Tier,
    TokenDelta,
    WaveformRequest,
)

__all__ = [
    "Capabilities",
    "EmbeddingSpan",
    "Embeddings",
    "EncodeItem",
    "EncoderEngine",
    "EngineStats",
    "FinishReason",
    "GenerateRequest",
    "Pace",
    "ReleaseRequest",
    "Samples",
    "Sampling",
    "Seq2SeqEngine",
    "SpanAttention",
    "SpeechRequest",
    "StreamDecoder",
    "Ticket",
    "Tier",
    "TokenDelta",
    "TokenEngine",
    "VoiceActivityEngine",
    "WaveformEngine",
    "WaveformRequest",
]


class TokenEngine(Protocol):
    """Continues token sequences: a TTS LLM, or the language half of a VLM."""

    @property
    def capabilities(self) -> Capabilities: ...

    def generate(self, request: GenerateRequest) -> AsyncIterator[TokenDelta]:
        """Yields deltas until one has `finish`.

        Closing the iterator aborts the request; its slot and cache are free within a step.

        Raises:
            BadRequest: the prompt is empty or longer than the context.
            Overloaded: the engine is full.
            Timeout: the ticket's time is over.
            EngineFailed: the step raised.
        """
        ...

    async def abort(self, request_id: str) -> None:
        """Ends a request; does nothing if it is not running. Returns once it is gone."""
        ...

    async def release(self, request: ReleaseRequest) -> None:
        """Frees the session's caches; returns once they are gone."""
        ...

    async def playout(self, request_id: str, routed_s: float, paused_s: float) -> None:
        """Tells the pacer what really went out: seconds routed, seconds paused."""
        ...

    def stats(self) -> EngineStats: ...

    async def close(self) -> None: ...


class Seq2SeqEngine(Protocol):
    """Writes down speech (Whisper). Errors and closing as in `TokenEngine`."""

    @property
    def capabilities(self) -> Capabilities: ...

    def transcribe(self, request: SpeechRequest) -> AsyncIterator[TokenDelta]: ...

    async def abort(self, request_id: str) -> None: ...

    def stats(self) -> EngineStats: ...

    async def close(self) -> None: ...


class EncoderEngine(Protocol):
    """Turns inputs into embeddings (vision tower), with its own queue and batches."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def encode(self, ticket: Ticket, items: list[EncodeItem]) -> list[Embeddings]: ...

    def stats(self) -> EngineStats: ...

    async def close(self) -> None: ...


class StreamDecoder(Protocol):
    """Turns codec frames into samples, stateful per stream, batched across streams."""

    @property
    def sample_rate_hz(self) -> int: ...

    async def open(self, ticket: Ticket) -> str:
        """Starts a stream and returns its id."""
        ...

    async def push(self, stream_id: str, frames: NDArray[np.int64]) -> Samples:
        """Decodes frames of shape (frames, codebooks) that follow those pushed before."""
        ...

    async def close(self, stream_id: str) -> None:
        """Frees the stream's state; does nothing for an unknown id."""
        ...


class VoiceActivityEngine(Protocol):
    """Scores 32 ms chunks of 16 kHz audio for speech, stateful, batched across streams."""

    async def open(self, ticket: Ticket) -> str:
        """Starts a stream and returns its id."""
        ...

    async def push(self, stream_id: str, samples: Samples) -> NDArray[np.float32]:
        """Returns speech probabilities, shape (chunks,), for samples (chunks * 512,)."""
        ...

    async def close(self, stream_id: str) -> None:
        """Frees the stream's state; does nothing for an unknown id."""
        ...

    def stats(self) -> EngineStats: ...


class WaveformEngine(Protocol):
    """Speaks phoneme ids in one pass: the interim voice, until a TTS LLM takes over."""

    @property
    def sample_rate_hz(self) -> int: ...

    async def synthesize(self, request: WaveformRequest) -> Samples:
        """Returns the utterance at `sample_rate_hz`. Cancelling the await aborts it."""
        ...

    def stats(self) -> EngineStats: ...
