"""Attention of a ragged batch over a paged cache.

On a CPU each sequence attends by itself over views of the cache, which copies nothing; a
fresh sequence is one run of slots, one that shares a prefix is two or three. On a GPU the
decode steps gather keys and values into one padded batch, one kernel for all sequences.
"""

import torch
from torch import Tensor
from torch.nn import functional

from engines.torch.layers.paged_kv import PagedKv
from engines.torch.layers.ragged_batch import RaggedBatch, RaggedPart

# Below this many rows two products and a softmax beat the fused kernel (measured on a CPU
# with AVX2), and runs need not be joined: only their scores are.
_FEW_ROWS = 16


def attend_ragged(queries: Tensor, kv: PagedKv, layer: int, batch: RaggedBatch) -> Tensor:
    """Attends from every row to all positions of its sequence up to its own.

    Args:
        queries: (rows, kv_heads, group, head_dim), already scaled. Query heads of a group
            share a key head, so keys and values are read once and never repeated.
        kv: the cache, which holds the new positions already.
        layer: which.
        batch: who the rows belong to.

    Returns:
        (rows, kv_heads * group * head_dim).
    """
    out = torch.empty_like(queries, memory_format=torch.contiguous_format)
    rows, out_rows = queries.unbind(0), out.unbind(0)
    for part in batch.parts:
        first = part.first_row
        if part.views is not None:
            weights = torch.bmm(rows[first], part.views[0][layer]).softmax(-1)
            torch.bmm(weights, part.views[1][layer], out=out_rows[first])
        elif part.rows == 1:
            out_rows[first].copy_(_over_runs(rows[first], kv, layer, part))
        else:
            last = first + part.rows
            out[first:last] = _many_rows(queries[first:last], kv, layer, part)
    return out.flatten(1)


def _many_rows(queries: Tensor, kv: PagedKv, layer: int, part: RaggedPart) -> Tensor:
    """Attends from (n, kv_heads, group, head_dim) under the part's mask; same shape."""
    new, kv_heads, group, head_dim = queries.shape
    stacked = queries.permute(1, 2, 0, 3).reshape(kv_heads, group * new, head_dim)
    if new <= _FEW_ROWS:
        seen = _over_runs(stacked, kv, layer, part)
    else:
        keys, values = _joined(kv, layer, part)
        seen = functional.scaled_dot_product_attention(
            stacked[None], keys[None], values[None], attn_mask=part.mask, scale=1.0
        )[0]
    return seen.view(kv_heads, group, new, head_dim).permute(2, 0, 1, 3)


def _over_runs(queries: Tensor, kv: PagedKv, layer: int, part: RaggedPart) -> Tensor:
    """Attends from (kv_heads, n, head_dim) without joining keys or values."""
    runs = [kv.read(layer, first, count) for first, count in part.runs]
    scores = [torch.bmm(queries, keys.transpose(1, 2)) for keys, _ in runs]
    joined = scores[0] if len(scores) == 1 else torch.cat(scores, -1)
    if part.mask is not None:
        joined = joined + part.mask
    weights = torch.split(joined.softmax(-1), [count for _, count in part.runs], -1)
    seen = torch.bmm(weights[0], runs[0][1])
    for weight, (_, values) in zip(weights[1:], runs[1:], strict=True):
        seen = torch.baddbmm(seen, weight, values)
    return seen


def _joined(kv: PagedKv, layer: int, part: RaggedPart) -> tuple[Tensor, Tensor]:
    runs = [kv.read(layer, first, count) for first, count in part.runs]
    if len(runs) == 1:
        return runs[0]
    return torch.cat([keys for keys, _ in runs], 1), torch.cat([values for _, values in runs], 1)
