import dataclasses
from collections.abc import Generator
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
    SpanAttention,
    Ticket,
    TokenDelta,
)
from engines.errors import BadRequest, EngineFailed, Unsupported
from engines.torch.llama_engine import LlamaRunner, LlamaRunnerConfig
from engines.torch.loader import load_llama
from engines.torch.models.llama import Llama
from tests.support.checkpoints import tiny_llama

PROMPT = tuple(int(token) for token in np.random.default_rng(1).integers(3, 97, 40))
REQUEST = GenerateRequest(Ticket("a", session_id="s"), PROMPT, max_tokens=10)
SMALL_STEPS = LlamaRunnerConfig(step_gflop=1e-9)  # chunks of 16
WIDTH = 32


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Llama:
    directory: Path = tmp_path_factory.mktemp("llama")
    tiny_llama(directory)
    return load_llama(directory)


@pytest.fixture
def runner(model: Llama) -> LlamaRunner:
    return LlamaRunner(model, SMALL_STEPS)


def _change(request: GenerateRequest = REQUEST, **changes: Any) -> GenerateRequest:
    return dataclasses.replace(request, **changes)


def _deltas(runner: LlamaRunner, request: GenerateRequest) -> list[TokenDelta]:
    runner.check(request)
    return [delta for delta in runner.run(request) if delta is not None]


def _ids(deltas: list[TokenDelta]) -> tuple[int, ...]:
    return tuple(token for delta in deltas for token in delta.ids)


def _alone(model: Llama, request: GenerateRequest) -> list[TokenDelta]:
    return _deltas(LlamaRunner(model, SMALL_STEPS), request)


def test_prompt_is_read_in_chunks_and_the_last_yields_the_first_id(runner: LlamaRunner) -> None:
    assert runner.chunk_tokens == 16
    steps = list(runner.run(REQUEST))
    assert steps[:2] == [None, None] and None not in steps[2:]
    assert len(_ids([step for step in steps if step])) == 10


def test_chunking_does_not_change_the_ids(model: Llama) -> None:
    whole = _ids(_deltas(LlamaRunner(model), REQUEST))
    assert _ids(_alone(model, REQUEST)) == whole


def test_chunk_of_a_135m_model_is_about_80_positions(model: Llama) -> None:
    class Sized:
        config = dataclasses.replace(
            model.config, width=576, layers=30, heads=9, kv_heads=3, head_dim=64, ffn=1536
        )

    assert LlamaRunner(Sized()).chunk_tokens == 80  # type: ignore[arg-type]  # only sizes are read


def test_request_ends_with_one_closing_delta(runner: LlamaRunner) -> None:
    *deltas, last = _deltas(runner, REQUEST)
    assert all(len(delta.ids) == 1 and delta.finish is None for delta in deltas)
    assert last == TokenDelta("a", finish=FinishReason.LENGTH, prompt_tokens=40)


def test_stop_id_ends_the_request_undelivered(model: Llama) -> None:
    free = _alone(model, REQUEST)
    ids = _ids(free)
    at = next(index for index in range(2, 10) if ids[index] not in ids[:index])
    *deltas, last = _alone(model, _change(stop_ids=(ids[at],)))
    assert _ids(deltas) == ids[:at]
    assert last.finish is FinishReason.STOP and last.logprob == free[at].logprob


def test_same_seed_draws_the_same_ids(model: Llama) -> None:
    request = _change(sampling=Sampling(temperature=2.0, top_p=0.9, seed=4))
    assert _alone(model, request) == _alone(model, request)
    other = _change(sampling=Sampling(temperature=2.0, top_p=0.9, seed=5))
    assert _ids(_alone(model, other)) != _ids(_alone(model, request))


def test_next_turn_of_a_session_reuses_what_it_shares_and_says_the_same(
    model: Llama, runner: LlamaRunner
) -> None:
    reply = _ids(_deltas(runner, REQUEST))
    prompt = (*PROMPT, *reply, 11, 12, 13)
    turn = _change(prompt_ids=prompt)
    reused, fresh = _deltas(runner, turn), _alone(model, turn)
    # The last id of the reply was chosen but never run.
    assert reused[-1].cached_tokens == len(PROMPT) + len(reply) - 1
    assert fresh[-1].cached_tokens == 0
    assert _ids(reused) == _ids(fresh)


def test_turn_that_departs_early_reuses_the_beginning_only(
    model: Llama, runner: LlamaRunner
) -> None:
    _deltas(runner, REQUEST)
    turn = _change(prompt_ids=(*PROMPT[:20], 5, *PROMPT[21:]))
    reused = _deltas(runner, turn)
    assert reused[-1].cached_tokens == 20
    assert _ids(reused) == _ids(_alone(model, turn))


def test_repeated_prompt_runs_its_last_position_again(model: Llama, runner: LlamaRunner) -> None:
    first, second = _deltas(runner, REQUEST), _deltas(runner, REQUEST)
    assert second[-1].cached_tokens == len(PROMPT) - 1
    assert _ids(first) == _ids(second) == _ids(_alone(model, REQUEST))


def test_other_session_or_salt_reuses_nothing(runner: LlamaRunner) -> None:
    _deltas(runner, REQUEST)
    for request in (_change(ticket=Ticket("b", session_id="t")), _change(cache_salt="x")):
        assert _deltas(runner, request)[-1].cached_tokens == 0


def test_two_requests_of_one_session_at_once_do_not_share_a_cache(
    model: Llama, runner: LlamaRunner
) -> None:
    _deltas(runner, REQUEST)
    other = _change(ticket=Ticket("b", session_id="s"), prompt_ids=(*PROMPT[:39], 8))
    steps: dict[str, list[TokenDelta]] = {"a": [], "b": []}
    running = [runner.run(REQUEST), runner.run(other)]
    while running:
        for steps_of_one in list(running):
            delta = next(steps_of_one, "end")
            if delta == "end":
                running.remove(steps_of_one)
            elif isinstance(delta, TokenDelta):
                steps[delta.request_id].append(delta)
    assert _ids(steps["a"]) == _ids(_alone(model, REQUEST))
    assert _ids(steps["b"]) == _ids(_alone(model, other))


def test_interrupted_reply_leaves_its_cache_to_the_next_turn(
    model: Llama, runner: LlamaRunner
) -> None:
    running = runner.run(REQUEST)
    heard = [next(running) for _ in range(6)]
    assert isinstance(running, Generator)
    running.close()
    reply = _ids([delta for delta in heard if delta])
    turn = _change(prompt_ids=(*PROMPT, *reply, 11, 12))
    reused = _deltas(runner, turn)
    assert reused[-1].cached_tokens == len(PROMPT) + len(reply) - 1
    assert _ids(reused) == _ids(_alone(model, turn))


def test_request_closed_in_mid_prefill_leaves_what_was_read(runner: LlamaRunner) -> None:
    running = runner.run(REQUEST)
    next(running)
    assert isinstance(running, Generator)
    running.close()
    assert _deltas(runner, REQUEST)[-1].cached_tokens == 16


def test_request_without_session_leaves_nothing_when_it_ends_or_is_closed(
    runner: LlamaRunner,
) -> None:
    request = _change(ticket=Ticket("a"))
    _deltas(runner, request)
    assert runner.cache_bytes() == 0
    running = runner.run(request)
    next(running)
    assert runner.cache_bytes() > 0
    assert isinstance(running, Generator)
    running.close()
    assert runner.cache_bytes() == 0


def test_session_caches_stay_within_their_budget(model: Llama) -> None:
    one = LlamaRunner(model)
    _deltas(one, REQUEST)
    size = one.cache_bytes()
    assert size > 0
    runner = LlamaRunner(model, LlamaRunnerConfig(session_cache_bytes=2 * size))
    for session in "stuv":
        _deltas(runner, _change(ticket=Ticket(session, session_id=session)))
    assert runner.cache_bytes() == 2 * size


def test_release_of_one_session_leaves_the_others_alone(runner: LlamaRunner) -> None:
    other = _change(ticket=Ticket("b", session_id="t"))
    _deltas(runner, REQUEST)
    _deltas(runner, other)
    both = runner.cache_bytes()
    list(runner.run(ReleaseRequest(Ticket("r", session_id="s"))))
    assert runner.cache_bytes() == both / 2
    assert _deltas(runner, REQUEST)[-1].cached_tokens == 0
    assert _deltas(runner, other)[-1].cached_tokens == 39


def test_step_that_raises_leaves_nothing(model: Llama, runner: LlamaRunner) -> None:
    broken = np.full((2, WIDTH), np.nan, np.float32)
    request = _change(spans=(EmbeddingSpan(20, broken, "nan"),))
    with pytest.raises(EngineFailed):
        list(runner.run(request))
    assert runner.cache_bytes() == 0


def test_steps_do_not_leave_the_thread_in_inference_mode(runner: LlamaRunner) -> None:
    for _ in runner.run(REQUEST):
        assert not torch.is_inference_mode_enabled()


def _span(model: Llama, position: int, ids: tuple[int, ...], name: str) -> EmbeddingSpan:
    with torch.inference_mode():
        return EmbeddingSpan(position, model.embed(torch.tensor(ids)).numpy(), name)


def test_span_of_embeddings_equals_the_ids_that_it_came_from(model: Llama) -> None:
    # From 10 to 30 it crosses the border of two chunks.
    span = _span(model, 10, PROMPT[10:30], "picture")
    blank = (*PROMPT[:10], *[0] * 20, *PROMPT[30:])
    assert _ids(_alone(model, _change(prompt_ids=blank))) != _ids(_alone(model, REQUEST))
    with_span = _alone(model, _change(prompt_ids=blank, spans=(span,)))
    assert _ids(with_span) == _ids(_alone(model, REQUEST))


def test_span_is_reused_by_its_content(model: Llama, runner: LlamaRunner) -> None:
    blank = (*PROMPT[:10], *[0] * 20, *PROMPT[30:])
    cat = _change(prompt_ids=blank, spans=(_span(model, 10, PROMPT[10:30], "cat"),))
    dog = _change(prompt_ids=blank, spans=(_span(model, 10, PROMPT[5:25], "dog"),))
    _deltas(runner, cat)
    assert _deltas(runner, cat)[-1].cached_tokens == 39
    seen = _deltas(runner, dog)
    assert seen[-1].cached_tokens == 10
    assert _ids(seen) == _ids(_alone(model, dog))


@pytest.mark.parametrize(
    "changes",
    [
        {"attention": SpanAttention.BIDIRECTIONAL},
        {"position_ids": np.zeros((3, 2), np.int64)},
        {"layer_features": np.zeros((1, 2, WIDTH), np.float32)},
    ],
)
def test_span_of_another_family_is_unsupported(
    runner: LlamaRunner, changes: dict[str, Any]
) -> None:
    span = EmbeddingSpan(3, np.zeros((2, WIDTH), np.float32), "x")
    with pytest.raises(Unsupported):
        runner.check(_change(spans=(dataclasses.replace(span, **changes),)))


@pytest.mark.parametrize(
    "spans",
    [
        (EmbeddingSpan(39, np.zeros((2, WIDTH), np.float32), "leaves the prompt"),),
        (EmbeddingSpan(-1, np.zeros((2, WIDTH), np.float32), "before the prompt"),),
        (EmbeddingSpan(0, np.zeros((2, WIDTH + 1), np.float32), "wrong width"),),
        (EmbeddingSpan(0, np.full((2, WIDTH), np.inf, np.float32), "not numbers"),),
        (
            EmbeddingSpan(5, np.zeros((2, WIDTH), np.float32), "overlaps"),
            EmbeddingSpan(4, np.zeros((2, WIDTH), np.float32), "the other"),
        ),
    ],
)
def test_impossible_span_is_refused(runner: LlamaRunner, spans: tuple[EmbeddingSpan, ...]) -> None:
    with pytest.raises(BadRequest) as caught:
        runner.check(_change(spans=spans))
    assert caught.value.param == "spans"


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"prompt_ids": ()}, "prompt_ids"),
        ({"prompt_ids": (97,)}, "prompt_ids"),
        ({"prompt_ids": (-1,)}, "prompt_ids"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 89}, "max_tokens"),
        ({"sampling": Sampling(top_p=2.0)}, "sampling.top_p"),
    ],
)
def test_request_that_can_never_run_is_refused_by_name(
    runner: LlamaRunner, changes: dict[str, Any], param: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        runner.check(_change(**changes))
    assert caught.value.param == param


def test_prompt_and_output_may_fill_the_context(runner: LlamaRunner) -> None:
    assert len(_ids(_deltas(runner, _change(max_tokens=88)))) == 88


def test_released_session_holds_nothing_any_more(runner: LlamaRunner) -> None:
    _deltas(runner, REQUEST)
    assert runner.cache_bytes() > 0
    release = ReleaseRequest(Ticket("r", session_id="s"))
    runner.check(release)
    assert list(runner.run(release)) == ["s"]
    assert runner.cache_bytes() == 0
