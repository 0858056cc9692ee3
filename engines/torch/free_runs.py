"""Unused blocks as runs of neighbours, so that a sequence gets blocks that lie together."""

from collections.abc import Iterable


class FreeRuns:
    """Hands out blocks, side by side where it can.

    Args:
        blocks: how many there are, all unused.
    """

    def __init__(self, blocks: int) -> None:
        self._length: dict[int, int] = {0: blocks} if blocks else {}
        self._start_of_end: dict[int, int] = {blocks: 0} if blocks else {}
        self.count = blocks
        """Blocks that can be taken."""

    def take(self, count: int, after: int | None = None) -> list[int]:
        """Takes `count` blocks, which must not be more than there are.

        Args:
            count: how many.
            after: a block that the first one should follow directly, if it can.
        """
        taken: list[int] = []
        while len(taken) < count:
            start = self._best(count - len(taken), taken[-1] if taken else after)
            taken += self._cut(start, count - len(taken))
        self.count -= count
        return taken

    def give(self, blocks: Iterable[int]) -> None:
        """Takes blocks back, each of which was handed out before."""
        for block in blocks:
            start, end = block, block + 1
            if (before := self._start_of_end.pop(block, None)) is not None:
                start = before
                del self._length[before]
            if (length := self._length.pop(end, None)) is not None:
                del self._start_of_end[end + length]
                end += length
            self._put(start, end - start)
            self.count += 1

    def _best(self, count: int, after: int | None) -> int:
        """Returns the run that follows `after`, else the smallest that fits, else the largest."""
        if after is not None and after + 1 in self._length:
            return after + 1
        fitting = [(length, start) for start, length in self._length.items() if length >= count]
        if fitting:
            return min(fitting)[1]
        return max((length, -start) for start, length in self._length.items())[1] * -1

    def _cut(self, start: int, count: int) -> range:
        length = self._length.pop(start)
        del self._start_of_end[start + length]
        count = min(count, length)
        if count < length:
            self._put(start + count, length - count)
        return range(start, start + count)

    def _put(self, start: int, length: int) -> None:
        self._length[start] = length
        self._start_of_end[start + length] = start
