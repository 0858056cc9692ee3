"""Guesses what follows from what followed before: prompt-lookup decoding (Saxena 2023).

Replies repeat their prompt: names, numbers, quoted sentences. The last ids are looked up in
the text so far; what came after them then is guessed to come again.
"""

from collections.abc import Iterable

from engines.torch.prefix_index import PositionKey

_LENGTHS = (3, 2)  # ids that must agree; longer ones are tried first


class NgramIndex:
    """Remembers where each n-gram of one sequence came last.

    Args:
        keys: positions of the prompt; those that are no ids match nothing.
    """

    def __init__(self, keys: Iterable[PositionKey] = ()) -> None:
        self._keys: list[PositionKey] = []
        self._after: dict[tuple[PositionKey, ...], int] = {}
        self._before_last: dict[tuple[PositionKey, ...], int] = {}
        self.add(keys)

    def add(self, keys: Iterable[PositionKey]) -> None:
        """Appends positions."""
        for key in keys:
            self._keys.append(key)
            end = len(self._keys)
            for length in _LENGTHS:
                if end >= length:
                    gram = tuple(self._keys[end - length :])
                    if gram in self._after:
                        self._before_last[gram] = self._after[gram]
                    self._after[gram] = end

    def propose(self, count: int) -> tuple[int, ...]:
        """Returns up to `count` ids that followed the present end the last time it came."""
        for length in _LENGTHS:
            start = self._before_last.get(tuple(self._keys[-length:]))
            if start is not None:
                return _leading_ids(self._keys[start : start + count])
        return ()


def _leading_ids(keys: list[PositionKey]) -> tuple[int, ...]:
    ids: list[int] = []
    for key in keys:
        if not isinstance(key, int):
            break
        ids.append(key)
    return tuple(ids)
