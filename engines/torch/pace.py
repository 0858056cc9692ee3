"""Where a paced stream stands: what its listener has left, and how urgent it is.

After the first audio of an utterance went out, the listener drains one second a second.
The lead is counted from audio that really reached the client's transport, not from tokens
made: tokens that wait for a codec are heard by nobody.
"""

from enum import IntEnum

from engines.base import Pace, Tier
from engines.torch.sequence import Sequence


class Turn(IntEnum):
    """Is the class of a sequence in a step; a lower one comes first."""

    FIRST_AUDIO = 0  # nothing has reached its listener
    URGENT = 1  # lead below the low mark
    FILLING = 2  # lead between the marks
    INTERACTIVE = 3  # not paced: text replies
    BATCH = 4


def turn_of(sequence: Sequence, now_s: float) -> Turn:
    """Returns the class of a sequence that does not sit out."""
    pace = sequence.pace
    if sequence.tier is Tier.BATCH:
        return Turn.BATCH
    if pace is None:
        return Turn.INTERACTIVE
    if sequence.playing_since_s is None:
        return Turn.FIRST_AUDIO
    return Turn.URGENT if lead_s(sequence, now_s) < pace.low_s else Turn.FILLING


def rank(sequence: Sequence, now_s: float) -> tuple[float, float, float]:
    """Orders sequences: class first; in it tier and deadline, or the smallest lead and tier."""
    turn = turn_of(sequence, now_s)
    if turn in (Turn.URGENT, Turn.FILLING):
        return (turn, lead_s(sequence, now_s), sequence.tier)
    return (turn, sequence.tier, sequence.due_s)


def lead_s(sequence: Sequence, now_s: float) -> float:
    """Returns the seconds of audio that the listener still has; 0 before the first."""
    if sequence.playing_since_s is None:
        return 0.0
    heard_s = now_s - sequence.playing_since_s - sequence.paused_s
    return sequence.routed_s - heard_s


def in_flight_s(sequence: Sequence, pace: Pace) -> float:
    """Returns the seconds of audio whose tokens are made and that is not routed yet."""
    return sequence.made / pace.rate - sequence.routed_s


def update(sequence: Sequence, now_s: float, hysteresis_s: float) -> bool:
    """Lets a stream sit out at its high mark and come back below it less the hysteresis.

    Returns:
        Whether its listener has just run dry.
    """
    pace = sequence.pace
    if pace is None or sequence.playing_since_s is None:
        return False
    lead = lead_s(sequence, now_s)
    if sequence.sits_out:
        sequence.sits_out = lead >= pace.high_s - hysteresis_s
    else:
        sequence.sits_out = lead >= pace.high_s
    was_dry, sequence.underran = sequence.underran, lead < 0
    return sequence.underran and not was_dry


def comes_back_s(sequence: Sequence, now_s: float, hysteresis_s: float) -> float:
    """Returns when a stream that sits out will be below its mark again."""
    assert sequence.pace is not None
    return now_s + lead_s(sequence, now_s) - (sequence.pace.high_s - hysteresis_s)


def play(sequence: Sequence, routed_s: float, paused_s: float, now_s: float) -> None:
    """Takes note of what reached the listener since the start of the utterance."""
    sequence.routed_s = max(sequence.routed_s, routed_s)
    sequence.paused_s = max(sequence.paused_s, paused_s)
    if sequence.playing_since_s is None and sequence.routed_s > 0:
        sequence.playing_since_s = now_s
