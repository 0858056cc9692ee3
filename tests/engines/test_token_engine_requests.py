"""The engine for language models: embeddings in prompts, and requests that are refused."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engines.base import (
    EmbeddingSpan,
    GenerateRequest,
    Sampling,
    SpanAttention,
    Ticket,
    TokenDelta,
)
from engines.errors import BadRequest, Unsupported
from engines.torch.loader import load_llama
from engines.torch.models.llama import Llama
from engines.torch.scheduler import SchedulerConfig
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


def test_span_is_reused_by_its_content(model: Llama, engine: TokenStepEngine) -> None:
    blank = (*PROMPT[:10], *[0] * 20, *PROMPT[30:])
    cat = _change(prompt_ids=blank, spans=(_span(model, 10, PROMPT[10:30], "cat"),))
    dog = _change(prompt_ids=blank, spans=(_span(model, 10, PROMPT[5:25], "dog"),))
    _deltas(engine, cat)
    assert _deltas(engine, cat)[-1].cached_tokens == 39
    seen = _deltas(engine, dog)
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
    engine: TokenStepEngine, changes: dict[str, Any]
) -> None:
    span = EmbeddingSpan(3, np.zeros((2, WIDTH), np.float32), "x")
    with pytest.raises(Unsupported):
        engine.add(_change(spans=(dataclasses.replace(span, **changes),)), 0.0)


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
def test_impossible_span_is_refused(
    engine: TokenStepEngine, spans: tuple[EmbeddingSpan, ...]
) -> None:
    with pytest.raises(BadRequest) as caught:
        engine.add(_change(spans=spans), 0.0)
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
    engine: TokenStepEngine, changes: dict[str, Any], param: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        engine.add(_change(**changes), 0.0)
    assert caught.value.param == param


def test_prompt_and_output_may_fill_the_context(engine: TokenStepEngine) -> None:
    assert len(_ids(_deltas(engine, _change(max_tokens=88)))) == 88
