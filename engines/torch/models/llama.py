"""The llama family's decoder: RMSNorm, RoPE, grouped-query attention, SwiGLU.

A pass takes rows of any number of sequences, of any length each, over one paged cache. The
model knows no tokenizer and no decoding rule.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from engines.torch.kv_dtype import KvDtype
from engines.torch.layers.linear import Linear, pack_linears
from engines.torch.layers.paged_attention import attend_ragged
from engines.torch.layers.paged_kv import KvLayout, PagedKv
from engines.torch.layers.ragged_batch import RaggedBatch
from engines.torch.layers.rope import Llama3Scaling, Rope, Rotation, inverse_frequencies, rotate
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
        self.scale = config.head_dim**-0.5
        outputs = (config.heads + 2 * config.kv_heads) * config.head_dim
        self.qkv = Linear(config.width, outputs, bias=config.attention_bias)
        self.out = Linear(config.heads * config.head_dim, config.width, bias=config.attention_bias)

    def forward(self, x: Tensor, kv: PagedKv, batch: RaggedBatch, rotation: Rotation) -> Tensor:
        """Maps (rows, width) to the same shape and writes the rows to the cache."""
        config, rows = self.config, x.shape[0]
        heads, kv_heads, head_dim = config.heads, config.kv_heads, config.head_dim
        qkv = self.qkv(x).view(rows, heads + 2 * kv_heads, head_dim)
        turned = rotate(qkv[:, : heads + kv_heads], *rotation)
        kv.write(self.index, batch.slots, turned[:, heads:], qkv[:, heads + kv_heads :])
        queries = (turned[:, :heads] * self.scale).view(rows, kv_heads, -1, head_dim)
        attended: Tensor = self.out(attend_ragged(queries, kv, self.index, batch))
        return attended


class Mlp(nn.Module):
    """Is SwiGLU (Shazeer 2020) with gate and up projection in one product."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate_up = Linear(config.width, 2 * config.ffn, bias=config.mlp_bias)
        self.down = Linear(config.ffn, config.width, bias=config.mlp_bias)

    def forward(self, x: Tensor) -> Tensor:
        """Maps (rows, width) to the same shape."""
        gate, up = self.gate_up(x).chunk(2, -1)
        y: Tensor = self.down(functional.silu(gate) * up)
        return y


class Layer(nn.Module):
    """Is one pre-norm block: attention, then MLP."""

    def __init__(self, config: LlamaConfig, index: int) -> None:
        super().__init__()
        self.attention_norm = RmsNorm(config.width, config.norm_eps)
        self.attention = Attention(config, index)
        self.mlp_norm = RmsNorm(config.width, config.norm_eps)
        self.mlp = Mlp(config)

    def forward(
        self, hidden: Tensor, kv: PagedKv, batch: RaggedBatch, rotation: Rotation
    ) -> Tensor:
        """Maps (rows, width) to the same shape."""
        hidden = hidden + self.attention(self.attention_norm(hidden), kv, batch, rotation)
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

    def kv_layout(self, kept_as: KvDtype = KvDtype.MODEL) -> KvLayout:
        """Returns what one cached position of this model consists of."""
        config = self.config
        return KvLayout(config.layers, config.kv_heads, config.head_dim, self.tokens.dtype, kept_as)

    def embed(self, ids: Tensor) -> Tensor:
        """Looks up (rows,) ids as (rows, width)."""
        return functional.embedding(ids, self.tokens)

    def forward(
        self, hidden: Tensor, kv: PagedKv, batch: RaggedBatch, logit_rows: Tensor | None = None
    ) -> Tensor:
        """Appends embedded positions of one or more sequences to the cache.

        Args:
            hidden: (rows, width) from `embed`, or other embeddings in their place.
            kv: changed: it holds all rows afterwards.
            batch: who the rows belong to.
            logit_rows: rows whose logits are wanted, (n,), int64; None wants all.

        Returns:
            (n, vocab), float32.
        """
        assert self._rope is not None, "freeze() comes before the first pass"
        self._rope.reserve(batch.longest, hidden.device)
        rotation = self._rope.at(batch.positions)
        for layer in self.layers:
            hidden = layer(hidden, kv, batch, rotation)
        if logit_rows is not None:
            hidden = hidden.index_select(0, logit_rows)
        if hidden.shape[0] == 0:
            return hidden.new_empty(0, self.config.vocab, dtype=torch.float32)
        logits: Tensor = self.head(self.norm(hidden))
        return logits.float()
