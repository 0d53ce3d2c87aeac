"""Headers of GGUF files: the fields that are read, and hostile files, which are rejected without much memory or
time."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.models.gguf import check_pair, read_header
from tests.support.gguf_files import gguf, projector, text_model
from tests.support.tiny import MMPROJ, TEXT

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
    text = read_header(write(tmp_path, text_model(96)))
    assert (text.architecture, text.embedding_length, text.is_projector) == ("llama", 96, False)
    encoder = read_header(write(tmp_path, projector(96)))
    assert encoder.is_projector
    assert 96 in encoder.widths
    check_pair(text, encoder)


def test_a_pair_of_different_widths_is_rejected(tmp_path: Path) -> None:
    text = read_header(write(tmp_path, text_model(96)))
    with pytest.raises(ModelUnusable, match=r"don't belong together.*96"):
        check_pair(text, read_header(write(tmp_path, projector(128))))
    with pytest.raises(ModelUnusable, match="not for pictures"):
        check_pair(text, read_header(write(tmp_path, projector(96, sees=False))))


@pytest.mark.skipif(not TEXT.is_file(), reason="the tiny model is not there")
def test_the_tiny_model_is_a_pair() -> None:
    text, encoder = read_header(TEXT), read_header(MMPROJ)
    assert not text.is_projector
    assert encoder.is_projector
    check_pair(text, encoder)


@pytest.mark.parametrize("whole", [text_model(), projector()])
def test_a_file_truncated_anywhere_is_rejected(tmp_path: Path, whole: bytes) -> None:
    for size in (*range(0, 400, 7), *range(400, len(whole), 997)):
        message = failure(tmp_path, whole[:size])
        assert "truncated" in message or "not a GGUF" in message, size
    assert "truncated" in failure(tmp_path, whole[:-1])
    read_header(write(tmp_path, whole))
    read_header(write(tmp_path, whole + b"more"))


def test_quantised_tensors_count_by_their_blocks(tmp_path: Path) -> None:
    metadata = {"general.architecture": "llama"}
    whole = gguf(metadata, {"a": (256, 4)}, tensor_type=12)  # 4 blocks of 144 bytes; gguf() wrote 4096 bytes
    start = len(whole) - 4096
    read_header(write(tmp_path, whole[: start + 4 * 144]))
    assert "truncated" in failure(tmp_path, whole[: start + 4 * 144 - 1])


def test_another_tensor_alignment_is_read(tmp_path: Path) -> None:
    metadata = {"general.architecture": "llama", "general.alignment": 4096}
    whole = gguf(metadata, {"a": (8,)}, alignment=4096)
    read_header(write(tmp_path, whole))
    assert "truncated" in failure(tmp_path, whole[:4100])


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
        (gguf({"general.architecture": "llama", "general.alignment": 0}, {}), "alignment"),
        (gguf({"general.architecture": "llama", "split.count": 2}, {}), "split"),
        (gguf({"general.architecture": 5}, {}), "no architecture"),
        (gguf({"general.architecture": "a"}, {"t": (1,) * 9}), "dimensions"),
        (
            gguf({"general.architecture": "a"}, {}).replace(struct.pack("<QQ", 0, 1), struct.pack("<QQ", 9, 1)),
            "truncated",
        ),
    ],
)
def test_a_hostile_header_is_rejected_with_a_reason(tmp_path: Path, data: bytes, message: str) -> None:
    assert message in failure(tmp_path, data)


def test_a_tensor_larger_than_the_file_is_rejected(tmp_path: Path) -> None:
    head = HEAD + struct.pack("<QQ", 1, 1) + struct.pack("<Q", 20) + b"general.architecture"
    head += struct.pack("<IQ", 8, 5) + b"llama" + KEY + struct.pack("<I", 4)
    data = head + struct.pack("<QQQQ", *[U64_MAX] * 4) + struct.pack("<IQ", 0, U64_MAX)
    assert "truncated" in failure(tmp_path, data)


def test_a_large_vocabulary_is_accepted(tmp_path: Path) -> None:
    words = ["▁word"] * 300_000
    metadata = {"general.architecture": "llama", "tokenizer.ggml.tokens": words, "tokenizer.ggml.merges": words}
    assert read_header(write(tmp_path, gguf(metadata, {}))).architecture == "llama"
