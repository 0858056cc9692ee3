"""Measures the embedded language model: alone, sixteen at once, and from a cached prefix.

The peer is `transformers.generate` in float32 with its own KV cache, the same weights, the
same prompt and as many threads, in rounds that alternate with ours; the physical limit is
the memory that a step must read at least, at the speed at which this machine reads memory.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from antiphon.commands.models import open_store
from antiphon.config import load_config
from antiphon.cores import usable_cores
from antiphon.embedded import Role, ensure_models, load_options
from engines.base import GenerateRequest, Ticket
from engines.torch.layers.linear import Linear
from engines.torch.loader import load_llama
from engines.torch.models.llama import Llama
from engines.torch.scheduler import SchedulerConfig
from engines.torch.token_engine import TokenEngineConfig, TokenStepEngine

PROMPT_TOKENS = 48
PREFIX_TOKENS = 1000
NEW_TOKENS = 64
BATCH = 16
ROUNDS = 5
QUICK_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Run:
    """Is what one batch of requests took.

    Attributes:
        tokens: ids delivered.
        first_s: from the start to the first id.
        decode_s: from the first id of the last request to the end.
    """

    tokens: int
    first_s: float
    decode_s: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the target's flags."""
    parser.add_argument("--threads", type=int, help="cores of a step; default: all")
    parser.add_argument("--no-peer", action="store_true", help="leave transformers out")


def measure(args: argparse.Namespace) -> dict[str, object]:
    """Returns tokens a second and their ratios."""
    config = load_config()
    folder = ensure_models(config, open_store(config), (Role.LM,))[Role.LM]
    threads = args.threads or usable_cores()
    with _threads(threads):
        model = load_llama(folder, load_options(config))
        # Guessed ids would make the figures depend on what the text happens to repeat.
        scheduler = SchedulerConfig(chunk_tokens=256)
        engine = TokenStepEngine(model, TokenEngineConfig(scheduler=scheduler, speculate=False))
        bench = _Bench(engine)
        peer = None if args.no_peer else _Peer.load(folder)
        return _figures(bench, peer, QUICK_ROUNDS if args.quick else ROUNDS, model, threads)


def _figures(
    bench: "_Bench", peer: "_Peer | None", rounds: int, model: Llama, threads: int
) -> dict[str, object]:
    bench.run(1, PROMPT_TOKENS, 8)  # warm
    alone, together, theirs = list[float](), list[float](), list[float]()
    cold, hit = list[float](), list[float]()
    for _ in range(rounds):
        alone.append(_rate(bench.run(1, PROMPT_TOKENS, NEW_TOKENS)))
        if peer is not None:
            theirs.append(peer.rate(PROMPT_TOKENS, NEW_TOKENS))
        together.append(_rate(bench.run(BATCH, PROMPT_TOKENS, NEW_TOKENS)))
        prompt = bench.prompt(PREFIX_TOKENS)
        cold.append(bench.run_prompt(prompt).first_s)
        hit.append(bench.run_prompt(prompt).first_s)
    batch1, batch16 = statistics.median(alone), statistics.median(together)
    weight_bytes = _bytes_a_step(model)
    read_s = weight_bytes / _read_bandwidth()
    figures: dict[str, object] = {
        "batch1_tok_s": round(batch1, 1),
        "batch16_tok_s": round(batch16, 1),
        "ratio_16_to_1": round(batch16 / batch1, 2),
        "transformers_tok_s": None,
        "ratio_vs_transformers": None,
        "prefix_cold_ttft_ms": round(1000 * statistics.median(cold), 1),
        "prefix_hit_ttft_ms": round(1000 * statistics.median(hit), 1),
        "prefix_hit_speedup": round(statistics.median(cold) / statistics.median(hit), 1),
        "weight_bytes_per_step": weight_bytes,
        "share_of_memory_limit": round(read_s * batch1, 3),
        "threads": threads,
        "rounds": rounds,
    }
    if theirs:
        figures["transformers_tok_s"] = round(statistics.median(theirs), 1)
        figures["ratio_vs_transformers"] = round(batch1 / statistics.median(theirs), 2)
    return figures


def _rate(run: Run) -> float:
    return run.tokens / run.decode_s


class _Bench:
    """Runs requests through an engine as fast as it goes."""

    def __init__(self, engine: TokenStepEngine) -> None:
        self._engine = engine
        self._numbers = itertools.count()

    def prompt(self, tokens: int) -> tuple[int, ...]:
        """Returns ids that begin unlike any before."""
        first = 1000 + 7 * next(self._numbers)
        return tuple(range(first, first + tokens))

    def run(self, requests: int, prompt_tokens: int, new_tokens: int) -> Run:
        """Decodes fresh prompts together."""
        return self._run([self.prompt(prompt_tokens) for _ in range(requests)], new_tokens)

    def run_prompt(self, prompt: tuple[int, ...]) -> Run:
        """Reads one prompt and takes two ids."""
        return self._run([prompt], 2)

    def _run(self, prompts: list[tuple[int, ...]], new_tokens: int) -> Run:
        engine, started_s = self._engine, time.perf_counter()
        for prompt in prompts:
            ticket = Ticket(f"bench{next(self._numbers)}", timeout_s=600.0)
            engine.add(GenerateRequest(ticket, prompt, new_tokens), time.monotonic())
        firsts: dict[str, float] = {}
        tokens = 0
        while engine.urgency(time.monotonic()) is not None:
            for output in engine.step(time.monotonic()):
                if output.error is not None:
                    raise output.error
                firsts.setdefault(output.request_id, time.perf_counter())
                if len(firsts) == len(prompts):
                    tokens += len(getattr(output.payload, "ids", ()))
        began_s = max(firsts.values())
        return Run(tokens, min(firsts.values()) - started_s, time.perf_counter() - began_s)


class _Peer:
    """Is `transformers` with the same weights."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._first = 20_000

    @classmethod
    def load(cls, folder: Path) -> "_Peer | None":
        """Returns None where transformers is not installed."""
        try:
            from transformers import AutoModelForCausalLM
        except ImportError:
            return None
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        return cls(model.requires_grad_(False))  # it comes in eval mode

    def rate(self, prompt_tokens: int, new_tokens: int) -> float:
        """Returns tokens a second of decoding: a long run less a short one."""
        short, long = self._seconds(prompt_tokens, 1), self._seconds(prompt_tokens, new_tokens)
        return (new_tokens - 1) / (long - short)

    @torch.inference_mode()
    def _seconds(self, prompt_tokens: int, new_tokens: int) -> float:
        self._first += 7
        ids = torch.arange(self._first, self._first + prompt_tokens).unsqueeze(0)
        started_s = time.perf_counter()
        self._model.generate(  # type: ignore[operator]  # a mixin's method
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            min_new_tokens=new_tokens,
            max_new_tokens=new_tokens,
            pad_token_id=0,
        )
        return time.perf_counter() - started_s


def _bytes_a_step(model: Llama) -> int:
    """Returns what a decode step must read at least: every matrix once."""
    return sum(part.decode_bytes for part in model.modules() if isinstance(part, Linear))


def _read_bandwidth() -> float:
    """Returns bytes a second of reading memory that no cache holds, on the same threads."""
    data = torch.ones(2**26)  # 256 MiB
    seconds = []
    for _ in range(5):
        started_s = time.perf_counter()
        data.sum()
        seconds.append(time.perf_counter() - started_s)
    return data.nbytes / min(seconds)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
