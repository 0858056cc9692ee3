"""Whether one more paced stream fits, and how long it would have to wait.

Pacing moves deadlines and makes no throughput: without admission it only makes everybody
late. With N streams stepped together real time needs

    mean rate * c(N) + prefill share + share of other engines + reserved shares <= eta
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from engines.torch.capacity import CapacityModel
from engines.torch.sequence import Sequence

_UNFITTED_STREAMS = 4  # let in before anything is known of step times
_PREFILL_MEMORY_S = 10.0


@dataclass(slots=True)
class Admission:
    """Applies the stability inequality.

    Attributes:
        capacity: the model of step times.
        eta: the share of the device that paced streams may be expected to need.
        other_share: share of the device that other engines take, 0..1; set by the host.
    """

    capacity: CapacityModel
    eta: float
    other_share: float = 0.0
    _prefill_share: float = field(default=0.0, init=False)
    _seen_s: float = field(default=0.0, init=False)
    _length_ratio: float = field(default=1.0, init=False)

    def load(self, streams: Iterable[Sequence]) -> float:
        """Returns the share of the device that these paced streams are expected to need."""
        rates: list[float] = []
        context = 0
        for sequence in streams:
            if sequence.pace is not None:
                rates.append(sequence.pace.rate)
                context += (sequence.known + sequence.limit) // 2
        if not rates:
            return 0.0
        decode = self.capacity.load(rates, context)
        return decode + self._prefill_share + self.other_share

    def fits(self, streams: list[Sequence], reserved: float) -> bool:
        """Whether all these paced streams keep real time together."""
        if not self.capacity.is_fitted:
            return len(streams) <= _UNFITTED_STREAMS
        return self.load(streams) + reserved <= self.eta

    def saw_step(self, prefill_rows: int, now_s: float) -> None:
        """Follows the share of time that goes into prompts, over some seconds."""
        passed_s = max(now_s - self._seen_s, 1e-6)
        self._seen_s = now_s
        cost_s = self.capacity.coefficients[3] * prefill_rows
        weight = min(passed_s / _PREFILL_MEMORY_S, 1.0)
        self._prefill_share += weight * (min(cost_s / passed_s, 1.0) - self._prefill_share)

    def saw_end(self, sequence: Sequence) -> None:
        """Learns how much of their allowed length utterances use."""
        ratio = sequence.made / sequence.request.max_tokens
        self._length_ratio += 0.1 * (ratio - self._length_ratio)

    def wait_s(self, running: Iterable[Sequence], ahead: int) -> float:
        """Estimates how long until `ahead + 1` of the running paced streams have ended."""
        remaining = sorted(
            max(s.request.max_tokens * self._length_ratio - s.made, 0.0) / s.pace.rate
            for s in running
            if s.pace is not None
        )
        if not remaining:
            return 0.0
        rounds, index = divmod(ahead, len(remaining))
        return remaining[index] + rounds * remaining[-1]
