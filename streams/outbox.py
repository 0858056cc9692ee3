"""What waits to be sent: bounded by bytes, purged at barge-in, closed once and for all.

Control events always go in, since they are small and the session stops reading from the
client while the box is full; makers of audio wait for room.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from streams.clock import Clock
from streams.events import AudioDelta, SessionOutput

EVENT_BYTES = 256
"""Counted for an event without audio: its wire form is of this order."""


def size_bytes(event: SessionOutput) -> int:
    """Returns what an event counts in the box."""
    return EVENT_BYTES + (event.samples.nbytes if isinstance(event, AudioDelta) else 0)


class Outbox:
    """Is the queue between a session and the shell that writes to its client."""

    def __init__(self, limit_bytes: int, clock: Clock) -> None:
        self._limit_bytes = limit_bytes
        self._clock = clock
        self._events: deque[SessionOutput] = deque()
        self._bytes = 0
        self._closed = False
        self._taken_s = clock.now_s()
        self._filled = asyncio.Event()
        self._roomy = asyncio.Event()
        self._roomy.set()

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return self._bytes >= self._limit_bytes

    def put(self, event: SessionOutput) -> None:
        """Appends an event; after `close` it is dropped."""
        if self._closed:
            return
        if not self._events:
            self._taken_s = self._clock.now_s()
        self._events.append(event)
        self._bytes += size_bytes(event)
        self._settle()

    async def room(self) -> None:
        """Waits until the box is below its limit or closed."""
        await self._roomy.wait()

    def drop_audio(self, response_id: str) -> int:
        """Removes the waiting audio of a reply and returns how many samples that were."""
        kept: deque[SessionOutput] = deque()
        dropped_samples = 0
        for event in self._events:
            if isinstance(event, AudioDelta) and event.response_id == response_id:
                dropped_samples += len(event.samples)
                self._bytes -= size_bytes(event)
            else:
                kept.append(event)
        self._events = kept
        self._settle()
        return dropped_samples

    def stalled_s(self) -> float:
        """Returns for how long the client has taken nothing of what waits."""
        return self._clock.now_s() - self._taken_s if self._events else 0.0

    def close(self) -> None:
        """Takes no more; what is inside can still be read."""
        self._closed = True
        self._settle()

    async def drain(self) -> AsyncIterator[SessionOutput]:
        """Yields events until the box is closed and empty."""
        while True:
            await self._filled.wait()
            if not self._events:
                return
            event = self._events.popleft()
            self._bytes -= size_bytes(event)
            self._taken_s = self._clock.now_s()
            self._settle()
            yield event

    def _settle(self) -> None:
        if self._events or self._closed:
            self._filled.set()
        else:
            self._filled.clear()
        if self._closed or not self.is_full:
            self._roomy.set()
        else:
            self._roomy.clear()
