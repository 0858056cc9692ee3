"""A bounded queue between two tasks whose end is a state and not a value in it."""

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Handover(Generic[T]):
    """Passes items on in order; the giver waits while `limit` items are inside.

    After `close` nothing goes in, the taker gets what is left, and then the end. A second
    `close` does nothing.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: deque[T] = deque()
        self._closed = False
        self._filled = asyncio.Event()
        self._roomy = asyncio.Event()
        self._roomy.set()

    async def put(self, item: T) -> bool:
        """Gives an item; returns False if it was dropped because the queue is closed."""
        while not self._closed and len(self._items) >= self._limit:
            await self._roomy.wait()
        if self._closed:
            return False
        self._items.append(item)
        self._settle()
        return True

    def close(self) -> None:
        """Ends the queue and wakes everybody who waits at it."""
        self._closed = True
        self._settle()

    def __aiter__(self) -> "Handover[T]":
        return self

    async def __anext__(self) -> T:
        await self._filled.wait()
        if not self._items:
            raise StopAsyncIteration
        item = self._items.popleft()
        self._settle()
        return item

    def _settle(self) -> None:
        if self._items or self._closed:
            self._filled.set()
        else:
            self._filled.clear()
        if self._closed or len(self._items) < self._limit:
            self._roomy.set()
        else:
            self._roomy.clear()
