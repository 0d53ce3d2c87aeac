"""The checks of the self-test, with the tiny model: a blind model writes fluent text, too."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from imgproc_local.vision.llm.selftest_child import problem_of, problem_of_texts
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


def shuffled(weights: bytes) -> bytes:
    """As the weights of a projector that was made for another model."""
    values = [weights[place : place + 2] for place in range(0, len(weights), 2)]
    random.Random(1).shuffle(values)
    return b"".join(values)


def test_a_working_model_passes_and_a_blind_or_foreign_projector_is_found(tmp_path: Path) -> None:
    assert problem_of(tiny.tiny_model()) is None
    for change in (lambda weights: bytes(len(weights)), shuffled):
        problem = problem_of(with_projector(tmp_path, change)) or ""
        assert problem.startswith("it does not see what is in the pictures: expected one text about a blue circle")
        assert "vision encoder (mmproj) was made for another text model" in problem


CIRCLE, SQUARE = "A blue circle on white.", "A red square on white."


@pytest.mark.parametrize(
    ("texts", "passes"),
    [
        ((CIRCLE, SQUARE), True),
        (("A large dot in the middle.", SQUARE), True),
        (("The solid blue disc.", "A big RED shape."), True),
        ((SQUARE, CIRCLE), False),
        ((CIRCLE, "A blue disc."), False),
        ((CIRCLE, "A bored, tired boxer."), False),
        (("A dog on a sofa.", "Two cats at night."), False),
        (("A blue circle, a red square.", "A blue circle, a red square."), False),
        ((CIRCLE, "A red square. " + "red red red red red red"), False),
        ((CIRCLE, f"A dog {'and a cat ' * 30}"), False),
    ],
)
def test_texts_must_fit_the_pictures(texts: tuple[str, str], passes: bool) -> None:
    problem = problem_of_texts(*texts)
    assert (problem is None) == passes
    assert passes or len(problem or "") < 600
