"""Attention over a paged cache against plain attention over the same keys and values."""

import pytest
import torch
from torch import Tensor

from engines.torch.kv_dtype import KvDtype
from engines.torch.layers.paged_attention import attend_ragged
from engines.torch.layers.paged_kv import KvLayout, PagedKv
from engines.torch.layers.ragged_batch import RaggedBatch, RaggedPart, causal_rows, slot_runs

BLOCK, BLOCKS = 4, 32
HEADS, GROUP, HEAD_DIM = 2, 3, 8
TOLERANCE = {KvDtype.MODEL: 1e-5, KvDtype.BFLOAT16: 2e-2, KvDtype.INT8: 3e-2, KvDtype.FP8: 0.15}


def _cache(kept_as: KvDtype = KvDtype.MODEL) -> PagedKv:
    return PagedKv(KvLayout(1, HEADS, HEAD_DIM, kept_as=kept_as), BLOCKS, BLOCK)


def _slots(blocks: list[int], length: int) -> list[int]:
    return [blocks[at // BLOCK] * BLOCK + at % BLOCK for at in range(length)]


def _block_runs(blocks: list[int]) -> tuple[tuple[int, int], ...]:
    runs: list[tuple[int, int]] = []
    for block in blocks:
        if runs and sum(runs[-1]) == block:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((block, 1))
    return tuple(runs)


def _plain(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attends from (new, heads, group, dim), the last of (length, heads, dim) positions."""
    new, length = queries.shape[0], keys.shape[0]
    scores = torch.einsum("nhgd,lhd->hgnl", queries, keys)
    hidden = torch.ones(new, length, dtype=torch.bool).triu(length - new + 1)
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    return torch.einsum("hgnl,lhd->nhgd", weights, values).flatten(1)


@pytest.mark.parametrize("kept_as", KvDtype)
@torch.inference_mode()
def test_mixed_batch_equals_plain_attention(kept_as: KvDtype) -> None:
    torch.manual_seed(2)
    kv = _cache(kept_as)
    # Blocks in order, scattered blocks, a draft of a few rows, and a long chunk of a prompt.
    tables = [[0, 1, 2], [9, 5, 6, 20], [11, 12], list(range(22, 31))]
    lengths, new = [10, 15, 8, 33], [1, 1, 3, 25]
    parts: list[RaggedPart] = []
    expected: list[Tensor] = []
    queries = torch.randn(sum(new), HEADS, GROUP, HEAD_DIM) * HEAD_DIM**-0.5
    for blocks, length, rows in zip(tables, lengths, new, strict=True):
        keys, values = torch.randn(2, length, HEADS, HEAD_DIM)
        kv.write(0, torch.tensor(_slots(blocks, length)), keys, values)
        first = sum(part.rows for part in parts)
        mask = causal_rows(rows, length - rows, GROUP, queries)
        runs = slot_runs(_block_runs(blocks), BLOCK, length)
        parts.append(RaggedPart(first, rows, length - rows, runs, mask))
        expected.append(_plain(queries[first : first + rows], keys, values))
    batch = RaggedBatch(parts, torch.empty(sum(new)), torch.empty(sum(new)))
    found = attend_ragged(queries, kv, 0, batch)
    assert (found - torch.cat(expected)).abs().max() < TOLERANCE[kept_as]
    assert not batch.is_decode and batch.longest == 33


@pytest.mark.parametrize("kept_as", KvDtype)
@torch.inference_mode()
def test_copied_block_reads_the_same(kept_as: KvDtype) -> None:
    torch.manual_seed(4)
    kv = _cache(kept_as)
    keys, values = torch.randn(2, BLOCK, HEADS, HEAD_DIM)
    kv.write(0, torch.arange(3 * BLOCK, 4 * BLOCK), keys, values)
    kv.copy_block(3, 17)
    for old, new in zip(kv.read(0, 3 * BLOCK, BLOCK), kv.read(0, 17 * BLOCK, BLOCK), strict=True):
        assert torch.equal(old, new)
    for read, gathered in zip(
        kv.read(0, 17 * BLOCK, BLOCK),
        kv.gather(0, torch.arange(17 * BLOCK, 18 * BLOCK)),
        strict=True,
    ):
        assert torch.equal(read, gathered)


@pytest.mark.parametrize(
    ("kept_as", "expected"),
    [(KvDtype.MODEL, 128), (KvDtype.BFLOAT16, 64), (KvDtype.INT8, 48), (KvDtype.FP8, 48)],
)
def test_bytes_of_a_position_count_its_scales(kept_as: KvDtype, expected: int) -> None:
    assert KvLayout(1, HEADS, HEAD_DIM, kept_as=kept_as).bytes_per_position == expected


def test_runs_of_slots_end_where_the_sequence_does() -> None:
    assert slot_runs(((3, 2),), BLOCK, 5) == ((12, 5),)
    assert slot_runs(((3, 1), (8, 3)), BLOCK, 9) == ((12, 4), (32, 5))
    assert slot_runs(((3, 1), (8, 3)), BLOCK, 4) == ((12, 4),)
