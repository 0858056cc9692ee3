"""Numbered frames back in order, with a small window; no clock, no I/O."""

from typing import Generic, TypeVar

T = TypeVar("T")

WINDOW_FRAMES = 5
"""Frames that wait for a missing one: 100 ms of 20 ms frames. After that it counts as lost;
waiting longer would delay the caller's every word behind a frame that never comes."""

RESYNC_FRAMES = 50
"""So many old numbers in a row are no late frames: the sender counts anew."""


class ReorderBuffer(Generic[T]):
    """Releases frames by rising number, each number once.

    Attributes:
        dropped: frames that came twice or too late.
        lost: numbers that were given up.
    """

    def __init__(self, window_frames: int = WINDOW_FRAMES) -> None:
        self._window = window_frames
        self._next: int | None = None  # unknown until the first frame
        self._waiting: dict[int, T] = {}
        self._old_in_a_row = 0
        self.dropped = 0
        self.lost = 0

    def push(self, number: int, frame: T) -> list[T]:
        """Takes a frame and returns those that are now in order."""
        if self._next is None:
            self._next = number
        if number < self._next and self._old_in_a_row >= RESYNC_FRAMES:
            self._waiting.clear()
            self._next = number
        if number < self._next or number in self._waiting:
            self.dropped += 1
            self._old_in_a_row += 1
            return []
        self._old_in_a_row = 0
        self._waiting[number] = frame
        released = self._adjacent()
        if len(self._waiting) > self._window:
            self._skip_gap()
            released += self._adjacent()
        return released

    def flush(self) -> list[T]:
        """Returns what still waits, in order, at the end of the stream."""
        released: list[T] = []
        while self._waiting:
            self._skip_gap()
            released += self._adjacent()
        return released

    def _adjacent(self) -> list[T]:
        released: list[T] = []
        while self._next is not None and self._next in self._waiting:
            released.append(self._waiting.pop(self._next))
            self._next += 1
        return released

    def _skip_gap(self) -> None:
        first = min(self._waiting)
        self.lost += first - (self._next or 0)
        self._next = first
