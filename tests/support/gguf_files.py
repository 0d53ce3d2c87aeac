"""GGUF files of a few hundred bytes, with complete headers but no useful weights: they can be installed, not loaded."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

WIDTH = 64


def gguf(facts: dict[str, Any], tensor: tuple[int, int]) -> bytes:
    """A GGUF file with this metadata, texts and numbers, and with one tensor of this shape, filled with zeros."""
    out = bytearray(b"GGUF" + struct.pack("<IQQ", 3, 1, len(facts)))
    for key, value in facts.items():
        out += _text(key) + _value(value)
    out += _text("weight") + struct.pack("<IQQIQ", 2, *tensor, 0, 0)
    return bytes(out) + bytes(-len(out) % 32) + bytes(4 * tensor[0] * tensor[1])


def text_model(seed: int = 0) -> bytes:
    facts = {
        "general.architecture": "llama",
        "general.name": f"test {seed}",
        "llama.embedding_length": WIDTH,
        "tokenizer.ggml.tokens": ["<s>", "ä", "word"],
    }
    return gguf(facts, (WIDTH, 3))


def projector(seed: int = 0) -> bytes:
    facts = {"general.architecture": "clip", "clip.vision.projection_dim": WIDTH, "general.name": f"test {seed}"}
    return gguf(facts, (32, WIDTH))


def write_pair(folder: Path, seed: int = 0) -> tuple[Path, Path]:
    """Write a text model and its projector to `folder`, under names that do not say which is which."""
    folder.mkdir(parents=True, exist_ok=True)
    text, mmproj = folder / f"one-{seed}.gguf", folder / f"other-{seed}.gguf"
    text.write_bytes(text_model(seed))
    mmproj.write_bytes(projector(seed))
    return text, mmproj


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
