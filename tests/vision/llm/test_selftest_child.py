"""The checks of the self-test, with the tiny model: a blind model writes fluent text, too."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.llm import selftest_child
from imgproc_local.vision.llm.selftest_child import run_self_test
from imgproc_local.vision.models.model import VisionModel
from tests.support import tiny

F16 = 1
LAST_TENSOR = b"mm.1.bias"
PROJECTOR = (b"mm.0.weight", b"mm.1.weight")
"""The matrices between the vision encoder and the text model, as f16."""


def with_projector(folder: Path, change: Callable[[bytes], bytes]) -> VisionModel:
    """The tiny model with the matrices of its projector changed by `change`."""
    encoder = tiny.MMPROJ.read_bytes()
    tensors = {name: tensor(encoder, name) for name in (*PROJECTOR, LAST_TENSOR)}
    # the header does not state where the data begins; it ends with the last tensor, padded to 32 bytes
    offset, size = tensors[LAST_TENSOR]
    data_start = len(encoder) - -(-(offset + size) // 32) * 32
    for name in PROJECTOR:
        offset, size = tensors[name]
        start = data_start + offset
        encoder = encoder[:start] + change(encoder[start : start + size]) + encoder[start + size :]
    path = folder / "encoder.gguf"
    path.write_bytes(encoder)
    return VisionModel("other", tiny.TEXT, path)


def tensor(encoder: bytes, name: bytes) -> tuple[int, int]:
    """The offset of a tensor in the data, and its size in bytes."""
    place = encoder.index(struct.pack("<Q", len(name)) + name) + 8 + len(name)
    (dimensions,) = struct.unpack_from("<I", encoder, place)
    *shape, kind, offset = struct.unpack_from(f"<{dimensions}QIQ", encoder, place + 4)
    return offset, math.prod(shape) * (2 if kind == F16 else 4)


def zeroed(weights: bytes) -> bytes:
    return bytes(len(weights))


def shuffled(seed: int) -> Callable[[bytes], bytes]:
    """As the weights of a projector that was made for another model."""

    def shuffle(weights: bytes) -> bytes:
        values = [weights[place : place + 2] for place in range(0, len(weights), 2)]
        random.Random(seed).shuffle(values)
        return b"".join(values)

    return shuffle


def test_a_working_model_passes() -> None:
    assert run_self_test(tiny.tiny_model()).problem is None


def test_a_model_with_a_blind_projector_is_found(tmp_path: Path) -> None:
    message = run_self_test(with_projector(tmp_path, zeroed)).problem or ""
    assert message.startswith("it does not see the pictures: expected different texts for a blue circle and a red")
    assert "for both. Either its vision encoder (mmproj) was made for another text model" in message


@pytest.mark.parametrize("seed", range(2))
def test_the_projector_of_another_model_is_found(tmp_path: Path, seed: int) -> None:
    message = run_self_test(with_projector(tmp_path, shuffled(seed))).problem or ""
    assert "expected" in message
    assert "vision encoder (mmproj) was made for another text model" in message


CIRCLE, SQUARE = "A blue circle on white.", "A red square on white."


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((CIRCLE, SQUARE), ""),
        (("A large dot in the middle.", SQUARE), ""),
        (("The solid blue disc.", "A big RED shape."), ""),
        ((SQUARE, CIRCLE), "received “A red square on white.” and “A blue circle on white.”"),
        ((CIRCLE, "A blue disc."), "expected texts about a blue circle and a red square; received"),
        ((CIRCLE, "A bored, tired boxer."), "does not see what is in the pictures"),
        (("A dog on a sofa.", "Two cats at night."), "does not see what is in the pictures"),
        ((CIRCLE, CIRCLE), "expected different texts"),
        ((CIRCLE, "red red red red red red"), "it repeats itself: expected a sentence about a red square"),
        ((CIRCLE, f"A dog {'and a cat ' * 30}"), "it repeats itself"),
    ],
)
def test_texts_must_fit_the_pictures(texts: tuple[str, str], expected: str) -> None:
    if not expected:
        selftest_child._check_alt_texts(texts)
        return
    with pytest.raises(ModelUnusable, match=expected) as caught:
        selftest_child._check_alt_texts(texts)
    assert len(caught.value.message) < 500
