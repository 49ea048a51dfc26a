"""A decoder-only transformer for text: GPT-2's blocks (Radford et al., 2019), pre-norm, as a list of layers.

    embedding, block1.attention, block1.mlp, .., blockL.attention, blockL.mlp, head

Each half of a block is a layer of its own: what passes between any two layers is the residual stream
[n, T, width], so that a cut behind an attention costs no more to send than one behind a block, and blocks of
a pipeline can be balanced to half a transformer block. Rotary positions: Su et al., arXiv 2104.09864.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from repro.models.layer import LayerFactory
from repro.models.parts import NormalLinear


class Embedding(nn.Module):
    """Vectors of tokens, and of learned positions where `context` is given; int64 [n, T] -> [n, T, width]."""

    def __init__(self, vocabulary: int, width: int, context: int | None, dropout: float) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = None if context is None else nn.Embedding(context, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """Sum of both, with dropout."""
        x = self.token(tokens)
        if self.position is not None:
            x = x + self.position.weight[: tokens.shape[1]]
        y: Tensor = self.dropout(x)
        return y


class CausalAttention(nn.Module):
    """Softmax attention of every position to itself and those before it; no weights of its own."""

    def __init__(self, heads: int, rotary: bool, dropout: float) -> None:
        super().__init__()
        self.heads, self.rotary = heads, rotary
        self.dropout = nn.Dropout(dropout)  # of attention weights; marks the layer as one that draws numbers

    def forward(self, qkv: Tensor) -> Tensor:
        """Queries, keys and values side by side [n, T, 3 width] -> [n, T, width]."""
        n, length, wide = qkv.shape
        q, k, v = qkv.view(n, length, 3, self.heads, wide // (3 * self.heads)).permute(2, 0, 3, 1, 4)
        if self.rotary:
            q, k = rotated(q), rotated(k)
        rate = self.dropout.p if self.training else 0.0
        if qkv.is_cuda and torch.backends.cudnn.deterministic:
            with sdpa_kernel(SDPBackend.MATH):  # the fused kernels add their gradients in any order
                y = functional.scaled_dot_product_attention(q, k, v, dropout_p=rate, is_causal=True)
        else:
            y = functional.scaled_dot_product_attention(q, k, v, dropout_p=rate, is_causal=True)
        return y.transpose(1, 2).reshape(n, length, wide // 3)

    def multiply_adds(self, qkv: Tensor) -> int:
        """Of q k^T and its product with v on an input of this shape; the half that the mask hides is counted too."""
        n, length, wide = qkv.shape
        return 2 * n * length * length * (wide // 3)


def rotated(x: Tensor) -> Tensor:
    """Turn each pair (x_i, x_{i+d/2}) of a head's vector [.., T, d] by the angle t 10000^(-2i/d) of its position t."""
    length, size = x.shape[-2:]
    cosine, sine = _turns(length, size, x.device)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), -1)


@lru_cache(maxsize=8)
def _turns(length: int, size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    speeds = 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * speeds
    return angles.cos().float().to(device), angles.sin().float().to(device)


class AttentionLayer(nn.Module):
    """x + projection(attention(norm(x))); [n, T, width] -> the same."""

    def __init__(self, width: int, heads: int, rotary: bool, dropout: float, blocks: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = NormalLinear(width, 3 * width)
        self.attention = CausalAttention(heads, rotary, dropout)
        self.projection = NormalLinear(width, width, std=_residual_std(blocks))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Add what each position takes from itself and those before it."""
        y: Tensor = x + self.dropout(self.projection(self.attention(self.qkv(self.norm(x)))))
        return y


class MlpLayer(nn.Module):
    """x + projection(GELU(hidden(norm(x)))), four times as wide inside; [n, T, width] -> the same."""

    def __init__(self, width: int, dropout: float, blocks: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.hidden = NormalLinear(width, 4 * width)
        self.gelu = nn.GELU(approximate="tanh")
        self.projection = NormalLinear(4 * width, width, std=_residual_std(blocks))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Each position by itself."""
        y: Tensor = x + self.dropout(self.projection(self.gelu(self.hidden(self.norm(x)))))
        return y


class TokenHead(nn.Module):
    """The final norm and a score for every token that could come next; [n, T, width] -> [n, T, vocabulary]."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = NormalLinear(width, vocabulary, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Scores, not normalised."""
        scores: Tensor = self.linear(self.norm(x))
        return scores


def _residual_std(blocks: int) -> float:
    """GPT-2's: 2L projections add to the residual stream, whose variance then does not grow with L."""
    return 0.02 / math.sqrt(2 * blocks)


def gpt_layers(
    vocabulary: int, context: int, *, blocks: int, width: int, heads: int, rotary: bool, dropout: float
) -> list[LayerFactory]:
    """embedding, block{1..L}.attention and .mlp, head: 2L + 2 layers."""
    positions = None if rotary else context
    make = partial(Embedding, vocabulary, width, positions, dropout)
    found = [LayerFactory("embedding", make, tokens=vocabulary)]
    for number in range(1, blocks + 1):
        attention = partial(AttentionLayer, width, heads, rotary, dropout, blocks)
        found.append(LayerFactory(f"block{number}.attention", attention))
        found.append(LayerFactory(f"block{number}.mlp", partial(MlpLayer, width, dropout, blocks)))
    return [*found, LayerFactory("head", partial(TokenHead, width, vocabulary))]
