"""The engine for language models on a tiny random model: what it says, and what it keeps."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engines.base import (
    EmbeddingSpan,
    FinishReason,
    GenerateRequest,
    ReleaseRequest,
    Sampling,
    Ticket,
    Tier,
    TokenDelta,
)
from engines.errors import BadRequest, EngineFailed, Overloaded, Timeout
from engines.torch.kv_dtype import KvDtype
from engines.torch.loader import load_llama
from engines.torch.models.llama import Llama
from engines.torch.scheduler import SchedulerConfig
from engines.torch.step_engine import Output
from engines.torch.token_engine import TokenEngineConfig, TokenStepEngine
from tests.engines.token_runs import Runs
from tests.support.checkpoints import tiny_llama

PROMPT = tuple(int(token) for token in np.random.default_rng(1).integers(3, 97, 40))
REQUEST = GenerateRequest(Ticket("a", session_id="s"), PROMPT, max_tokens=10)
SMALL_STEPS = SchedulerConfig(chunk_tokens=15)
WIDTH = 32


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Llama:
    directory: Path = tmp_path_factory.mktemp("llama")
    tiny_llama(directory)
    return load_llama(directory)


@pytest.fixture
def engine(model: Llama) -> TokenStepEngine:
    return _engine(model)


def _engine(model: Llama, **knobs: Any) -> TokenStepEngine:
    return TokenStepEngine(model, TokenEngineConfig(**{"scheduler": SMALL_STEPS, **knobs}))


def _change(request: GenerateRequest = REQUEST, **changes: Any) -> GenerateRequest:
    if isinstance(name := changes.get("ticket"), str):
        changes["ticket"] = Ticket(name, session_id=name)
    return dataclasses.replace(request, **changes)


def _deltas(engine: TokenStepEngine, request: GenerateRequest) -> list[TokenDelta]:
    runs = Runs(engine)
    runs.add(request)
    runs.finish()
    request_id = request.ticket.request_id
    if request_id in runs.errors:
        raise runs.errors[request_id]
    return runs.deltas[request_id]


def _ids(deltas: list[TokenDelta]) -> tuple[int, ...]:
    return tuple(token for delta in deltas for token in delta.ids)


def _alone(model: Llama, request: GenerateRequest) -> list[TokenDelta]:
    return _deltas(_engine(model), request)


def test_prompt_is_read_in_chunks_and_the_last_yields_the_first_id(engine: TokenStepEngine) -> None:
    runs = Runs(engine)
    runs.add(REQUEST)
    runs.step(2)
    assert runs.deltas == {}
    runs.step()
    assert len(runs.ids("a")) == 1


def test_request_ends_with_one_closing_delta(engine: TokenStepEngine) -> None:
    *deltas, last = _deltas(engine, REQUEST)
    assert all(delta.finish is None for delta in deltas)
    assert last == TokenDelta("a", finish=FinishReason.LENGTH, prompt_tokens=40)
    assert len(_ids(deltas)) == 10


def test_stop_id_ends_the_request_undelivered(model: Llama) -> None:
    ids = _ids(_alone(model, REQUEST))
    at = next(index for index in range(2, 10) if ids[index] not in ids[:index])
    *deltas, last = _alone(model, _change(stop_ids=(ids[at],)))
    assert _ids(deltas) == ids[:at]
    assert last.finish is FinishReason.STOP and last.logprob is not None


def test_stop_sequence_ends_the_request_undelivered(model: Llama) -> None:
    ids = _ids(_alone(model, REQUEST))
    *deltas, last = _alone(model, _change(stop_sequences=(ids[4:7],)))
    assert _ids(deltas) == ids[:4]
    assert last.finish is FinishReason.STOP


def test_same_seed_draws_the_same_ids_whatever_else_runs(model: Llama) -> None:
    request = _change(sampling=Sampling(temperature=2.0, top_p=0.9, seed=4))
    alone = _ids(_alone(model, request))
    runs = Runs(_engine(model))
    others = [
        _change(ticket=f"o{seed}", prompt_ids=PROMPT[seed:], sampling=Sampling(1.0, seed=seed))
        for seed in range(5)
    ]
    runs.add(*others[:3], request, *others[3:])
    runs.finish()
    assert runs.ids("a") == alone
    other = _change(sampling=Sampling(temperature=2.0, top_p=0.9, seed=5))
    assert _ids(_alone(model, other)) != alone


@pytest.mark.parametrize("chunk", [1, 7, 512])
@pytest.mark.parametrize("reuse", [True, False])
def test_chunks_and_company_do_not_change_greedy_ids(model: Llama, chunk: int, reuse: bool) -> None:
    requests = [
        _change(ticket=f"r{index}", prompt_ids=PROMPT[: 5 + 7 * index], max_tokens=4 + 3 * index)
        for index in range(6)
    ]
    expected = [_ids(_alone(model, request)) for request in requests]
    scheduler = SchedulerConfig(chunk_tokens=chunk, max_running=4)
    engine = _engine(model, scheduler=scheduler, reuse=reuse)
    for _ in range(2):  # the second time from the cache
        runs = Runs(engine)
        runs.add(*requests)
        runs.finish()
        assert [runs.ids(f"r{index}") for index in range(6)] == expected
    assert (engine.stats().cached_tokens > 0) is reuse


def test_speculation_leaves_greedy_ids_and_takes_fewer_steps(model: Llama) -> None:
    loop = _change(prompt_ids=PROMPT[:8] * 4, max_tokens=60)
    plain, guessing = _engine(model, speculate=False), _engine(model, speculate=True)
    assert _ids(_deltas(guessing, loop)) == _ids(_deltas(plain, loop))
    stats = guessing.stats()
    assert 0 < stats.accepted_tokens <= stats.drafted_tokens
    assert stats.batch_rows < plain.stats().batch_rows


def test_speculation_keeps_the_draws_of_a_seed(model: Llama) -> None:
    sampling = Sampling(temperature=0.7, seed=3)
    request = _change(prompt_ids=PROMPT[:8] * 4, max_tokens=40, sampling=sampling)
    plain = _deltas(_engine(model, speculate=False), request)
    assert _ids(_deltas(_engine(model, speculate=True), request)) == _ids(plain)


# ---------------------------------------------------------------- the prefix cache


def test_next_turn_reuses_what_it_shares_and_says_the_same(
    model: Llama, engine: TokenStepEngine
) -> None:
    reply = _ids(_deltas(engine, REQUEST))
    turn = _change(prompt_ids=(*PROMPT, *reply, 11, 12, 13))
    reused, fresh = _deltas(engine, turn), _alone(model, turn)
    # The last id of the reply was chosen but never run.
    assert reused[-1].cached_tokens == len(PROMPT) + len(reply) - 1
    assert fresh[-1].cached_tokens == 0
    assert _ids(reused) == _ids(fresh)


def test_turn_that_departs_early_reuses_the_beginning_only(
    model: Llama, engine: TokenStepEngine
) -> None:
    _deltas(engine, REQUEST)
    turn = _change(prompt_ids=(*PROMPT[:20], 5, *PROMPT[21:]))
    reused = _deltas(engine, turn)
    assert reused[-1].cached_tokens == 20
    assert _ids(reused) == _ids(_alone(model, turn))
    stats = engine.stats()
    assert (stats.mismatched, stats.mismatch_position) == (1, 20)


def test_repeated_prompt_runs_its_last_position_again(engine: TokenStepEngine) -> None:
    first, second = _deltas(engine, REQUEST), _deltas(engine, REQUEST)
    assert second[-1].cached_tokens == len(PROMPT) - 1
    assert _ids(first) == _ids(second)


def test_other_session_shares_the_prefix_and_another_salt_does_not(engine: TokenStepEngine) -> None:
    _deltas(engine, REQUEST)
    assert _deltas(engine, _change(ticket="b"))[-1].cached_tokens == 39
    assert _deltas(engine, _change(cache_salt="x"))[-1].cached_tokens == 0


def test_interrupted_reply_leaves_its_cache_to_the_next_turn(
    model: Llama, engine: TokenStepEngine
) -> None:
    runs = Runs(engine)
    runs.add(REQUEST)
    runs.step(6)
    assert engine.abort("a")
    reply = runs.ids("a")
    turn = _change(prompt_ids=(*PROMPT, *reply, 11, 12))
    reused = _deltas(engine, turn)
    assert reused[-1].cached_tokens == len(PROMPT) + len(reply) - 1
    assert _ids(reused) == _ids(_alone(model, turn))


def test_abort_frees_slot_and_blocks_at_once(model: Llama) -> None:
    engine = _engine(model, reuse=False)
    runs = Runs(engine)
    runs.add(REQUEST)
    runs.step(4)
    assert engine.stats().running == 1 and engine.stats().cache_bytes > 0
    assert engine.abort("a") and not engine.abort("a")
    stats = engine.stats()
    assert (stats.running, stats.waiting, stats.cache_bytes) == (0, 0, 0)
    assert engine.urgency(runs.now_s) is None


def test_release_frees_what_a_session_alone_has_cached(engine: TokenStepEngine) -> None:
    other = _change(ticket="b", prompt_ids=PROMPT[::-1])
    _deltas(engine, REQUEST)
    _deltas(engine, other)
    engine.add(ReleaseRequest(Ticket("r", session_id="s")), 0.0)
    assert engine.expire(0.0) == [Output("r", "s", last=True)]
    assert _deltas(engine, other)[-1].cached_tokens == 39
    assert _deltas(engine, REQUEST)[-1].cached_tokens == 0


def test_cache_stays_within_its_budget_and_full_ones_wait(model: Llama) -> None:
    position = model.kv_layout(KvDtype.MODEL).bytes_per_position
    engine = _engine(model, cache_bytes=model.config.context * position)
    runs = Runs(engine)
    runs.add(*(_change(ticket=f"r{index}", prompt_ids=PROMPT[index:]) for index in range(8)))
    runs.step(3)
    stats = engine.stats()
    assert stats.running >= 1 and stats.waiting >= 1
    while engine.urgency(runs.now_s) is not None:
        runs.step()
        assert engine.stats().cache_bytes <= engine.stats().cache_limit_bytes
    assert all(len(runs.ids(f"r{index}")) == 10 for index in range(8))
    assert not runs.errors


def test_budget_below_one_request_is_refused(model: Llama) -> None:
    with pytest.raises(BadRequest, match="full length"):
        _engine(model, cache_bytes=1000)


@pytest.mark.parametrize("kept_as", [KvDtype.BFLOAT16, KvDtype.INT8, KvDtype.FP8])
def test_narrow_cache_takes_less_and_still_answers(model: Llama, kept_as: KvDtype) -> None:
    wide, narrow = _engine(model), _engine(model, kv_dtype=kept_as)
    assert len(_ids(_deltas(narrow, REQUEST))) == 10
    _deltas(wide, REQUEST)
    assert narrow.stats().cache_bytes < 0.8 * wide.stats().cache_bytes


# ---------------------------------------------------------------- failures


def test_step_that_raises_fails_only_whose_fault_it_is(
    model: Llama, engine: TokenStepEngine
) -> None:
    span = EmbeddingSpan(20, np.zeros((2, WIDTH), np.float32), "x")
    runs = Runs(engine)
    runs.add(REQUEST, _change(ticket="poison", spans=(span,)))
    object.__setattr__(span, "embeddings", np.zeros((2, WIDTH + 1), np.float32))
    runs.finish()
    assert runs.ids("a") == _ids(_alone(model, REQUEST))
    assert isinstance(runs.errors["poison"], EngineFailed)
    assert engine.stats().restarts > 0
    assert _ids(_deltas(engine, REQUEST)) == runs.ids("a")


def test_logits_that_are_no_numbers_fail_their_request_alone(
    model: Llama, engine: TokenStepEngine
) -> None:
    span = EmbeddingSpan(20, np.zeros((2, WIDTH), np.float32), "x")
    runs = Runs(engine)
    runs.add(REQUEST, _change(ticket="b", spans=(span,)))
    span.embeddings[:] = np.nan
    runs.finish()
    assert isinstance(runs.errors["b"], EngineFailed)
    assert runs.ids("a") == _ids(_alone(model, REQUEST))


def test_restart_drops_requests_and_prefixes(engine: TokenStepEngine) -> None:
    runs = Runs(engine)
    runs.add(REQUEST)
    runs.step(4)
    engine.restart()
    stats = engine.stats()
    assert (stats.running, stats.waiting, stats.cache_bytes) == (0, 0, 0)
    assert _deltas(engine, REQUEST)[-1].cached_tokens == 0


def test_request_past_its_time_ends_with_a_timeout(engine: TokenStepEngine) -> None:
    runs = Runs(engine)
    runs.add(_change(ticket=Ticket("a", timeout_s=0.05)))
    runs.step(8)
    assert isinstance(runs.errors["a"], Timeout)
    assert engine.stats().running == 0


def test_queue_is_bounded(model: Llama) -> None:
    engine = _engine(model, scheduler=SchedulerConfig(max_running=1, max_waiting=2))
    runs = Runs(engine)
    runs.add(_change(ticket="a"), _change(ticket="b"))
    with pytest.raises(Overloaded):
        runs.add(_change(ticket="c"))
    runs.finish()
    assert set(runs.deltas) == {"a", "b"} and engine.stats().refused == 1


def test_id_in_use_is_refused(engine: TokenStepEngine) -> None:
    engine.add(REQUEST, 0.0)
    with pytest.raises(BadRequest, match="already"):
        engine.add(REQUEST, 0.0)


def test_batch_work_gives_way_and_comes_to_its_end(model: Llama) -> None:
    scheduler = SchedulerConfig(max_running=2, newcomer_slots=0, chunk_tokens=15)
    engine = _engine(model, scheduler=scheduler)
    runs = Runs(engine)
    batch = [
        _change(ticket=Ticket(f"batch{index}", tier=Tier.BATCH), prompt_ids=PROMPT[index:])
        for index in range(2)
    ]
    runs.add(*batch)
    runs.step(5)
    runs.add(_change(ticket=Ticket("paid", tier=Tier.PAID)))
    runs.step()
    assert engine.stats().preempted == 1
    runs.finish()
    assert runs.ids("paid") == _ids(_alone(model, REQUEST))
    for request in batch:
        assert runs.ids(request.ticket.request_id) == _ids(_alone(model, request))


def test_steps_do_not_leave_the_thread_in_inference_mode(engine: TokenStepEngine) -> None:
    _deltas(engine, REQUEST)
    assert not torch.is_inference_mode_enabled()
