"""Logits of a given text, every id being followed by the text's own next one."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from engines.torch.kv_dtype import KvDtype
from engines.torch.layers.paged_kv import PagedKv
from engines.torch.layers.ragged_batch import RaggedBatch, RaggedPart, causal_rows
from engines.torch.models.llama import Llama


@torch.inference_mode()
def logits_of(
    model: Llama,
    ids: Sequence[int],
    chunk: int = 256,
    kv_dtype: KvDtype = KvDtype.MODEL,
) -> Iterator[Tensor]:
    """Yields the logits after each id, in order, up to `chunk` positions at a time.

    Args:
        model: a frozen model.
        ids: at least one, at most the model's context.
        chunk: positions in one pass.
        kv_dtype: how the cache holds keys and values.

    Yields:
        (at most chunk, vocab), float32.
    """
    kv = PagedKv(model.kv_layout(kv_dtype), 1, len(ids), model.tokens.device)
    group = model.config.heads // model.config.kv_heads
    tokens = torch.tensor(ids, dtype=torch.int64, device=model.tokens.device)
    places = torch.arange(len(ids), device=tokens.device)
    for start in range(0, len(ids), chunk):
        end = min(start + chunk, len(ids))
        hidden = model.embed(tokens[start:end])
        mask = causal_rows(end - start, start, group, hidden)
        part = RaggedPart(0, end - start, start, ((0, end),), mask)
        yield model(hidden, kv, RaggedBatch([part], places[start:end], places[start:end]))
