"""Measures what a listener hears of one reply: when it begins, and where it stands still.

Pure: time is an argument, in seconds from an arbitrary start, and never runs backwards. A
real-time factor hides gaps, since late audio and early audio cancel out in it; here each
chunk is held against the moment at which the listener ran out of sound.
"""

from dataclasses import dataclass

C100_WORST_GAP_S = 0.1
"""Longest gap of a reply that counts as good in C100."""

_ROUNDING_S = 1e-6  # sums of floats differ by less; a millionth of a second is no gap


@dataclass(frozen=True, slots=True)
class GapReport:
    """Is what was heard of a reply up to some moment.

    Attributes:
        ttfa_s: from the start of the wait to the first audio; None if none has come.
        chunks: pieces in which the audio came.
        routed_s: seconds of audio in them.
        gaps: times that the listener ran out of sound while more was owed.
        worst_gap_s: the longest of them.
        stalled_s: all of them together.
    """

    ttfa_s: float | None
    chunks: int
    routed_s: float
    gaps: int
    worst_gap_s: float
    stalled_s: float

    @property
    def startup_delay_s(self) -> float:
        """Start-up delay that would have hidden every gap.

        It equals the time stalled: a chunk that is late by `x` against everything routed
        before it has made the stalls up to then sum to `x`.
        """
        return self.stalled_s

    @property
    def good(self) -> bool | None:
        """Whether C100 counts the reply as good; None where it does not apply.

        It does not apply to a reply of one chunk, which cannot have a gap, unless the
        reply was cut off and the listener left waiting for the rest.
        """
        if self.worst_gap_s > C100_WORST_GAP_S + _ROUNDING_S:
            return False
        return True if self.chunks > 1 else None


class GapMeter:
    """Follows the playout of one reply, chunk by chunk, in constant memory.

    Everything is counted on the listener's own clock, which stands still while playout is
    paused: a pause is the listener's wish and no gap.

    Args:
        asked_s: when the listener began to wait.
    """

    def __init__(self, asked_s: float) -> None:
        self._asked_s = asked_s
        self._ttfa_s: float | None = None
        self._runs_dry_s = 0.0  # on the listener's clock
        self._paused_s = 0.0  # pauses that are over
        self._pause_began_s: float | None = None
        self._chunks = 0
        self._routed_s = 0.0
        self._gaps = 0
        self._worst_s = 0.0
        self._stalled_s = 0.0
        self._ended = False

    def route(self, duration_s: float, now_s: float) -> None:
        """Takes a chunk of audio that reaches the listener; the first one starts playout."""
        if self._ttfa_s is None:
            self._begin(now_s)
        self._close_gap(self._local_s(now_s))
        self._runs_dry_s += duration_s
        self._routed_s += duration_s
        self._chunks += 1

    def pause(self, now_s: float) -> None:
        """Stands playout still until `resume`; does nothing while it already is."""
        if self._pause_began_s is None:
            self._pause_began_s = now_s

    def resume(self, now_s: float) -> None:
        """Lets playout go on; does nothing while it already does."""
        if self._pause_began_s is not None:
            self._paused_s += now_s - self._pause_began_s
            self._pause_began_s = None

    def end(self) -> None:
        """Says that all audio has been routed; silence from now on is no gap."""
        self._ended = True

    def cut(self, now_s: float) -> None:
        """Says that the rest, though owed, never comes; a gap that is open ends here."""
        if not self._ended and self._ttfa_s is not None:
            self._close_gap(self._local_s(now_s))
        self._ended = True

    def lead_s(self, now_s: float) -> float:
        """Returns the seconds not yet heard; below zero, how long the open gap has lasted.

        Zero before the first audio and after the last.
        """
        if self._ttfa_s is None:
            return 0.0
        lead_s = self._runs_dry_s - self._local_s(now_s)
        return max(0.0, lead_s) if self._ended else lead_s

    def stood_still_s(self, now_s: float) -> float:
        """Returns for how long playout has stood still since the first audio.

        Pauses and gaps both, so that `routed - (now - first audio - stood still)` is the
        audio not yet heard: what a pacer wants to be told.
        """
        pausing_s = 0.0 if self._pause_began_s is None else now_s - self._pause_began_s
        return self._paused_s + pausing_s + self._stalled_s + self._open_gap_s(now_s)

    def report(self, now_s: float) -> GapReport:
        """Sums up; a gap that is open counts up to now."""
        open_s = self._open_gap_s(now_s)
        return GapReport(
            ttfa_s=self._ttfa_s,
            chunks=self._chunks,
            routed_s=self._routed_s,
            gaps=self._gaps + (open_s > 0.0),
            worst_gap_s=max(self._worst_s, open_s),
            stalled_s=self._stalled_s + open_s,
        )

    def _begin(self, now_s: float) -> None:
        self._ttfa_s = now_s - self._asked_s
        self._paused_s = 0.0  # nothing was playing yet
        if self._pause_began_s is not None:
            self._pause_began_s = now_s
        self._runs_dry_s = self._local_s(now_s)

    def _local_s(self, now_s: float) -> float:
        return (now_s if self._pause_began_s is None else self._pause_began_s) - self._paused_s

    def _open_gap_s(self, now_s: float) -> float:
        late_s = -self.lead_s(now_s)
        return late_s if late_s > _ROUNDING_S else 0.0

    def _close_gap(self, local_s: float) -> None:
        late_s = local_s - self._runs_dry_s
        if late_s <= _ROUNDING_S:
            return
        self._gaps += 1
        self._worst_s = max(self._worst_s, late_s)
        self._stalled_s += late_s
        self._runs_dry_s = local_s
