"""Who runs in a step of a language model.

A request waits in its tier's queue, is admitted when a slot, its cache blocks and, if it is
paced, the device's time allow it, runs until it ends, and frees everything at once. Only
batch work is ever sent back to wait. Everything is counted on a clock that is passed in.
"""

import bisect
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from engines.base import Tier
from engines.errors import AntiphonError, BadRequest, Overloaded, Timeout
from engines.torch import pace
from engines.torch.admission import Admission
from engines.torch.capacity import CapacityModel
from engines.torch.kv_cache import KvBlocks
from engines.torch.pace import Turn
from engines.torch.sequence import Sequence
from engines.torch.session_shares import SessionShares
from engines.torch.step_engine import Urgency
from engines.torch.step_plan import Part, StepPlan
from engines.torch.step_rows import fill_step


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Tunes the scheduler.

    Attributes:
        max_running: sequences admitted at once; each takes a row in a decode step.
        max_waiting: sequences queued at once, all tiers together.
        chunk_tokens: prompt positions in one step; more finishes prompts sooner and makes
            every step that they ride in longer.
        newcomer_slots: of `max_running`, kept from batch work, so that first audio does not
            wait for a whole utterance.
        eta: share of the device that paced streams may be expected to need; more serves
            more listeners and leaves less for surprises.
        hysteresis_s: how far below its high mark a stream's lead falls before it runs again.
        in_flight_s: audio of a stream that is made and not yet routed, at most.
        interactive_wait_s, batch_wait_s: a running sequence that got nothing for so long
            gets a row in the next step, whoever is more urgent.
        session_lease_s: how long a session's next turn comes before strangers.
        shed_after_s: paced streams that need more than the whole device for so long are
            shed, those first that have not spoken.
        pace: False runs paced requests freely, in order of arrival.
        admission: False lets paced requests in while slots and blocks last.
    """

    max_running: int = 64
    max_waiting: int = 256
    chunk_tokens: int = 256
    newcomer_slots: int = 4
    eta: float = 0.85
    hysteresis_s: float = 0.3
    in_flight_s: float = 0.5
    interactive_wait_s: float = 0.5
    batch_wait_s: float = 5.0
    session_lease_s: float = 30.0
    shed_after_s: float = 1.0
    pace: bool = True
    admission: bool = True


class Scheduler:
    """Plans steps and keeps account of them.

    Args:
        config: knobs.
        blocks: the cache's blocks.
        capacity: the model of step times; outlives a restart of the engine.
    """

    def __init__(self, config: SchedulerConfig, blocks: KvBlocks, capacity: CapacityModel) -> None:
        self.config = config
        self.capacity = capacity
        self.admission = Admission(capacity, config.eta)
        self.running: dict[str, Sequence] = {}
        self.waiting: dict[str, Sequence] = {}
        self.refused = self.preempted = self.underruns = 0
        self._blocks = blocks
        self._sessions = SessionShares(config.session_lease_s)
        self._copies: list[tuple[int, int]] = []
        self._shed: list[Sequence] = []
        self._overloaded_since_s: float | None = None

    # ------------------------------------------------------------ a request's life

    def add(self, sequence: Sequence, now_s: float) -> None:
        """Queues a sequence.

        Raises:
            BadRequest: it is longer than the cache.
            Overloaded: the queue is full, or it would wait for longer than it may.
        """
        if self._blocks.needed(sequence.limit) > self._blocks.total:
            raise BadRequest("The request is longer than the cache.", param="max_tokens")
        if len(self.waiting) >= self.config.max_waiting:
            self.refused += 1
            raise Overloaded(f"{len(self.waiting)} requests are waiting already.")
        wait_s = self._wait_s(sequence, now_s)
        if wait_s > sequence.admit_by_s - now_s:
            self.refused += 1
            raise Overloaded("No stream can be added in time.", retry_after_s=wait_s)
        self.waiting[sequence.request_id] = sequence

    def playout(self, request_id: str, routed_s: float, paused_s: float, now_s: float) -> None:
        """Takes note of what a listener has got; ignores ids that do not run."""
        if (sequence := self.running.get(request_id)) is not None:
            pace.play(sequence, routed_s, paused_s, now_s)

    def finish(self, request_id: str, now_s: float) -> None:
        """Ends a sequence that has made all that it will; its prefix stays cached."""
        sequence = self.running.pop(request_id)
        self.admission.saw_end(sequence)
        self._close(sequence, now_s)

    def abort(self, request_id: str) -> bool:
        """Ends a sequence and frees slot and blocks at once; False if it is not here."""
        if self.waiting.pop(request_id, None) is not None:
            return True
        sequence = self.running.pop(request_id, None)
        if sequence is None:
            return False
        self._close(sequence, sequence.stepped_s)
        return True

    def fail(self, request_id: str) -> None:
        """Ends a sequence whose last step cannot be trusted."""
        sequence = self.running.pop(request_id)
        if sequence.table is not None:
            self._blocks.discard(sequence.table)
            sequence.table = None

    def release(self, session_id: str) -> None:
        """Forgets a session, and frees what is cached of it alone."""
        if (known := self._sessions.pop(session_id)) is not None:
            self._blocks.forget(*known)

    def expire(self, now_s: float) -> list[tuple[Sequence, AntiphonError]]:
        """Ends what is out of time, has waited in vain, or was shed."""
        ended: list[tuple[Sequence, AntiphonError]] = []
        for sequence in [*self.waiting.values(), *self.running.values()]:
            if now_s >= sequence.ends_s:
                ended.append((sequence, Timeout("The request was not done in time.")))
            elif sequence.table is None and not sequence.made and now_s >= sequence.admit_by_s:
                self.refused += 1
                retry_s = self.admission.wait_s(self.running.values(), len(self.waiting))
                ended.append((sequence, Overloaded("No room in time.", retry_after_s=retry_s)))
        for sequence in self._shed:
            if sequence.request_id in self.running:
                self.refused += 1
                ended.append((sequence, Overloaded("The machine has become too slow for all.")))
        self._shed.clear()
        for sequence, _ in ended:
            self.abort(sequence.request_id)
        return ended

    # ------------------------------------------------------------ a step

    def plan(self, now_s: float) -> StepPlan:
        """Admits who fits and chooses who runs; without parts if nobody may."""
        self._admit(now_s)
        self._shed_overload(now_s)
        plan = StepPlan(copies=self._copies)
        self._copies = []
        ready = [sequence for sequence in self.running.values() if self._may_run(sequence, now_s)]
        ready.sort(key=lambda sequence: self._rank(sequence, now_s))
        for part in fill_step(ready, self.config, self.capacity, now_s):
            if self._has_room(part):
                plan.parts.append(part)
        # Making room may have sent somebody back to wait who had a part already.
        plan.parts = [part for part in plan.parts if part.sequence.table is not None]
        return plan

    def commit(
        self, plan: StepPlan, chosen: Mapping[str, Seq[int]], now_s: float, elapsed_s: float
    ) -> None:
        """Takes in what a step made.

        Args:
            plan: what ran.
            chosen: per request the ids chosen, accepted drafts first; none for a chunk of a
                prompt, or a row that failed.
            now_s: time after the step.
            elapsed_s: what it took.
        """
        self.capacity.observe(len(plan.parts), plan.context, plan.prefill_rows, elapsed_s)
        self.admission.saw_step(sum(part.count - 1 for part in plan.parts), now_s)
        for part in plan.parts:
            sequence, ids = part.sequence, chosen.get(part.sequence.request_id, ())
            if sequence.table is None:
                continue
            sequence.computed = part.end + max(len(ids) - 1, 0)
            sequence.keys.extend(ids)
            sequence.stepped_s = now_s
            self._blocks.commit(sequence.table, sequence.keys, sequence.computed)
            if ids or sequence.due_s < now_s:
                sequence.due_s = now_s + sequence.request.ticket.due_in_s

    def urgency(self, now_s: float) -> Urgency | None:
        """Says when the most urgent sequence is due; None if nobody may run."""
        self._admit(now_s)
        ready = [s for s in self.running.values() if self._may_run(s, now_s)]
        return min((self._due(sequence, now_s) for sequence in ready), default=None)

    def wakes_s(self, now_s: float) -> float | None:
        """Says when a stream that sits out will run again; None if none does."""
        return min(
            (
                pace.comes_back_s(sequence, now_s, self.config.hysteresis_s)
                for sequence in self.running.values()
                if sequence.sits_out
            ),
            default=None,
        )

    # ------------------------------------------------------------ inside

    def _rank(self, sequence: Sequence, now_s: float) -> tuple[float, float, float]:
        if self.config.pace:
            return pace.rank(sequence, now_s)
        return (Turn.INTERACTIVE, sequence.arrived_s, 0.0)

    def _due(self, sequence: Sequence, now_s: float) -> Urgency:
        playing = self.config.pace and sequence.playing_since_s is not None
        due_s = now_s + pace.lead_s(sequence, now_s) if playing else sequence.due_s
        return Urgency(sequence.tier is Tier.BATCH, due_s)

    def _may_run(self, sequence: Sequence, now_s: float) -> bool:
        if sequence.pace is None:
            return True
        self.underruns += pace.update(sequence, now_s, self.config.hysteresis_s)
        if not self.config.pace:
            sequence.sits_out = False
            return True
        if sequence.sits_out:
            return False
        return pace.in_flight_s(sequence, sequence.pace) < self.config.in_flight_s

    def _has_room(self, part: Part) -> bool:
        """Grows the table of batch work, if need be at the cost of newer batch work."""
        sequence = part.sequence
        if sequence.table is None:
            return False  # sent back to wait by an earlier part
        while not self._blocks.extend(sequence.table, part.end):
            victim = self._newest_batch()
            if victim is None or victim is sequence:
                return False
            self._preempt(victim)
        return True

    def _wait_s(self, sequence: Sequence, now_s: float) -> float:
        """Estimates how long a paced newcomer would wait; 0 for others."""
        if sequence.pace is None or not self.config.admission:
            return 0.0
        before = [s for s in self.running.values() if s.pace is not None]
        queue = self.waiting.values()
        before += [s for s in queue if s.pace is not None and s.tier <= sequence.tier]
        if self._fit([*before, sequence], now_s):
            return 0.0
        counts = range(len(before))
        fitting = bisect.bisect(counts, 0, key=lambda n: not self._fit(before[: n + 1], now_s))
        return self.admission.wait_s(before, len(before) - fitting)

    def _fits(self, sequence: Sequence, now_s: float) -> bool:
        streams = [s for s in self.running.values() if s.pace is not None]
        return self._fit([*streams, sequence], now_s)

    def _fit(self, streams: list[Sequence], now_s: float) -> bool:
        """Whether the device carries these together, and sessions that are silent now."""
        speaking = {s.request.ticket.session_id for s in streams}
        return self.admission.fits(streams, self._sessions.reserved(speaking, now_s))

    def _admit(self, now_s: float) -> None:
        """Lets waiting sequences in, by tier, known sessions first, then by deadline."""
        if not self.waiting:
            return
        paced_wait = False
        for sequence in sorted(self.waiting.values(), key=lambda s: self._queue_rank(s, now_s)):
            checks = sequence.pace is not None and self.config.admission
            if checks and (paced_wait or not self._fits(sequence, now_s)):
                paced_wait = True  # later ones of its kind must not pass it
                continue
            if not self._open(sequence):
                if sequence.tier is Tier.BATCH:
                    continue
                return  # nobody less urgent takes what it waits for
            del self.waiting[sequence.request_id]
            self.running[sequence.request_id] = sequence
            self._touch(sequence, now_s)

    def _queue_rank(self, sequence: Sequence, now_s: float) -> tuple[int, bool, float]:
        if not self.config.pace:
            return (0, True, sequence.arrived_s)
        is_stranger = not self._sessions.knows(sequence.request.ticket.session_id, now_s)
        aged = now_s - sequence.arrived_s > self.config.batch_wait_s
        tier = Tier.FREE if sequence.tier is Tier.BATCH and aged else sequence.tier
        return (tier, is_stranger, sequence.arrived_s + sequence.request.ticket.due_in_s)

    def _open(self, sequence: Sequence) -> bool:
        """Gives a sequence a slot and blocks, taking them from batch work if it must."""
        is_batch = sequence.tier is Tier.BATCH
        slots = self.config.max_running - (self.config.newcomer_slots if is_batch else 0)
        while len(self.running) >= max(slots, 1):
            if is_batch or not self._preempt_newest():
                return False
        positions = sequence.known if is_batch else sequence.limit
        while True:
            salt, owner = sequence.request.cache_salt, sequence.request.ticket.session_id
            opened = self._blocks.open(sequence.keys, positions, salt, owner)
            if opened is not None:
                sequence.table = opened.table
                sequence.computed = opened.table.reused
                self._copies.extend(opened.copies)
                return True
            if is_batch or not self._preempt_newest():
                return False

    def _preempt_newest(self) -> bool:
        victim = self._newest_batch()
        if victim is None:
            return False
        self._preempt(victim)
        return True

    def _newest_batch(self) -> Sequence | None:
        batch = [s for s in self.running.values() if s.tier is Tier.BATCH]
        return max(batch, key=lambda s: s.arrived_s, default=None)

    def _preempt(self, sequence: Sequence) -> None:
        """Sends batch work back to wait; its ids are kept and its blocks may stay cached."""
        assert sequence.table is not None
        self._blocks.close(sequence.table, sequence.keys, sequence.computed)
        sequence.table, sequence.computed = None, 0
        del self.running[sequence.request_id]
        self.waiting[sequence.request_id] = sequence
        self.preempted += 1

    def _close(self, sequence: Sequence, now_s: float) -> None:
        if sequence.table is not None:
            self._blocks.close(sequence.table, sequence.keys, sequence.computed)
            sequence.table = None
        self._touch(sequence, now_s)

    def _touch(self, sequence: Sequence, now_s: float) -> None:
        request = sequence.request
        keys = sequence.keys[: sequence.computed]
        self._sessions.touch(
            request.ticket.session_id, request.expected_share, keys, request.cache_salt, now_s
        )

    def _shed_overload(self, now_s: float) -> None:
        """Gives up batch work, then streams that have not spoken, if not all can keep time."""
        if not (self.config.pace and self.config.admission and self.capacity.is_fitted):
            return
        streams = [s for s in self.running.values() if s.pace is not None]
        if self.admission.load(streams) <= 1.0:
            self._overloaded_since_s = None
            return
        if self._overloaded_since_s is None:
            self._overloaded_since_s = now_s
        if now_s - self._overloaded_since_s < self.config.shed_after_s or self._preempt_newest():
            return
        silent = [s for s in streams if s.playing_since_s is None and s not in self._shed]
        if silent:
            self._shed.append(max(silent, key=lambda s: (s.tier, s.arrived_s)))
            self._overloaded_since_s = now_s
