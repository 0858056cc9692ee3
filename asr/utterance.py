"""Keeps the audio that can still be needed, by absolute sample number, and no more."""

import numpy as np

from asr.config import SAMPLE_RATE_HZ
from engines.base import Samples

_SMALLEST = SAMPLE_RATE_HZ  # samples allocated at least, so that small appends are cheap


class UtteranceBuffer:
    """Holds the newest audio of a stream in one array; the oldest falls out at the bound.

    Sample 0 is the first that was ever appended. Memory is at most about twice what is
    held, however long the session lasts.

    Args:
        max_s: longest audio held.
    """

    def __init__(self, max_s: float) -> None:
        self._capacity = max(1, round(max_s * SAMPLE_RATE_HZ))
        self._data = np.zeros(min(_SMALLEST, self._capacity), dtype=np.float32)
        self._offset = 0  # index in _data of the oldest sample held
        self._length = 0
        self._received = 0
        self._dropped = 0

    @property
    def received(self) -> int:
        """Counts all samples ever appended: the absolute number of the next one."""
        return self._received

    @property
    def start(self) -> int:
        """Is the absolute number of the oldest sample held."""
        return self._received - self._length

    @property
    def dropped(self) -> int:
        """Counts samples that fell out at the bound, not those discarded on request."""
        return self._dropped

    @property
    def allocated_bytes(self) -> int:
        """Is the memory held for audio."""
        return self._data.nbytes

    def append(self, samples: Samples) -> int:
        """Takes audio of shape (samples,); returns how many old samples fell out for it."""
        self._received += len(samples)
        lost = max(0, self._length + len(samples) - self._capacity)
        kept = samples[-self._capacity :]
        self._skip(min(lost, self._length))
        self._make_room(len(kept))
        end = self._offset + self._length
        self._data[end : end + len(kept)] = kept
        self._length += len(kept)
        self._dropped += lost
        return lost

    def slice(self, start: int, end: int) -> Samples:
        """Returns a copy of samples [start, end), as far as they are still held."""
        first = min(max(start - self.start, 0), self._length)
        last = min(max(end - self.start, first), self._length)
        return self._data[self._offset + first : self._offset + last].copy()

    def discard_before(self, sample: int) -> None:
        """Forgets what lies before an absolute sample number."""
        self._skip(min(max(sample - self.start, 0), self._length))
        if len(self._data) > _SMALLEST and self._length < len(self._data) // 4:
            self._move(max(_SMALLEST, 2 * self._length))

    def _skip(self, count: int) -> None:
        self._offset += count
        self._length -= count

    def _make_room(self, count: int) -> None:
        needed = self._length + count
        if self._offset + needed <= len(self._data):
            return
        # Moving only once half of the array is free keeps the cost per sample constant.
        size = len(self._data)
        self._move(size if 2 * needed <= size else 2 * needed)

    def _move(self, size: int) -> None:
        moved = np.zeros(size, dtype=np.float32)
        moved[: self._length] = self._data[self._offset : self._offset + self._length]
        self._data = moved
        self._offset = 0
