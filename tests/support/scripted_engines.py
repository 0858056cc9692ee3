"""Voice and language engines whose answers the test decides."""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from engines.base import (
    Capabilities,
    EngineStats,
    FinishReason,
    GenerateRequest,
    Samples,
    TokenDelta,
    WaveformRequest,
)


def tone(duration_s: float, rate_hz: int, level: float = 0.2) -> Samples:
    """Returns a steady 200 Hz tone."""
    times_s = np.arange(round(duration_s * rate_hz)) / rate_hz
    return (level * np.sin(2 * np.pi * 200 * times_s)).astype(np.float32)


@dataclass
class ScriptedWaveformEngine:
    """Speaks each request by calling `answer`; by default a tone, 45 ms an id."""

    sample_rate_hz: int = 16_000
    answer: Callable[[WaveformRequest], Samples] | None = None
    requests: list[WaveformRequest] = field(default_factory=list)

    async def synthesize(self, request: WaveformRequest) -> Samples:
        self.requests.append(request)
        if self.answer is not None:
            return self.answer(request)
        ids = len(request.phoneme_ids)
        return tone(0.045 * ids * request.length_scale, self.sample_rate_hz)

    def stats(self) -> EngineStats:
        return EngineStats(finished=len(self.requests))


@dataclass
class ScriptedTokenEngine:
    """Answers each request with the ids that `answer` gives, one a delta.

    Stop ids end it as in a real engine; `open_streams` counts iterators not yet closed.
    """

    answer: Callable[[GenerateRequest], Sequence[int]]
    max_context: int = 8192
    requests: list[GenerateRequest] = field(default_factory=list)
    delivered: int = 0
    open_streams: int = 0

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("scripted", max_context=self.max_context)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenDelta, None]:
        self.requests.append(request)
        self.open_streams += 1
        name, prompt_tokens = request.ticket.request_id, len(request.prompt_ids)
        finish = FinishReason.LENGTH
        try:
            for made, token in enumerate(self.answer(request)):
                if token in request.stop_ids:
                    finish = FinishReason.STOP
                    break
                if made == request.max_tokens:
                    break
                self.delivered += 1
                yield TokenDelta(name, (token,))
            yield TokenDelta(name, (), finish=finish, prompt_tokens=prompt_tokens, cached_tokens=3)
        finally:
            self.open_streams -= 1

    async def abort(self, request_id: str) -> None:
        return None

    async def playout(self, request_id: str, routed_s: float, paused_s: float) -> None:
        return None

    def stats(self) -> EngineStats:
        return EngineStats(running=self.open_streams)

    async def close(self) -> None:
        return None
