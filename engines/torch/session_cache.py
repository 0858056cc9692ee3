"""Keeps the KV caches of finished requests, so that a session's next turn starts late.

A conversation's next prompt begins with the last one and its reply. One cache a session is
kept; the least recently used go first when the byte budget is full.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from engines.torch.layers.kv_cache import KvCache

PositionKey = Hashable
"""What a position was computed from: an id, or a span's content hash and offset."""


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Names whose cache it is. Caches are never shared between keys."""

    cache_salt: str
    session_id: str


@dataclass(frozen=True, slots=True)
class _Entry:
    positions: tuple[PositionKey, ...]
    cache: KvCache


class SessionCache:
    """Holds at most `budget_bytes` of caches.

    Args:
        budget_bytes: 0 keeps nothing.
    """

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._entries: OrderedDict[SessionKey, _Entry] = OrderedDict()
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes held now."""
        return self._nbytes

    def take(self, key: SessionKey, positions: tuple[PositionKey, ...]) -> KvCache | None:
        """Hands over a session's cache, cut to the prefix that it shares with `positions`.

        The cache is no longer here afterwards: the taker may change it. The last position
        is never taken from a cache, since its logits are wanted.

        Returns:
            A cache of at least one position, or None.
        """
        entry = self._pop(key)
        if entry is None:
            return None
        shared = 0
        for old, new in zip(entry.positions, positions[:-1], strict=False):
            if old != new:
                break
            shared += 1
        if not shared:
            return None
        entry.cache.truncate(shared)
        return entry.cache

    def put(self, key: SessionKey, positions: tuple[PositionKey, ...], cache: KvCache) -> None:
        """Keeps a cache whose content `positions` describes, as many as its length."""
        self._pop(key)
        if not key.session_id or not cache.length or cache.nbytes > self._budget_bytes:
            return
        self._entries[key] = _Entry(positions[: cache.length], cache)
        self._nbytes += cache.nbytes
        while self._nbytes > self._budget_bytes:
            self._pop(next(iter(self._entries)))

    def drop(self, key: SessionKey) -> None:
        """Frees a session's cache; does nothing if there is none."""
        self._pop(key)

    def _pop(self, key: SessionKey) -> _Entry | None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._nbytes -= entry.cache.nbytes
        return entry
