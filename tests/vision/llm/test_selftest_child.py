"""The checks of the self-test, with the tiny model: a blind model and wrong positions write fluent text."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.llm import reference, selftest_child
from imgproc_local.vision.llm.llama import Llama
from imgproc_local.vision.llm.selftest_child import describe_test_pictures, run_self_test
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


def problem(model: VisionModel) -> str:
    with pytest.raises(ModelUnusable) as caught:
        describe_test_pictures(model)
    return caught.value.message


def test_a_working_model_passes() -> None:
    describe_test_pictures(tiny.tiny_model())


def test_a_model_with_a_blind_projector_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest_child, "limit_this_process", lambda _: None)
    message = run_self_test(with_projector(tmp_path, zeroed)).problem or ""
    assert message.startswith("it does not see the pictures: expected different texts for a blue circle and a red")
    assert "for both. Either its vision encoder (mmproj) was made for another text model" in message


@pytest.mark.parametrize("seed", range(2))
def test_the_projector_of_another_model_is_found(tmp_path: Path, seed: int) -> None:
    message = problem(with_projector(tmp_path, shuffled(seed)))
    assert "expected" in message
    assert "vision encoder (mmproj) was made for another text model" in message


def test_a_wrong_position_after_the_picture_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    prefill = Llama.prefill

    def shifted(self: Llama, *arguments: Any) -> None:
        prefill(self, *arguments)
        self.prefix_end += 18

    # llama.cpp refuses wrong positions for the tiny model, but not for models with M-RoPE
    generate_at_right_position = Llama.generate_tokens

    def generate(self: Llama, *arguments: Any) -> list[list[int]]:
        self.prefix_end -= 18
        answers = generate_at_right_position(self, *arguments)
        self.prefix_end += 18
        return answers

    monkeypatch.setattr(Llama, "prefill", shifted)
    monkeypatch.setattr(Llama, "generate_tokens", generate)
    message = problem(tiny.tiny_model())
    assert message.startswith("the position of the text after the picture is wrong: expected ")
    assert "Install the version of llama-cpp-python" in message


def test_languages_that_disturb_each_other_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    together = Llama._generate_together

    def mixed_up(self: Llama, suffixes: Sequence[str], *arguments: Any) -> list[list[int]]:
        return together(self, suffixes, *arguments)[::-1]

    monkeypatch.setattr(Llama, "_generate_together", mixed_up)
    message = problem(tiny.tiny_model())
    assert "with several languages at once it writes something else" in message
    assert "Ein" in message.partition("expected")[2].partition("received")[0]


def test_equally_probable_tokens_are_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    together = Llama._generate_together

    def one_token_replaced(self: Llama, *arguments: Any) -> list[list[int]]:
        answers = together(self, *arguments)
        answers[-1][8] = answers[-1][7]
        return answers

    monkeypatch.setattr(Llama, "_generate_together", one_token_replaced)
    assert "writes something else" in problem(tiny.tiny_model())
    monkeypatch.setattr(reference, "MAX_TIE_LOGITS", float("inf"))
    describe_test_pictures(tiny.tiny_model())


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
