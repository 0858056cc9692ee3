"""Small speech and voice engines whose answers the test decides."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engines.base import (
    Capabilities,
    EngineStats,
    FinishReason,
    Samples,
    SpeechRequest,
    Ticket,
    TokenDelta,
)


@dataclass(frozen=True, slots=True)
class Script:
    """Is one answer: ids, and the log-probability of each of them and of the end of text."""

    ids: tuple[int, ...]
    logprob: float = -0.1
    no_speech_prob: float = 0.0


Reply = Callable[[SpeechRequest], Script]


@dataclass
class ScriptedSpeechEngine:
    """Answers each request by calling `reply`, token by token; keeps what was asked."""

    reply: Reply
    trimmed_window: bool = True
    draft: bool = False
    requests: list[SpeechRequest] = field(default_factory=list)
    delivered: int = 0
    open_streams: int = 0

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("scripted", trimmed_window=self.trimmed_window, draft=self.draft)

    async def transcribe(self, request: SpeechRequest) -> AsyncIterator[TokenDelta]:
        self.requests.append(request)
        script = self.reply(request)
        name = request.ticket.request_id
        no_speech: float | None = script.no_speech_prob
        self.open_streams += 1
        try:
            for token in script.ids[: request.max_tokens]:
                self.delivered += 1
                yield TokenDelta(name, (token,), script.logprob, no_speech_prob=no_speech)
                no_speech = None
            short = len(script.ids) > request.max_tokens
            finish = FinishReason.LENGTH if short else FinishReason.STOP
            last = None if short else script.logprob
            yield TokenDelta(name, (), last, finish, no_speech_prob=no_speech)
        finally:
            self.open_streams -= 1

    async def abort(self, request_id: str) -> None:
        return None

    def stats(self) -> EngineStats:
        return EngineStats(running=self.open_streams)

    async def close(self) -> None:
        return None


@dataclass
class LoudnessVoiceEngine:
    """Scores a chunk by its mean amplitude: ones are speech, zeros are silence."""

    open_streams: set[str] = field(default_factory=set)
    pushes: int = 0

    async def open(self, ticket: Ticket) -> str:
        self.open_streams.add(ticket.request_id)
        return ticket.request_id

    async def push(self, stream_id: str, samples: Samples) -> NDArray[np.float32]:
        assert stream_id in self.open_streams
        self.pushes += 1
        loudness: NDArray[np.float32] = np.abs(samples.reshape(-1, 512)).mean(axis=1)
        return loudness.astype(np.float32)

    async def close(self, stream_id: str) -> None:
        self.open_streams.discard(stream_id)

    def stats(self) -> EngineStats:
        return EngineStats(running=len(self.open_streams))
