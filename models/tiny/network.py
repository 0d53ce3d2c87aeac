"""The network in PyTorch, operation by operation what llama.cpp computes of the exported files.

The eye is a vision transformer with llama.cpp's `janus_pro` projector: 96 × 96 px become 64 tokens. The writer is a
small transformer of the `llama` architecture. Shapes: B pictures, L languages, P tokens before the languages part (the
head, the picture, the shared text), T tokens of a language's own.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.tiny import scenes, tokens

IMAGE_PX = 96
PATCH_PX = 12
IMAGE_TOKENS = (IMAGE_PX // PATCH_PX) ** 2
LAYER_NORM_EPS = 1e-6
RMS_NORM_EPS = 1e-5
ROPE_BASE = 10000.0


class Sizes(NamedTuple):
    """Of a transformer: `width` per token, attention `heads`, `hidden` of its feed-forward part, `layers`."""

    width: int
    heads: int
    hidden: int
    layers: int


EYE = Sizes(width=128, heads=4, hidden=384, layers=4)
WRITER = Sizes(width=128, heads=4, hidden=352, layers=3)

ASPECTS = {
    "first colour": len(scenes.COLOURS),
    "first shape": len(scenes.SHAPES),
    "second colour": len(scenes.COLOURS) + 1,
    "second shape": len(scenes.SHAPES) + 1,
    "relation": len(scenes.RELATIONS) + 1,
    "background": len(scenes.BACKGROUNDS),
}
"""What the eye is asked beside the writing while it learns, and how many answers each has; never exported."""


def _attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    # written out: on a CPU in bfloat16 the gradient of the fused one takes far longer
    weights = torch.matmul(query * query.shape[-1] ** -0.5, key.transpose(-1, -2))
    if mask is not None:
        weights = weights + mask
    return torch.matmul(torch.softmax(weights, -1), value)


def _gelu(x: Tensor) -> Tensor:
    return functional.gelu(x, approximate="tanh")  # as ggml computes it


class EyeLayer(nn.Module):
    """(B, tokens, width) to the same."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width, self.heads, hidden, _ = sizes
        self.norm1 = nn.LayerNorm(width, eps=LAYER_NORM_EPS)
        self.norm2 = nn.LayerNorm(width, eps=LAYER_NORM_EPS)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        query, key, value = (
            layer(y).unflatten(-1, (self.heads, -1)).transpose(-2, -3) for layer in (self.query, self.key, self.value)
        )
        x = x + self.out(_attention(query, key, value).transpose(-2, -3).flatten(-2))
        return x + self.down(_gelu(self.up(self.norm2(x))))


class Eye(nn.Module):
    """Pictures (B, 3, 96, 96) in -1…1 to tokens of the writer (B, 64, width)."""

    def __init__(self) -> None:
        super().__init__()
        width = EYE.width
        self.patch = nn.Conv2d(3, width, PATCH_PX, PATCH_PX)
        self.position = nn.Parameter(torch.randn(IMAGE_TOKENS, width) * 0.02)
        self.layers = nn.ModuleList(EyeLayer(EYE) for _ in range(EYE.layers))
        self.norm = nn.LayerNorm(width, eps=LAYER_NORM_EPS)
        self.project1 = nn.Linear(width, 2 * WRITER.width)
        self.project2 = nn.Linear(2 * WRITER.width, WRITER.width)

    def features(self, pictures: Tensor) -> Tensor:
        x = self.patch(pictures).flatten(2).transpose(1, 2) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)

    def project(self, features: Tensor) -> Tensor:
        return self.project2(_gelu(self.project1(features)))

    def forward(self, pictures: Tensor) -> Tensor:
        return self.project(self.features(pictures))


class RmsNorm(nn.Module):
    """Scales each token to a root mean square of 1, then by a learned weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, (x.shape[-1],), self.weight, RMS_NORM_EPS)


class Turns(NamedTuple):
    """Rotary position embedding: cosine and sine, (tokens, width) each."""

    cos: Tensor
    sin: Tensor

    def of(self, start: int, stop: int) -> Turns:
        return Turns(self.cos[start:stop], self.sin[start:stop])


class WriterLayer(nn.Module):
    """Reads (B, P, width) once and (B, L, T, width) after it, each language as if it alone followed."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width, self.heads, hidden, _ = sizes

        def linear(inputs: int, outputs: int) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias=False)

        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.query, self.key, self.value, self.out = (linear(width, width) for _ in range(4))
        self.gate, self.up, self.down = linear(width, hidden), linear(width, hidden), linear(hidden, width)

    def forward(
        self, prefix: Tensor, tails: Tensor, turns: Turns, masks: tuple[Tensor, Tensor], *, last: bool
    ) -> tuple[Tensor, Tensor]:
        """The same again, transformed; the `last` layer leaves the prefix as it is, for nothing reads it."""
        length = prefix.shape[1]
        before, after = turns.of(0, length), turns.of(length, length + tails.shape[2])
        query, key, value = self._projected(prefix, before, with_query=not last)
        own_query, own_key, own_value = self._projected(tails, after)
        languages = tails.shape[1]
        keys = torch.cat((key[:, None].expand(-1, languages, -1, -1, -1), own_key), -2)
        values = torch.cat((value[:, None].expand(-1, languages, -1, -1, -1), own_value), -2)
        tails = self._fed(tails, _attention(own_query, keys, values, masks[1]))
        if query is not None:
            prefix = self._fed(prefix, _attention(query, key, value, masks[0]))
        return prefix, tails

    def _projected(self, x: Tensor, turns: Turns, *, with_query: bool = True) -> tuple[Tensor | None, Tensor, Tensor]:
        y = self.norm1(x)
        query = self._turned(y, self.query.weight, turns) if with_query else None
        return query, self._turned(y, self.key.weight, turns), self._by_head(self.value(y))

    def _turned(self, y: Tensor, weight: Tensor, turns: Turns) -> Tensor:
        # Neighbouring numbers (a, b) are turned as pairs: a·cos - b·sin, b·cos + a·sin. The swapped pairs (-b, a) come
        # from the weight with its rows swapped: a second product is cheaper than moving numbers about.
        pairs = weight.unflatten(0, (-1, 2))
        swapped = torch.stack((-pairs[:, 1], pairs[:, 0]), 1).flatten(0, 1)
        return self._by_head(functional.linear(y, weight) * turns.cos + functional.linear(y, swapped) * turns.sin)

    def _by_head(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(-2, -3)

    def _fed(self, x: Tensor, attended: Tensor) -> Tensor:
        x = x + self.out(attended.transpose(-2, -3).flatten(-2))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Writer(nn.Module):
    """Embeds tokens, reads, and scores the next token; the embedding is the output matrix too."""

    cos: Tensor
    sin: Tensor

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, WRITER.width)
        nn.init.normal_(self.embedding.weight, std=0.06)
        self.layers = nn.ModuleList(WriterLayer(WRITER) for _ in range(WRITER.layers))
        self.norm = RmsNorm(WRITER.width)
        per_head = WRITER.width // WRITER.heads
        speeds = ROPE_BASE ** (-torch.arange(0, per_head, 2).float() / per_head)
        angles = torch.arange(tokens.CONTEXT_TOKENS).float()[:, None] * speeds
        for name, table in (("cos", angles.cos()), ("sin", angles.sin())):
            self.register_buffer(name, table.repeat_interleave(2, -1).repeat(1, WRITER.heads), persistent=False)

    def forward(self, prefix: Tensor, tails: Tensor) -> Tensor:
        """The tails (B, L, T, width) as they are before `scores`."""
        length, own = prefix.shape[1], tails.shape[2]
        never = torch.full((length, length), float("-inf"), dtype=prefix.dtype).triu(1)
        mine = torch.full((own, own), float("-inf"), dtype=prefix.dtype).triu(1)
        masks = never, torch.cat((mine.new_zeros(own, length), mine), 1)
        turns = Turns(self.cos, self.sin)
        for index, layer in enumerate(self.layers):
            prefix, tails = layer(prefix, tails, turns, masks, last=index == len(self.layers) - 1)
        return self.norm(tails)

    def scores(self, hidden: Tensor) -> Tensor:
        return functional.linear(hidden, self.embedding.weight)


class Network(nn.Module):
    """The eye, the writer, and the questions asked of the eye while it learns."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.eye = Eye()
        self.writer = Writer(vocabulary)
        self.aspects = nn.ModuleList(nn.Linear(EYE.width, answers) for answers in ASPECTS.values())

    def prefix(self, head: Tensor, image_tokens: Tensor, shared: Tensor) -> Tensor:
        """(B, P, width) of token ids (head), (B, 64, width) and token ids (shared): the ids are the same for all B."""
        many = image_tokens.shape[0]
        before, after = (self.writer.embedding(ids).expand(many, -1, -1) for ids in (head, shared))
        return torch.cat((before, image_tokens, after), 1)
