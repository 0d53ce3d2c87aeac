"""Headers of GGUF files: the fields that are read, and hostile files, which are rejected without much memory or
time."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.models.gguf import read_header
from tests.support.gguf_files import gguf, projector, text_model

U64_MAX = 2**64 - 1


def write(folder: Path, data: bytes) -> Path:
    path = folder / "file.gguf"
    path.write_bytes(data)
    return path


def failure(folder: Path, data: bytes) -> str:
    """The message for a file with the content `data`, which must be rejected."""
    with pytest.raises(ModelUnusable) as caught:
        read_header(write(folder, data))
    assert "file.gguf" in caught.value.message
    return caught.value.message


def test_text_model_and_projector_are_distinguished_by_their_headers(tmp_path: Path) -> None:
    text, encoder = read_header(write(tmp_path, text_model(96))), read_header(write(tmp_path, projector(96)))
    assert (text.architecture, text.is_projector, encoder.is_projector) == ("llama", False, True)
    assert not read_header(write(tmp_path, projector(96, sees=False))).has_vision_encoder


@pytest.mark.parametrize("whole", [text_model(), projector()])
def test_a_header_that_ends_too_early_is_rejected(tmp_path: Path, whole: bytes) -> None:
    for size in range(0, 140, 7):
        message = failure(tmp_path, whole[:size])
        assert "truncated" in message or "not a GGUF" in message, size


HEAD = b"GGUF" + struct.pack("<I", 3)
KEY = struct.pack("<Q", 1) + b"k"
ONE_ENTRY = HEAD + struct.pack("<QQ", 0, 1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a GGUF"),
        (b"PK\x03\x04" + bytes(100), "not a GGUF"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(100), "big-endian"),
        (b"GGUF" + struct.pack("<I", 1) + bytes(100), "version 1"),
        (HEAD + struct.pack("<QQ", U64_MAX, 0), "tensors"),
        (HEAD + struct.pack("<QQ", 0, U64_MAX), "metadata entries"),
        (ONE_ENTRY + struct.pack("<Q", U64_MAX), "a string of"),
        (ONE_ENTRY + KEY + struct.pack("<IQ", 8, U64_MAX) + bytes(50), "truncated"),
        (ONE_ENTRY + KEY + struct.pack("<IIQ", 9, 8, U64_MAX) + bytes(50), "elements in an array"),
        (ONE_ENTRY + KEY + struct.pack("<IIQ", 9, 8, 5_000_000) + bytes(50), "strings"),
        (ONE_ENTRY + KEY + struct.pack("<IIQ", 9, 10, 5_000_000) + bytes(50), "truncated"),
        (ONE_ENTRY + KEY + struct.pack("<IIQ", 9, 9, 3) + bytes(50), "unknown type 9"),
        (ONE_ENTRY + KEY + struct.pack("<I", 77), "unknown type 77"),
        (HEAD + struct.pack("<QQ", 0, 0), "no architecture"),
        (gguf({"general.architecture": "llama", "split.count": 2}, {}), "split"),
        (gguf({"general.architecture": 5}, {}), "no architecture"),
    ],
)
def test_a_hostile_header_is_rejected_with_a_reason(tmp_path: Path, data: bytes, message: str) -> None:
    assert message in failure(tmp_path, data)


def test_a_large_vocabulary_is_accepted(tmp_path: Path) -> None:
    words = ["▁word"] * 300_000
    metadata = {"general.architecture": "llama", "tokenizer.ggml.tokens": words, "tokenizer.ggml.merges": words}
    assert read_header(write(tmp_path, gguf(metadata, {}))).architecture == "llama"
