"""A clock that moves only when a test says so."""

import asyncio
import heapq
import itertools


class ManualClock:
    """Implements `streams.clock.Clock`; sleepers wake in the order of their time."""

    def __init__(self) -> None:
        self._now_s = 1000.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now_s(self) -> float:
        return self._now_s

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now_s + seconds, next(self._order), waiter))
        await waiter

    async def advance(self, seconds: float) -> None:
        """Moves time on, letting everything run that becomes due on the way."""
        end_s = self._now_s + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end_s:
            due_s, _, waiter = heapq.heappop(self._sleepers)
            self._now_s = max(self._now_s, due_s)
            if not waiter.done():
                waiter.set_result(None)
            await settle()
        self._now_s = end_s
        await settle()


async def settle() -> None:
    """Lets all tasks run until they wait for something."""
    for _ in range(50):
        await asyncio.sleep(0)
