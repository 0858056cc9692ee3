"""The llama family's decoder: RMSNorm, RoPE, grouped-query attention, SwiGLU.

Shapes carry a batch axis throughout, though one request at a time runs today. The model
knows no tokenizer and no decoding rule.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from engines.torch.layers.attention import attend, causal_mask
from engines.torch.layers.kv_cache import KvCache, KvShape
from engines.torch.layers.linear import Linear, pack_linears
from engines.torch.layers.rope import Llama3Scaling, Rope, inverse_frequencies, rotate
from engines.torch.layers.weight_formats import Packing


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """Gives the sizes of a checkpoint.

    Attributes:
        vocab: ids.
        width: hidden size.
        layers: depth.
        heads, kv_heads: query heads, and key and value heads that they share evenly.
        head_dim: width of a head.
        ffn: inner width of the MLP.
        norm_eps: added to the mean square in RMSNorm.
        context: longest prompt plus output.
        rope_theta: base of the rotary frequencies.
        rope_scaling: how they are stretched; None leaves them.
        tied: the output layer is the embedding table.
        attention_bias, mlp_bias: whether those projections have biases.
    """

    vocab: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    norm_eps: float
    context: int
    rope_theta: float = 10_000.0
    rope_scaling: Llama3Scaling | None = None
    tied: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False

    @property
    def step_parameters(self) -> int:
        """Weights that each position is multiplied with, the output layer left out."""
        qkv = self.width * (self.heads + 2 * self.kv_heads) * self.head_dim
        out = self.width * self.heads * self.head_dim
        return self.layers * (qkv + out + 3 * self.width * self.ffn)


class RmsNorm(nn.Module):
    """Divides by the root mean square of the last axis, in float32, and scales."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.weight.shape, self.weight, self.eps)


class Attention(nn.Module):
    """Attends from grouped query heads to shared key and value heads."""

    def __init__(self, config: LlamaConfig, index: int) -> None:
        super().__init__()
        self.config = config
        self.index = index
        outputs = (config.heads + 2 * config.kv_heads) * config.head_dim
        self.qkv = Linear(config.width, outputs, bias=config.attention_bias)
        self.out = Linear(config.heads * config.head_dim, config.width, bias=config.attention_bias)

    def forward(self, x: Tensor, cache: KvCache, position: "Positions") -> Tensor:
        """Maps (batch, n, width) to the same shape and writes n positions to the cache."""
        config = self.config
        batch, new, _ = x.shape
        heads, kv_heads, head_dim = config.heads, config.kv_heads, config.head_dim
        group = heads // kv_heads
        qkv = self.qkv(x).view(batch, new, heads + 2 * kv_heads, head_dim)
        turned = rotate(qkv[:, :, : heads + kv_heads], position.cos, position.sin)
        keys, values = cache.write(
            self.index,
            turned[:, :, heads:].transpose(1, 2),
            qkv[:, :, heads + kv_heads :].transpose(1, 2),
        )
        # Query heads of a group become further query rows of their key head: keys and
        # values are then read once and never repeated.
        queries = turned[:, :, :heads].view(batch, new, kv_heads, group, head_dim)
        queries = queries.permute(0, 2, 3, 1, 4).reshape(batch, kv_heads, group * new, head_dim)
        seen = attend(queries, keys, values, position.mask)
        seen = seen.view(batch, heads, new, head_dim).transpose(1, 2).flatten(2)
        attended: Tensor = self.out(seen)
        return attended


class Mlp(nn.Module):
    """Is SwiGLU (Shazeer 2020) with gate and up projection in one product."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate_up = Linear(config.width, 2 * config.ffn, bias=config.mlp_bias)
        self.down = Linear(config.ffn, config.width, bias=config.mlp_bias)

    def forward(self, x: Tensor) -> Tensor:
        """Maps (batch, n, width) to the same shape."""
        gate, up = self.gate_up(x).chunk(2, -1)
        y: Tensor = self.down(functional.silu(gate) * up)
        return y


@dataclass(frozen=True, slots=True)
class Positions:
    """Is what all layers need to know of the new positions: rotation and mask."""

    cos: Tensor
    sin: Tensor
    mask: Tensor | None


class Layer(nn.Module):
    """Is one pre-norm block: attention, then MLP."""

    def __init__(self, config: LlamaConfig, index: int) -> None:
        super().__init__()
        self.attention_norm = RmsNorm(config.width, config.norm_eps)
        self.attention = Attention(config, index)
        self.mlp_norm = RmsNorm(config.width, config.norm_eps)
        self.mlp = Mlp(config)

    def forward(self, hidden: Tensor, cache: KvCache, position: Positions) -> Tensor:
        """Maps (batch, n, width) to the same shape."""
        hidden = hidden + self.attention(self.attention_norm(hidden), cache, position)
        hidden = hidden + self.mlp(self.mlp_norm(hidden))
        return hidden


class Llama(nn.Module):
    """Predicts the next id from the ids, or embeddings, so far.

    Weights come in through `load_state_dict(..., assign=True)` and are packed by `freeze`.
    """

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Parameter(torch.empty(config.vocab, config.width))
        self.layers = nn.ModuleList(Layer(config, index) for index in range(config.layers))
        self.norm = RmsNorm(config.width, config.norm_eps)
        self.head = Linear(config.width, config.vocab, bias=False)
        self._rope: Rope | None = None

    def freeze(self, packing: Packing | None = None) -> None:
        """Makes the weights ready for inference; they cannot be changed afterwards.

        Args:
            packing: layout of the linear layers; None keeps their values as they are.
        """
        self.eval().requires_grad_(False)
        pack_linears(self, packing)
        config = self.config
        frequencies = inverse_frequencies(config.head_dim, config.rope_theta, config.rope_scaling)
        self._rope = Rope(frequencies, self.tokens.dtype)

    def new_cache(self, capacity: int, batch: int = 1) -> KvCache:
        """Allocates an empty cache for `capacity` positions; it grows up to the context."""
        config = self.config
        shape = KvShape(config.layers, config.kv_heads, config.head_dim, self.tokens.dtype, batch)
        return KvCache(shape, capacity, config.context)

    def embed(self, ids: Tensor) -> Tensor:
        """Looks up (batch, n) ids as (batch, n, width)."""
        return functional.embedding(ids, self.tokens)

    def forward(self, hidden: Tensor, cache: KvCache, first_logits: int = 0) -> Tensor:
        """Appends embedded positions to the cache.

        Args:
            hidden: (batch, n, width) from `embed`, or other embeddings in their place.
            cache: changed: it holds n more positions afterwards.
            first_logits: logits of the positions before this one are not computed;
                n computes none.

        Returns:
            (batch, n - first_logits, vocab), float32.
        """
        assert self._rope is not None, "freeze() comes before the first pass"
        past, new = cache.length, hidden.shape[1]
        cache.reserve(new)
        cos, sin = self._rope.table(past, new)
        mask = causal_mask(new, past, hidden)
        if mask is not None:
            mask = mask.repeat(self.config.heads // self.config.kv_heads, 1)
        position = Positions(cos, sin, mask)
        for layer in self.layers:
            hidden = layer(hidden, cache, position)
        cache.advance(new)
        if first_logits == new:
            return hidden.new_empty(hidden.shape[0], 0, self.config.vocab)
        logits: Tensor = self.head(self.norm(hidden[:, first_logits:]))
        return logits.float()
