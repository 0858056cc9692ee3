"""Scaled dot-product attention by the quicker of two routes."""

import torch
from torch import Tensor
from torch.nn import functional


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attends from each query to all keys that the mask allows.

    Args:
        queries: (batch, heads, queries, head_dim).
        keys: (batch, heads, keys, head_dim).
        values: as `keys`.
        mask: added to the scores, (queries, keys), 0 or -inf; None allows all.

    Returns:
        (batch, heads, queries, head_dim).
    """
    if queries.dtype == torch.bfloat16 and queries.device.type == "cpu":
        # torch's fused CPU kernel has no bf16 arithmetic worth the name: it takes seven times
        # as long for one query over 1,500 keys as two products and a softmax.
        scores = torch.matmul(queries * queries.shape[-1] ** -0.5, keys.transpose(2, 3))
        if mask is not None:
            scores = scores + mask
        return torch.matmul(scores.softmax(-1), values)
    return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)


def causal_mask(queries: int, past: int, like: Tensor) -> Tensor | None:
    """Builds the mask of `queries` new positions that follow `past` cached ones.

    Returns:
        (queries, past + queries) with dtype and device of `like`; None for a single query,
        which sees everything.
    """
    if queries == 1:
        return None
    mask = torch.full((queries, past + queries), float("-inf"), dtype=like.dtype)
    return mask.triu_(past + 1).to(like.device)
