"""The text model in PyTorch, which computes the same as llama.cpp: a small transformer of the `llama` architecture.

Letters in shapes: B sequences; T tokens of a sequence, or the embeddings of a picture in place of tokens; H attention
heads; W the width of the embeddings.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import gguf
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH, HEADS, HIDDEN, LAYERS = 128, 4, 352, 3
"""The width of the embeddings, the number of attention heads, the width of the MLP, and the number of layers."""
CONTEXT_TOKENS = 2048
_RMS_NORM_EPS, _ROPE_BASE = 1e-5, 10000.0


class RmsNorm(nn.Module):
    """Scales each token to a root mean square of 1, then by a learned weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, (WIDTH,), self.weight, _RMS_NORM_EPS)


class TextLayer(nn.Module):
    """A layer, (B, T, W) to the same shape, in which each token attends to itself and to those before it."""

    def __init__(self) -> None:
        super().__init__()

        def linear(inputs: int, outputs: int) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias=False)

        self.norm1, self.norm2 = RmsNorm(), RmsNorm()
        self.query, self.key, self.value, self.out = (linear(WIDTH, WIDTH) for _ in range(4))
        self.gate, self.up, self.down = linear(WIDTH, HIDDEN), linear(WIDTH, HIDDEN), linear(HIDDEN, WIDTH)

    def forward(self, x: Tensor, rotation: Tensor) -> Tensor:
        """`rotation` has the rotary position embedding of each token as complex numbers, (T, W / H / 2)."""
        y = self.norm1(x)
        query, key, value = (
            layer(y).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        attended = functional.scaled_dot_product_attention(
            _rotated(query, rotation), _rotated(key, rotation), value, is_causal=True
        )
        x = x + self.out(attended.transpose(1, 2).flatten(-2))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def _rotated(x: Tensor, rotation: Tensor) -> Tensor:
    """Each pair of adjacent values of `x`, (B, H, T, W / H), as a complex number, rotated."""
    pairs = torch.view_as_complex(x.contiguous().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * rotation).flatten(-2)


class TextModel(nn.Module):
    """Embeds tokens, and computes the logits of the next token with the same embedding matrix."""

    rotation: Tensor

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, WIDTH)
        self.layers = nn.ModuleList(TextLayer() for _ in range(LAYERS))
        self.norm = RmsNorm()
        per_head = WIDTH // HEADS
        frequencies = _ROPE_BASE ** (-torch.arange(0, per_head, 2).float() / per_head)
        angles = torch.arange(CONTEXT_TOKENS).float()[:, None] * frequencies
        self.register_buffer("rotation", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """The hidden states (B, T, W), the input of `logits`, for embeddings (B, T, W)."""
        for layer in self.layers:
            x = layer(x, self.rotation[: x.shape[1]])
        return self.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """The logits of the next token, (…, vocabulary), for hidden states (…, W)."""
        return functional.linear(hidden, self.embedding.weight)


# ---- the file ----

_NAMES = {
    "norm1": "attn_norm", "norm2": "ffn_norm", "query": "attn_q", "key": "attn_k", "value": "attn_v",
    "out": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down",
    "embedding": "token_embd", "norm": "output_norm",
}  # fmt: skip
"""The names of tensors in the file, by those in the model. Source: llama.cpp, gguf-py `MODEL_TENSORS`."""


def read_text_model(file: Path) -> TextModel:
    """The text model in a GGUF file."""
    reader = gguf.GGUFReader(file)
    model = TextModel(len(reader.fields["tokenizer.ggml.tokens"].data))
    tensors = {tensor.name: tensor.data for tensor in reader.tensors}
    with torch.no_grad():
        for name, weights in model.state_dict().items():
            weights.copy_(torch.from_numpy(np.array(tensors[_name_in_file(name)])).reshape(weights.shape))
    return model


def write_text_model(model: TextModel, file: Path) -> None:
    """Replace the weights in the GGUF file."""
    part = file.with_suffix(".part")
    shutil.copyfile(file, part)
    tensors = {tensor.name: tensor.data for tensor in gguf.GGUFReader(part, "r+").tensors}
    for name, weights in model.state_dict().items():
        stored = tensors[_name_in_file(name)]
        stored[...] = weights.float().numpy().astype(stored.dtype).reshape(stored.shape)
    part.replace(file)  # atomically, because a process may be using the file


def _name_in_file(name: str) -> str:
    """`blk.2.attn_q.weight` for `layers.2.query.weight`."""
    *layer, part, kind = name.split(".")
    return ".".join(["blk", layer[1], _NAMES[part], kind] if layer else [_NAMES[part], kind])
