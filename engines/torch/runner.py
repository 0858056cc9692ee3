"""Turns a step's plan into one forward pass of a llama-family model."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from engines.base import EmbeddingSpan
from engines.torch.kv_cache import BlockTable
from engines.torch.kv_dtype import KvDtype
from engines.torch.layers.paged_kv import PagedKv
from engines.torch.layers.ragged_batch import RaggedBatch, RaggedPart, causal_rows, slot_runs
from engines.torch.models.llama import Llama
from engines.torch.sequence import Sequence
from engines.torch.step_plan import Part, StepPlan


@dataclass(frozen=True, slots=True)
class LogitRows:
    """Says where the logits of one part lie.

    Attributes:
        part: whose; it chooses.
        first: row of the last known position; the rows of the drafts follow.
        count: 1 + the number of drafts.
    """

    part: Part
    first: int
    count: int


class LlamaRunner:
    """Owns a model's cache memory and runs plans over it.

    Args:
        model: a frozen model.
        blocks: blocks of the cache; the plans' tables must stay within them.
        block_size: positions in a block.
        kv_dtype: how keys and values are held.
    """

    def __init__(
        self,
        model: Llama,
        blocks: int,
        block_size: int,
        kv_dtype: KvDtype = KvDtype.MODEL,
    ) -> None:
        self.model = model
        self.device = model.tokens.device
        self.kv = PagedKv(model.kv_layout(kv_dtype), blocks, block_size, self.device)
        self._group = model.config.heads // model.config.kv_heads

    @torch.inference_mode()
    def copy(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Copies blocks, (source, destination) each, in order."""
        for source, destination in pairs:
            self.kv.copy_block(source, destination)

    @torch.inference_mode()
    def run(self, plan: StepPlan) -> tuple[Tensor, list[LogitRows]]:
        """Computes all rows of a plan, prefill and decode together.

        Returns:
            The logits, (rows that choose, vocab), float32, and which are whose.
        """
        hidden = self.model.embed(self._ids(plan))
        self._put_spans(plan, hidden)
        rows, owners = _logit_rows(plan)
        logit_rows = None
        if len(rows) < plan.rows:
            logit_rows = torch.tensor(rows, dtype=torch.int64, device=self.device)
        logits: Tensor = self.model(hidden, self.kv, self._batch(plan, hidden), logit_rows)
        return logits, owners

    def _ids(self, plan: StepPlan) -> Tensor:
        ids: list[int] = []
        for part in plan.parts:
            keys = part.sequence.keys
            if part.count == 1 and isinstance(key := keys[part.start], int):
                ids.append(key)
            else:
                ids.extend(
                    key if isinstance(key, int) else 0 for key in keys[part.start : part.end]
                )
            ids.extend(part.drafts)
        return torch.tensor(ids, dtype=torch.int64, device=self.device)

    def _put_spans(self, plan: StepPlan, hidden: Tensor) -> None:
        """Overwrites the rows of prompt positions that embeddings stand for."""
        row = 0
        for part in plan.parts:
            if part.start < part.sequence.prompt_tokens:
                for span in part.sequence.request.spans:
                    _put_span(hidden[row : row + part.count], span, part.start)
            row += part.rows

    def _batch(self, plan: StepPlan, hidden: Tensor) -> RaggedBatch:
        size = self.kv.block_size
        parts: list[RaggedPart] = []
        slots: list[int] = []
        positions: list[int] = []
        for part in plan.parts:
            table = _table(part.sequence)
            end = part.start + part.rows
            runs = slot_runs(table.runs(), size, end)
            parts.append(
                RaggedPart(
                    first_row=len(slots),
                    rows=part.rows,
                    past=part.start,
                    runs=runs,
                    mask=causal_rows(part.rows, part.start, self._group, hidden),
                    views=self.kv.views(*runs[0]) if part.rows == len(runs) == 1 else None,
                )
            )
            blocks, new = table.blocks, range(part.start, end)
            slots.extend(blocks[at // size] * size + at % size for at in new)
            positions.extend(new)
        return RaggedBatch(parts, self._on_device(slots), self._on_device(positions))

    def _on_device(self, values: Iterable[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self.device)


def _table(sequence: Sequence) -> BlockTable:
    assert sequence.table is not None, "a planned sequence has its blocks"
    return sequence.table


def _logit_rows(plan: StepPlan) -> tuple[list[int], list[LogitRows]]:
    rows: list[int] = []
    owners: list[LogitRows] = []
    row = 0
    for part in plan.parts:
        if part.chooses:
            count = 1 + len(part.drafts)
            owners.append(LogitRows(part, len(rows), count))
            last = row + part.count - 1
            rows.extend(range(last, last + count))
        row += part.rows
    return rows, owners


def _put_span(hidden: Tensor, span: EmbeddingSpan, start: int) -> None:
    """Overwrites the part of a chunk, (n, width) from prompt index `start`, that a span has."""
    first = max(span.position, start)
    end = min(span.position + len(span.embeddings), start + hidden.shape[0])
    if first < end:
        part = span.embeddings[first - span.position : end - span.position]
        hidden[first - start : end - start] = torch.from_numpy(part.copy()).to(hidden)
