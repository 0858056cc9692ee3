"""Our llama against transformers, with the same weights."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from engines.base import GenerateRequest, Ticket
from engines.torch.loader import LoadOptions, load_llama
from engines.torch.models.llama import Llama
from engines.torch.teacher_forcing import logits_of
from engines.torch.token_engine import TokenStepEngine
from tests.engines.token_runs import run_alone
from tests.support.checkpoints import tiny_llama
from tests.support.models import model_path

MESSAGES = [
    {"role": "system", "content": "Answer in one short sentence."},
    {"role": "user", "content": "What is the capital of France, and why is it well known?"},
]
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


@pytest.fixture(scope="module")
def ours() -> Llama:
    return load_llama(model_path("smollm2-135m-instruct"))


@pytest.fixture(scope="module")
def theirs() -> Any:
    directory = model_path("smollm2-135m-instruct")
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def prompt() -> tuple[int, ...]:
    tokenizer = AutoTokenizer.from_pretrained(model_path("smollm2-135m-instruct"))
    text = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, tokenize=False)
    return tuple(tokenizer(text).input_ids)


def _run(model: Llama, ids: torch.Tensor, chunk: int) -> torch.Tensor:
    rows = [torch.cat(list(logits_of(model, row.tolist(), chunk))) for row in ids]
    return torch.stack(rows)


@torch.inference_mode()
def test_logits_of_a_real_prompt_equal_those_of_transformers(
    ours: Llama, theirs: Any, prompt: tuple[int, ...]
) -> None:
    ids = torch.tensor([prompt])
    expected = theirs(ids).logits
    for chunk in (len(prompt), 16, 1):
        logits = _run(ours, ids, chunk)
        assert (logits - expected).abs().max() < 1e-4


@torch.inference_mode()
def test_greedy_ids_equal_those_of_transformers(
    ours: Llama, theirs: Any, prompt: tuple[int, ...]
) -> None:
    request = GenerateRequest(Ticket("a"), prompt, max_tokens=24)
    tokens = run_alone(TokenStepEngine(ours), request)
    assert len(tokens) == 24
    # If every id is their likeliest after those before it, their greedy search gives the same.
    expected = theirs(torch.tensor([[*prompt, *tokens[:-1]]])).logits
    assert expected[0, len(prompt) - 1 :].argmax(-1).tolist() == tokens


@torch.inference_mode()
def test_calibrated_layout_of_the_weights_keeps_the_logits(
    theirs: Any, prompt: tuple[int, ...]
) -> None:
    ours = load_llama(model_path("smollm2-135m-instruct"), LoadOptions(calibrate=True))
    ids = torch.tensor([prompt])
    expected = theirs(ids).logits
    for chunk in (len(prompt), 1):
        logits = _run(ours, ids, chunk)
        assert (logits - expected).abs().max() < 1e-4


@torch.inference_mode()
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tie_word_embeddings": True, "num_key_value_heads": 4},
        {"rope_parameters": LLAMA3_ROPE},
        {"attention_bias": True, "mlp_bias": True, "head_dim": 16},
    ],
    ids=["grouped untied", "tied", "llama3 rope", "biases and wide heads"],
)
def test_random_checkpoint_equals_transformers(tmp_path: Path, changes: dict[str, Any]) -> None:
    theirs = tiny_llama(tmp_path, **changes)
    for name, weight in theirs.named_parameters():
        if name.endswith("bias"):
            weight.normal_()  # they start at zero, which would prove nothing
    theirs.save_pretrained(tmp_path)
    ours = load_llama(tmp_path)
    ids = torch.randint(0, 97, (2, 100))
    expected = theirs(ids).logits
    for chunk in (100, 7):
        logits = _run(ours, ids, chunk)
        assert (logits - expected).abs().max() < 1e-4
