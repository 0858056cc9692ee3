"""Reads the time for the session core: the only file in this room that does."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time in seconds from an arbitrary start, and waits."""

    def now_s(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """Is the monotonic clock of the machine."""

    def now_s(self) -> float:
        """Returns monotonic seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Waits; other tasks run meanwhile."""
        await asyncio.sleep(seconds)
