"""Runs a scheduler against a device whose step times are a formula, on a virtual clock."""

import heapq
import itertools
import zlib
from dataclasses import dataclass, field

from engines.base import GenerateRequest, Pace, Ticket, Tier
from engines.errors import AntiphonError, Overloaded
from engines.torch import pace
from engines.torch.capacity import CapacityModel
from engines.torch.kv_cache import KvBlocks
from engines.torch.scheduler import Scheduler, SchedulerConfig
from engines.torch.sequence import Sequence
from engines.torch.step_plan import StepPlan

RATE = 80.0


@dataclass(frozen=True)
class Device:
    """Takes `base_s + row_s * sequences + prefill_s * prompt rows` for a step."""

    base_s: float = 0.004
    row_s: float = 0.0004
    prefill_s: float = 0.00002

    def step_s(self, plan: StepPlan) -> float:
        rows = len(plan.parts)
        return self.base_s + self.row_s * rows + self.prefill_s * plan.prefill_rows

    def most_streams(self, share: float) -> int:
        """Returns how many streams real time allows within a share of the device."""
        return int((share / RATE - self.base_s) / self.row_s)


@dataclass
class StepSimulator:
    """Adds requests at their times and steps until all is over.

    Attributes:
        routed: whether what is made is heard at once; otherwise nothing is ever routed.
        worst_lead_s: largest lead of any stream seen right after it was routed.
        least_lead_s: smallest lead of a stream that had not ended.
        admitted, ended: request ids in order.
        refusals: request ids of those that were turned away, with their errors.
        idle_with_work: times that nothing ran though something might have.
    """

    config: SchedulerConfig
    device: Device = Device()
    blocks: int = 4096
    routed: bool = True
    worst_lead_s: float = 0.0
    least_lead_s: float = 0.0
    longest_step_s: float = 0.0
    idle_with_work: int = 0
    admitted: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    refusals: dict[str, AntiphonError] = field(default_factory=dict)
    added_s: dict[str, float] = field(default_factory=dict)
    first_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.now_s = 0.0
        capacity = CapacityModel()
        for rows in range(1, 41):  # as after a warm-up
            for prefill in (0, 50, 100):
                seconds = self.device.base_s + self.device.row_s * rows
                capacity.observe(rows, 0, prefill, seconds + self.device.prefill_s * prefill)
        self.kv = KvBlocks(self.blocks, 16)
        self.scheduler = Scheduler(self.config, self.kv, capacity)
        self._due: list[tuple[float, int, GenerateRequest]] = []
        self._number = itertools.count()
        self._ids = itertools.count(1000)

    def at(self, seconds: float, request: GenerateRequest) -> None:
        """Plans an arrival."""
        heapq.heappush(self._due, (seconds, next(self._number), request))

    def run(self, until_s: float = 1e9) -> None:
        """Runs until nothing is left, or the clock has come so far."""
        while self.now_s < until_s:
            self._arrive()
            self._expire()
            plan = self._plan()
            if plan.parts:
                self._step(plan)
            elif not self._wait():
                return

    def _arrive(self) -> None:
        while self._due and self._due[0][0] <= self.now_s:
            request = heapq.heappop(self._due)[2]
            name = request.ticket.request_id
            self.added_s[name] = self.now_s
            try:
                self.scheduler.add(Sequence.of(request, self.now_s), self.now_s)
            except Overloaded as error:
                self.refusals[name] = error

    def _expire(self) -> None:
        for sequence, error in self.scheduler.expire(self.now_s):
            self.refusals[sequence.request_id] = error

    def _plan(self) -> StepPlan:
        could = self.scheduler.urgency(self.now_s)
        plan = self.scheduler.plan(self.now_s)
        self.idle_with_work += could is not None and not plan.parts
        for name in self.scheduler.running:
            if name not in self.admitted:
                self.admitted.append(name)
        return plan

    def _step(self, plan: StepPlan) -> None:
        elapsed_s = self.device.step_s(plan)
        self.longest_step_s = max(self.longest_step_s, elapsed_s)
        self.now_s += elapsed_s
        for sequence in self.scheduler.running.values():
            if sequence.playing_since_s is not None:
                self.least_lead_s = min(self.least_lead_s, pace.lead_s(sequence, self.now_s))
        chosen = {p.sequence.request_id: [next(self._ids)] for p in plan.parts if p.chooses}
        self.scheduler.commit(plan, chosen, self.now_s, elapsed_s)
        for part in plan.parts:
            self._route(part.sequence)

    def _route(self, sequence: Sequence) -> None:
        name = sequence.request_id
        if sequence.made:
            self.first_s.setdefault(name, self.now_s)
        if sequence.pace is not None and sequence.made and self.routed:
            self.scheduler.playout(name, sequence.made / RATE, 0.0, self.now_s)
            self.worst_lead_s = max(self.worst_lead_s, pace.lead_s(sequence, self.now_s))
        if sequence.made >= sequence.request.max_tokens:
            self.scheduler.finish(name, self.now_s)
            self.ended.append(name)

    def _wait(self) -> bool:
        times = [self._due[0][0]] if self._due else []
        if (wakes_s := self.scheduler.wakes_s(self.now_s)) is not None:
            times.append(wakes_s)
        times += [s.admit_by_s for s in self.scheduler.waiting.values()]
        times += [s.ends_s for s in self.scheduler.running.values()]
        if not times:
            return False
        self.now_s = max(min(times), self.now_s + 1e-4)
        return True


def _prompt(name: str, length: int) -> tuple[int, ...]:
    first = zlib.crc32(name.encode())
    return tuple(range(first, first + length))


def stream(
    name: str, seconds: float = 4.0, tier: Tier = Tier.FREE, prompt: int = 20
) -> GenerateRequest:
    """Asks for speech at real time."""
    ids = _prompt(name, prompt)
    ticket = Ticket(name, session_id=name, tier=tier, due_in_s=0.5, timeout_s=60.0)
    return GenerateRequest(ticket, ids, max_tokens=int(seconds * RATE), pace=Pace(rate=RATE))


def text(name: str, tokens: int = 50, tier: Tier = Tier.FREE, prompt: int = 20) -> GenerateRequest:
    """Asks for text, as fast as may be."""
    ids = _prompt(name, prompt)
    ticket = Ticket(name, session_id=name, tier=tier, due_in_s=0.5, timeout_s=600.0)
    return GenerateRequest(ticket, ids, max_tokens=tokens)
