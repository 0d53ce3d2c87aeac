"""GGUF files of a few hundred bytes, with complete headers but no useful weights: they can be installed, not loaded."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

TEXT_WIDTH = 64


def gguf(
    facts: dict[str, Any],
    tensors: dict[str, tuple[int, ...]],
    *,
    alignment: int = 32,
) -> bytes:
    """A GGUF file with this metadata and with float tensors of these shapes, filled with zeros."""
    out = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts)))
    for key, value in facts.items():
        out += _text(key) + _value(value)
    offset = 0
    for name, shape in tensors.items():
        out += _text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", size) for size in shape)
        out += struct.pack("<IQ", 0, offset)
        elements = 1
        for size in shape:
            elements *= size
        offset += -(-elements * 4 // alignment) * alignment
    out += bytes(-len(out) % alignment)
    return bytes(out) + bytes(offset)


def text_model(width: int = TEXT_WIDTH, seed: int = 0) -> bytes:
    facts = {
        "general.architecture": "llama",
        "general.name": f"test {seed}",
        "llama.embedding_length": width,
        "tokenizer.ggml.tokens": ["<s>", "ä", "word"],
        "tokenizer.ggml.scores": [0.0, 1.0, 2.0],
    }
    return gguf(facts, {"token_embd.weight": (width, 3), "output_norm.weight": (width,)})


def projector(width: int = TEXT_WIDTH, seed: int = 0) -> bytes:
    facts = {"general.architecture": "clip", "clip.has_vision_encoder": True, "clip.vision.projection_dim": width}
    return gguf(facts | {"general.name": f"test {seed}"}, {"mm.0.weight": (32, width)})


def write_pair(folder: Path, width: int = TEXT_WIDTH, seed: int = 0) -> tuple[Path, Path]:
    """Write a text model and its projector to `folder`, under names that do not say which is which."""
    folder.mkdir(parents=True, exist_ok=True)
    text, mmproj = folder / f"one-{seed}.gguf", folder / f"other-{seed}.gguf"
    text.write_bytes(text_model(width, seed))
    mmproj.write_bytes(projector(width, seed))
    return text, mmproj


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
    return struct.pack("<IIQ", 9, 6, len(value)) + struct.pack(f"<{len(value)}f", *value)
