"""Conversations that have been let in: their next turn comes before strangers."""

from collections import OrderedDict
from dataclasses import dataclass

from engines.torch.prefix_index import PositionKey

_MOST_SESSIONS = 4096


@dataclass(slots=True)
class _Session:
    seen_s: float
    share: float
    keys: list[PositionKey]
    salt: str


class SessionShares:
    """Remembers admitted sessions for a lease after their last request.

    Args:
        lease_s: how long.
    """

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def touch(
        self, session_id: str, share: float, keys: list[PositionKey], salt: str, now_s: float
    ) -> None:
        """Renews a session's lease at the start or the end of a request."""
        if not session_id:
            return
        self._sessions[session_id] = _Session(now_s, share, keys, salt)
        self._sessions.move_to_end(session_id)
        oldest = next(iter(self._sessions.values()))
        if len(self._sessions) > _MOST_SESSIONS or now_s - oldest.seen_s > self._lease_s:
            self._sessions.popitem(last=False)

    def knows(self, session_id: str, now_s: float) -> bool:
        """Whether the session was let in and its lease has not run out."""
        session = self._sessions.get(session_id)
        return session is not None and now_s - session.seen_s <= self._lease_s

    def reserved(self, speaking: set[str], now_s: float) -> float:
        """Returns the share of the device that silent sessions are expected to need."""
        return sum(
            session.share
            for name, session in self._sessions.items()
            if name not in speaking and now_s - session.seen_s <= self._lease_s
        )

    def pop(self, session_id: str) -> tuple[list[PositionKey], str] | None:
        """Forgets a session; returns what its last request had computed, and its salt."""
        session = self._sessions.pop(session_id, None)
        return None if session is None else (session.keys, session.salt)
