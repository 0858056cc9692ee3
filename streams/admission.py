"""Applies quotas at the door and turns a refusal into an answer; pure.

Capacity itself is the engines' business. What is decided here is how many conversations
may be open, and that free traffic leaves room for paid traffic.
"""

from dataclasses import dataclass

from streams.config import Tier
from streams.errors import Overloaded


@dataclass(frozen=True, slots=True)
class AdmissionConfig:
    """Bounds the open sessions.

    Attributes:
        max_sessions: open at once over all protocols. More admits more people and makes
            everybody's turn slower once the engines are busy.
        paid_reserve: of these, kept for the paid tier. More turns free callers away
            earlier and lets paying ones in during a rush.
        retry_after_s: told to those who are refused.
    """

    max_sessions: int = 16
    paid_reserve: int = 2
    retry_after_s: float = 5.0


class Admission:
    """Counts the open sessions and decides about the next one."""

    def __init__(self, config: AdmissionConfig) -> None:
        self._config = config
        self._open: dict[str, Tier] = {}
        self._draining = False

    @property
    def open_sessions(self) -> int:
        """How many sessions are open."""
        return len(self._open)

    @property
    def has_room(self) -> bool:
        """Whether the next free-tier session would be let in."""
        return not self._draining and self.open_sessions < self._limit(Tier.FREE)

    def admit(self, session_id: str, tier: Tier) -> None:
        """Takes a session in. Raises `Overloaded` when its tier has no room."""
        if self._draining:
            raise Overloaded(
                "the server is going down for maintenance",
                retry_after_s=self._config.retry_after_s,
            )
        if self.open_sessions >= self._limit(tier):
            raise Overloaded(
                f"all {self._limit(tier)} sessions for this tier are in use",
                retry_after_s=self._config.retry_after_s,
            )
        self._open[session_id] = tier

    def release(self, session_id: str) -> None:
        """Gives a session's place back; does nothing for an unknown one."""
        self._open.pop(session_id, None)

    def drain(self) -> None:
        """Lets nobody in any more."""
        self._draining = True

    def _limit(self, tier: Tier) -> int:
        if tier is Tier.PAID:
            return self._config.max_sessions
        return max(1, self._config.max_sessions - self._config.paid_reserve)
