"""Knows what the listener has heard: a buffer that drains one second a second.

Pure: time is an argument. Between reports from the client the position is estimated from
the clock; a client's own mark, where the protocol has marks, corrects the estimate.
"""


class PlayoutClock:
    """Follows one reply from its first routed sample to the last one heard.

    Args:
        not_before_s: when the listener is through with what was routed before this reply.
    """

    def __init__(self, not_before_s: float = 0.0) -> None:
        self._not_before_s = not_before_s
        self._routed_s = 0.0
        self._played_s = 0.0
        self._updated_s: float | None = None
        self._closed = False
        self.gap_s = 0.0
        """Seconds for which the listener's buffer was empty before the end."""

    @property
    def routed_s(self) -> float:
        """Seconds of audio handed to the transport."""
        return self._routed_s

    def route(self, duration_s: float, now_s: float) -> None:
        """Adds audio handed to the transport; the first call starts the clock."""
        self._advance(now_s)
        if self._updated_s is None:
            self._updated_s = max(now_s, self._not_before_s)
        self._routed_s += duration_s

    def close(self) -> None:
        """Says that no more audio comes; an empty buffer is now the end and not a gap."""
        self._closed = True

    def report(self, played_s: float, now_s: float) -> None:
        """Takes the position that the client itself reported."""
        self._advance(now_s)
        self._played_s = min(max(played_s, 0.0), self._routed_s)

    def played_s(self, now_s: float) -> float:
        """Returns the seconds heard so far."""
        self._advance(now_s)
        return self._played_s

    def lead_s(self, now_s: float) -> float:
        """Returns the seconds routed and not yet heard, never negative."""
        return self._routed_s - self.played_s(now_s)

    def _advance(self, now_s: float) -> None:
        if self._updated_s is None:
            return
        elapsed_s = max(0.0, now_s - self._updated_s)
        waiting_s = self._routed_s - self._played_s
        if elapsed_s > waiting_s and not self._closed:
            self.gap_s += elapsed_s - waiting_s
        self._played_s += min(elapsed_s, waiting_s)
        self._updated_s = max(self._updated_s, now_s)
