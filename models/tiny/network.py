"""The network in PyTorch. Its operations are those that llama.cpp computes for the exported files.

The vision encoder is a vision transformer with llama.cpp's `janus_pro` projector: 96 × 96 px become 64 tokens. The text
model is a small transformer of the `llama` architecture. `read_network` and `write_text_model` are for the two files.

Letters in shapes: B pictures; L languages; P tokens of the prefix that all languages share (the instructions, the
picture and the notes); T tokens of the suffix and the answer of one language.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import gguf
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

IMAGE_PX = 96
PATCH_PX = 12
IMAGE_TOKENS = (IMAGE_PX // PATCH_PX) ** 2
LAYER_NORM_EPS = 1e-6
RMS_NORM_EPS = 1e-5
ROPE_BASE = 10000.0
CONTEXT_TOKENS = 2048


class Sizes(NamedTuple):
    """The size of a transformer: width of embeddings, number of attention heads, width of the MLP, number of layers."""

    width: int
    heads: int
    hidden: int
    layers: int


ENCODER = Sizes(width=128, heads=4, hidden=384, layers=4)
TEXT_MODEL = Sizes(width=128, heads=4, hidden=352, layers=3)


def _attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    # not the fused function: its gradient in bfloat16 is far slower on a CPU
    weights = torch.matmul(query * query.shape[-1] ** -0.5, key.transpose(-1, -2))
    if mask is not None:
        weights = weights + mask
    return torch.matmul(torch.softmax(weights, -1), value)


def _gelu(x: Tensor) -> Tensor:
    return functional.gelu(x, approximate="tanh")  # as ggml computes it


class EncoderLayer(nn.Module):
    """A layer of the vision encoder: (B, tokens, width) to the same shape."""

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


class VisionEncoder(nn.Module):
    """Pictures (B, 3, 96, 96) in -1…1 to embeddings (B, 64, width of the text model)."""

    def __init__(self) -> None:
        super().__init__()
        width = ENCODER.width
        self.patch = nn.Conv2d(3, width, PATCH_PX, PATCH_PX)
        self.position = nn.Parameter(torch.randn(IMAGE_TOKENS, width) * 0.02)
        self.layers = nn.ModuleList(EncoderLayer(ENCODER) for _ in range(ENCODER.layers))
        self.norm = nn.LayerNorm(width, eps=LAYER_NORM_EPS)
        self.project1 = nn.Linear(width, 2 * TEXT_MODEL.width)
        self.project2 = nn.Linear(2 * TEXT_MODEL.width, TEXT_MODEL.width)

    def forward(self, pictures: Tensor) -> Tensor:
        x = self.patch(pictures).flatten(2).transpose(1, 2) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.project2(_gelu(self.project1(self.norm(x))))


class RmsNorm(nn.Module):
    """Scales each token to a root mean square of 1, then by a learned weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, (x.shape[-1],), self.weight, RMS_NORM_EPS)


class RotaryTables(NamedTuple):
    """The cosines and sines of rotary position embedding, each (tokens, width)."""

    cos: Tensor
    sin: Tensor

    def slice(self, start: int, stop: int) -> RotaryTables:
        """The tables for the positions from `start` to `stop`."""
        return RotaryTables(self.cos[start:stop], self.sin[start:stop])


class TextLayer(nn.Module):
    """A layer of the text model, for a prefix (B, P, width) and suffixes (B, L, T, width).

    A suffix attends to the prefix and to itself, not to other suffixes.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width, self.heads, hidden, _ = sizes

        def linear(inputs: int, outputs: int) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias=False)

        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.query, self.key, self.value, self.out = (linear(width, width) for _ in range(4))
        self.gate, self.up, self.down = linear(width, hidden), linear(width, hidden), linear(hidden, width)

    def forward(
        self, prefix: Tensor, suffixes: Tensor, rotary: RotaryTables, masks: tuple[Tensor, Tensor], *, last: bool
    ) -> tuple[Tensor, Tensor]:
        """The transformed prefix and suffixes. `masks` are those of the prefix and of the suffixes.

        The `last` layer returns the prefix unchanged, because no layer attends to it.
        """
        length = prefix.shape[1]
        before, after = rotary.slice(0, length), rotary.slice(length, length + suffixes.shape[2])
        query, key, value = self._projected(prefix, before, with_query=not last)
        suffix_query, suffix_key, suffix_value = self._projected(suffixes, after)
        languages = suffixes.shape[1]
        keys = torch.cat((key[:, None].expand(-1, languages, -1, -1, -1), suffix_key), -2)
        values = torch.cat((value[:, None].expand(-1, languages, -1, -1, -1), suffix_value), -2)
        suffixes = self._residual(suffixes, _attention(suffix_query, keys, values, masks[1]))
        if query is not None:
            prefix = self._residual(prefix, _attention(query, key, value, masks[0]))
        return prefix, suffixes

    def _projected(
        self, x: Tensor, rotary: RotaryTables, *, with_query: bool = True
    ) -> tuple[Tensor | None, Tensor, Tensor]:
        """Queries (None without `with_query`), keys and values, by attention head."""
        y = self.norm1(x)
        query = self._rotated(y, self.query.weight, rotary) if with_query else None
        return query, self._rotated(y, self.key.weight, rotary), self._by_head(self.value(y))

    def _rotated(self, y: Tensor, weight: Tensor, rotary: RotaryTables) -> Tensor:
        # Pairs (a, b) of adjacent values are rotated: a·cos - b·sin, b·cos + a·sin. The swapped pairs (-b, a) are
        # computed with a weight whose rows are swapped: a second product is faster than permuting the values.
        pairs = weight.unflatten(0, (-1, 2))
        swapped = torch.stack((-pairs[:, 1], pairs[:, 0]), 1).flatten(0, 1)
        return self._by_head(functional.linear(y, weight) * rotary.cos + functional.linear(y, swapped) * rotary.sin)

    def _by_head(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(-2, -3)

    def _residual(self, x: Tensor, attended: Tensor) -> Tensor:
        """The output of the layer for its input `x` and the output of its attention."""
        x = x + self.out(attended.transpose(-2, -3).flatten(-2))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class TextModel(nn.Module):
    """Embeds tokens, and computes the logits of the next token with the same embedding matrix."""

    cos: Tensor
    sin: Tensor

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, TEXT_MODEL.width)
        nn.init.normal_(self.embedding.weight, std=0.06)
        self.layers = nn.ModuleList(TextLayer(TEXT_MODEL) for _ in range(TEXT_MODEL.layers))
        self.norm = RmsNorm(TEXT_MODEL.width)
        per_head = TEXT_MODEL.width // TEXT_MODEL.heads
        frequencies = ROPE_BASE ** (-torch.arange(0, per_head, 2).float() / per_head)
        angles = torch.arange(CONTEXT_TOKENS).float()[:, None] * frequencies
        for name, table in (("cos", angles.cos()), ("sin", angles.sin())):
            self.register_buffer(name, table.repeat_interleave(2, -1).repeat(1, TEXT_MODEL.heads), persistent=False)

    def forward(self, prefix: Tensor, suffixes: Tensor) -> Tensor:
        """The hidden states of the suffixes (B, L, T, width), the input of `logits`."""
        length, suffix_length = prefix.shape[1], suffixes.shape[2]
        prefix_mask = torch.full((length, length), float("-inf"), dtype=prefix.dtype).triu(1)
        suffix_mask = torch.full((suffix_length, suffix_length), float("-inf"), dtype=prefix.dtype).triu(1)
        masks = prefix_mask, torch.cat((suffix_mask.new_zeros(suffix_length, length), suffix_mask), 1)
        rotary = RotaryTables(self.cos, self.sin)
        for index, layer in enumerate(self.layers):
            prefix, suffixes = layer(prefix, suffixes, rotary, masks, last=index == len(self.layers) - 1)
        return self.norm(suffixes)

    def logits(self, hidden: Tensor) -> Tensor:
        """The logits of the next token, (…, vocabulary), for hidden states (…, width)."""
        return functional.linear(hidden, self.embedding.weight)


class Network(nn.Module):
    """The vision encoder and the text model."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.encoder = VisionEncoder()
        self.text_model = TextModel(vocabulary)

    def prefix(self, instructions: Tensor, pictures: Tensor, notes: Tensor) -> Tensor:
        """The embeddings of the prefix, (B, P, width).

        `instructions` and `notes` are the tokens before and after the picture, the same for all pictures; `pictures`
        are embeddings (B, 64, width).
        """
        count = pictures.shape[0]
        before, after = (self.text_model.embedding(ids).expand(count, -1, -1) for ids in (instructions, notes))
        return torch.cat((before, pictures, after), 1)


# ---- the two files ----

TEXT_FILE, MMPROJ_FILE = "tiny-text.gguf", "tiny-mmproj.gguf"
_TEXT_NAMES = {
    "norm1": "attn_norm", "norm2": "ffn_norm", "query": "attn_q", "key": "attn_k", "value": "attn_v",
    "out": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down",
    "embedding": "token_embd", "norm": "output_norm",
}  # fmt: skip
_ENCODER_NAMES = {
    "norm1": "ln1", "norm2": "ln2", "query": "attn_q", "key": "attn_k", "value": "attn_v",
    "out": "attn_out", "up": "ffn_up", "down": "ffn_down",
    "patch": "v.patch_embd", "position": "v.position_embd", "norm": "v.post_ln", "project1": "mm.0", "project2": "mm.1",
}  # fmt: skip
"""The names of tensors in the files, by those in the network.

Source: llama.cpp, gguf-py `MODEL_TENSORS` and tools/mtmd/clip-impl.h."""


def read_network(folder: Path) -> Network:
    """The network in the two files."""
    text, encoder = (gguf.GGUFReader(folder / file) for file in (TEXT_FILE, MMPROJ_FILE))
    network = Network(len(text.fields["tokenizer.ggml.tokens"].data))
    for part, file, names, block in (
        (network.text_model, text, _TEXT_NAMES, "blk"),
        (network.encoder, encoder, _ENCODER_NAMES, "v.blk"),
    ):
        tensors = {tensor.name: tensor.data for tensor in file.tensors}
        with torch.no_grad():
            for name, weights in part.state_dict().items():
                stored = torch.from_numpy(np.array(tensors[_name_in_file(name, names, block)]))
                weights.copy_(stored.reshape(weights.shape))
    return network


def write_text_model(text_model: TextModel, source: Path, target: Path) -> None:
    """Write `source`, the file of a text model, to `target` with the weights of `text_model`."""
    part = target.with_suffix(".part")
    shutil.copyfile(source, part)
    tensors = {tensor.name: tensor.data for tensor in gguf.GGUFReader(part, "r+").tensors}
    for name, weights in text_model.state_dict().items():
        stored = tensors[_name_in_file(name, _TEXT_NAMES, "blk")]
        stored[...] = weights.float().numpy().astype(stored.dtype).reshape(stored.shape)
    part.replace(target)  # atomically, because a process may be using the file


def _name_in_file(name: str, names: dict[str, str], block: str) -> str:
    """`blk.2.attn_q.weight` for `layers.2.query.weight`."""
    *layer, part, kind = name.split(".") if "." in name else (name, "weight")
    return ".".join([block, layer[1], names[part], kind] if layer else [names[part], kind])
