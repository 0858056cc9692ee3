"""The engine for language models: who runs, one forward pass, who gets what.

`step` is the whole engine in order: plan, draft, run, choose, commit, deliver.
"""

import logging
import time
from dataclasses import dataclass, field

import torch
from torch import Tensor

from engines.base import Capabilities, EngineStats, GenerateRequest, ReleaseRequest
from engines.errors import AntiphonError, BadRequest, EngineFailed
from engines.torch.capacity import CapacityModel
from engines.torch.delivery import Delivery
from engines.torch.generate_checks import check_generate
from engines.torch.kv_budget import blocks_for
from engines.torch.kv_cache import KvBlocks
from engines.torch.kv_dtype import KvDtype
from engines.torch.models.llama import Llama
from engines.torch.prompt_lookup import NgramIndex
from engines.torch.runner import LlamaRunner, LogitRows
from engines.torch.sampler import Choice, Sampler, choose, choose_in_order
from engines.torch.scheduler import Scheduler, SchedulerConfig
from engines.torch.sequence import Sequence
from engines.torch.speculation import Acceptance, draft_depth
from engines.torch.step_engine import Output, Request, StepEngine, Urgency
from engines.torch.step_plan import Part, StepPlan
from engines.torch.stop_rules import StopRules

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TokenEngineConfig:
    """Tunes the engine.

    Attributes:
        name: model name for logs and `doctor`.
        scheduler: who runs, and who is let in.
        cache_bytes: budget for keys and values of running requests and reusable prefixes;
            taken from the system as it fills.
        block_size: positions in a block; prefixes are shared in whole blocks.
        kv_dtype: how keys and values are held; narrower ones fit more streams and round.
        reuse: whether prefixes are kept and shared.
        speculate: whether ids are guessed from repetitions in the text so far.
    """

    name: str = "llama"
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    cache_bytes: int = 2**30
    block_size: int = 16
    kv_dtype: KvDtype = KvDtype.MODEL
    reuse: bool = True
    speculate: bool = True


@dataclass(slots=True, eq=False)
class _Job:
    """Is what one request needs besides its place in the schedule."""

    sequence: Sequence
    sampler: Sampler
    delivery: Delivery
    ngrams: NgramIndex
    acceptance: Acceptance


class TokenStepEngine(StepEngine):
    """Implements `StepEngine` for `GenerateRequest` and `ReleaseRequest`.

    Args:
        model: a frozen model.
        config: knobs.

    Raises:
        BadRequest: the cache budget does not hold one request of full length.
    """

    def __init__(self, model: Llama, config: TokenEngineConfig | None = None) -> None:
        self._config = config = config or TokenEngineConfig()
        layout = model.kv_layout(config.kv_dtype)
        self._blocks_total = blocks_for(
            config.cache_bytes, layout.bytes_per_position, config.block_size, model.config.context
        )
        self._model = model
        self._block_bytes = config.block_size * layout.bytes_per_position
        self._runner = LlamaRunner(model, self._blocks_total, config.block_size, config.kv_dtype)
        self._capacity = CapacityModel()
        self._tokens = self._finished = self._aborted = self._failed = 0
        self._rows = self._drafted = self._accepted = self._restarts = 0
        self.restart()

    def restart(self) -> None:
        """Drops all requests and all cached prefixes; weights and figures stay."""
        self._blocks = KvBlocks(
            self._blocks_total, self._config.block_size, reuse=self._config.reuse
        )
        self.scheduler = Scheduler(self._config.scheduler, self._blocks, self._capacity)
        self._jobs: dict[str, _Job] = {}
        self._outputs: list[Output] = []

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            name=f"torch/{self._config.name}", spans=True, max_context=self._model.config.context
        )

    # ------------------------------------------------------------ requests

    def add(self, request: Request, now_s: float) -> None:
        """Queues a request.

        Raises:
            BadRequest: it can never run, or its id is taken.
            Unsupported: its spans need what this family does not have.
            Overloaded: it would wait longer than it may.
        """
        if isinstance(request, ReleaseRequest):
            self._release(request)
            return
        if not isinstance(request, GenerateRequest):
            raise BadRequest("A language model takes generate requests only.")
        check_generate(request, self._model.config)
        request_id = request.ticket.request_id
        if request_id in self._jobs:
            raise BadRequest(f"Request {request_id} is already running.")
        job = self._new_job(request, now_s)
        self.scheduler.add(job.sequence, now_s)
        self._jobs[request_id] = job

    def _new_job(self, request: GenerateRequest, now_s: float) -> _Job:
        rules = StopRules(frozenset(request.stop_ids), request.max_tokens, request.stop_sequences)
        sequence = Sequence.of(request, now_s)
        return _Job(
            sequence,
            Sampler(request.sampling, prompt_ids=request.prompt_ids),
            Delivery(request.ticket.request_id, rules, len(request.prompt_ids)),
            NgramIndex(sequence.keys if self._config.speculate else ()),
            Acceptance(),
        )

    def _release(self, request: ReleaseRequest) -> None:
        self.scheduler.release(request.ticket.session_id)
        done = Output(request.ticket.request_id, request.ticket.session_id, last=True)
        self._outputs.append(done)

    def abort(self, request_id: str) -> bool:
        """Frees slot and blocks of a request at once; False if it is not here."""
        if self._jobs.pop(request_id, None) is None:
            return False
        self._aborted += 1
        self.scheduler.abort(request_id)
        return True

    def playout(self, request_id: str, routed_s: float, paused_s: float, now_s: float) -> None:
        """Takes note of what the listener of a paced stream has got; ignores other ids."""
        self.scheduler.playout(request_id, routed_s, paused_s, now_s)

    def urgency(self, now_s: float) -> Urgency | None:
        """Says when the most urgent sequence is due; None if nobody may run now."""
        return self.scheduler.urgency(now_s)

    def wakes_s(self, now_s: float) -> float | None:
        """Says when a stream that sits out will run again, though no message comes."""
        return self.scheduler.wakes_s(now_s)

    def expire(self, now_s: float) -> list[Output]:
        """Ends requests that are past their time, refused, or shed."""
        outputs, self._outputs = self._outputs, []
        for sequence, error in self.scheduler.expire(now_s):
            self._jobs.pop(sequence.request_id, None)
            self._failed += 1
            outputs.append(Output(sequence.request_id, last=True, error=error))
        return outputs

    # ------------------------------------------------------------ a step

    def step(self, now_s: float) -> list[Output]:
        """Runs one step: prefill chunks and decodes of everybody whose turn it is."""
        plan = self.scheduler.plan(now_s)
        self._runner.copy(plan.copies)
        if not plan.parts:
            return []
        for part in plan.parts:
            self._begin(part)
        self._draft(plan)
        started_s = time.perf_counter()
        chosen = self._run(plan)
        elapsed_s = time.perf_counter() - started_s
        self._rows += len(plan.parts)
        ids = {
            name: [choice.token for choice in got]
            for name, got in chosen.items()
            if isinstance(got, list)
        }
        self.scheduler.commit(plan, ids, now_s + elapsed_s, elapsed_s)
        outputs: list[Output] = []
        for part in plan.parts:
            if part.sequence.request_id in chosen:
                outputs += self._deliver(part, chosen[part.sequence.request_id], now_s + elapsed_s)
        return outputs

    def _run(self, plan: StepPlan) -> dict[str, list[Choice] | AntiphonError]:
        """Runs a plan; one that raises is run again part by part, to find whose fault it is."""
        try:
            return self._choose(*self._runner.run(plan))
        except Exception:
            name, parts = self._config.name, plan.parts
            logger.exception("a step of %s with %d sequences failed", name, len(parts))
        self._restarts += 1
        chosen: dict[str, list[Choice] | AntiphonError] = {}
        for part in parts:
            try:
                chosen |= self._choose(*self._runner.run(StepPlan([part])))
            except Exception:
                request_id = part.sequence.request_id
                logger.exception("request %s failed in a step of its own", request_id)
                chosen[request_id] = EngineFailed(f"{name} failed.")
        return chosen

    def _fail(self, part: Part, error: AntiphonError) -> Output:
        request_id = part.sequence.request_id
        self._failed += 1
        del self._jobs[request_id]
        self.scheduler.fail(request_id)
        return Output(request_id, last=True, error=error)

    def _begin(self, part: Part) -> None:
        """Notes, in a sequence's first part, how much of its prompt was cached."""
        sequence = part.sequence
        if not sequence.made and sequence.table is not None:
            job = self._jobs[sequence.request_id]
            job.delivery.cached_tokens = sequence.table.reused

    def _draft(self, plan: StepPlan) -> None:
        """Adds guessed ids to plain decode parts, as far as they are expected to pay."""
        if not self._config.speculate:
            return
        sequences, context, rows = len(plan.parts), plan.context, plan.prefill_rows
        for part in plan.parts:
            job = self._jobs[part.sequence.request_id]
            if part.count != 1 or not part.chooses or not part.sequence.made:
                continue
            depth = draft_depth(job.acceptance, self._capacity, sequences, context, rows)
            depth = min(depth, self._room_for_drafts(part))
            part.drafts = job.ngrams.propose(depth) if depth > 0 else ()
            rows += len(part.drafts)

    def _room_for_drafts(self, part: Part) -> int:
        sequence, table = part.sequence, part.sequence.table
        assert table is not None
        wanted = sequence.request.max_tokens - sequence.made - 1
        return min(wanted, len(table.blocks) * self._config.block_size - part.end)

    def _choose(
        self, logits: Tensor, owners: list[LogitRows]
    ) -> dict[str, list[Choice] | AntiphonError]:
        """Chooses for all rows; those without guesses together."""
        chosen: dict[str, list[Choice] | AntiphonError] = {}
        single = [owner for owner in owners if owner.count == 1]
        samplers = [self._job_of(owner).sampler for owner in single]
        rows = logits
        if len(single) < len(owners):
            rows = logits[torch.tensor([owner.first for owner in single], dtype=torch.int64)]
        for owner, choice in zip(single, choose(rows, samplers), strict=True):
            request_id = owner.part.sequence.request_id
            chosen[request_id] = choice if isinstance(choice, AntiphonError) else [choice]
        for owner in owners:
            if owner.count > 1:
                chosen[owner.part.sequence.request_id] = self._verify(logits, owner)
        return chosen

    def _verify(self, logits: Tensor, owner: LogitRows) -> list[Choice] | AntiphonError:
        drafts = owner.part.drafts
        rows = logits[owner.first : owner.first + owner.count]
        try:
            choices = choose_in_order(rows, self._job_of(owner).sampler, drafts)
        except AntiphonError as error:
            return error
        self._drafted += len(drafts)
        self._accepted += len(choices) - 1
        return choices

    def _job_of(self, owner: LogitRows) -> _Job:
        return self._jobs[owner.part.sequence.request_id]

    def _deliver(self, part: Part, got: list[Choice] | AntiphonError, now_s: float) -> list[Output]:
        request_id = part.sequence.request_id
        job = self._jobs[request_id]
        if isinstance(got, AntiphonError):
            return [self._fail(part, got)]
        job.acceptance.saw(len(part.drafts), len(got) - 1)
        if self._config.speculate:
            job.ngrams.add(choice.token for choice in got)
        outputs = []
        for delta in job.delivery.deltas(got):
            self._tokens += len(delta.ids)
            outputs.append(Output(request_id, delta, last=delta.finish is not None))
        if outputs and outputs[-1].last:
            self._finished += 1
            del self._jobs[request_id]
            self.scheduler.finish(request_id, now_s)
        return outputs

    def stats(self) -> EngineStats:
        scheduler, blocks = self.scheduler, self._blocks
        return EngineStats(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            tokens=self._tokens,
            finished=self._finished,
            aborted=self._aborted,
            failed=self._failed,
            refused=scheduler.refused,
            preempted=scheduler.preempted,
            restarts=self._restarts,
            cache_bytes=(blocks.used + blocks.cached) * self._block_bytes,
            cache_limit_bytes=blocks.total * self._block_bytes,
            batch_rows=self._rows,
            prompt_tokens=blocks.prompt_tokens,
            cached_tokens=blocks.cached_tokens,
            mismatched=blocks.mismatched,
            mismatch_position=blocks.mismatch_position,
            drafted_tokens=self._drafted,
            accepted_tokens=self._accepted,
            underruns=scheduler.underruns,
        )
