"""Training batches: pictures as mtmd prepares them, the prompt of the service, and the answers."""

from __future__ import annotations

import io
import math
import random
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from imgproc_local.vision.llm import prompt
from models.tiny import notes, scenes, tokens
from models.tiny.network import ASPECTS, IMAGE_PX

IGNORED = -100
"""The target of tokens without an expected answer. Source: PyTorch, `cross_entropy`, ignore_index."""

_PAD_RGB = (127, 127, 127)
_RATIOS = (1, 1, 1, 4 / 3, 3 / 4, 3 / 2, 2 / 3, 16 / 9, 9 / 16, 5 / 2, 2 / 5)
_SHORT_SIDES_PX = (96, 120, 144, 192, 192, 256)
_JPEG_SHARE = 0.25
_COMPLAINT_SHARE = 0.05


class Batch(NamedTuple):
    """`pictures` (B, 3, 96, 96); `aspects` (B, 6); `shared` (S); `suffixes` and `targets` (B, L, T)."""

    pictures: Tensor
    aspects: Tensor
    shared: Tensor
    suffixes: Tensor
    targets: Tensor


def letterboxed(picture: Image.Image) -> Image.Image:
    """The picture in 96 × 96 px as llama.cpp's mtmd letterboxes it: bicubic, centred, on grey.

    Source: llama.cpp, tools/mtmd, the fixed-size preprocessor; its arithmetic is in single precision.
    """
    width, height = picture.size
    if (width, height) == (IMAGE_PX, IMAGE_PX):
        return picture
    scale = min(np.float32(IMAGE_PX) / np.float32(width), np.float32(IMAGE_PX) / np.float32(height))
    inner_width, inner_height = (min(math.ceil(np.float32(side) * scale), IMAGE_PX) for side in (width, height))
    inner = picture.resize((inner_width, inner_height), Image.Resampling.BICUBIC)
    outer = Image.new("RGB", (IMAGE_PX, IMAGE_PX), _PAD_RGB)
    outer.paste(inner, ((IMAGE_PX - inner_width) // 2, (IMAGE_PX - inner_height) // 2))
    return outer


def as_tensor(pictures: list[Image.Image]) -> Tensor:
    """RGB pictures of 96 × 96 px as input of the vision encoder: (B, 3, 96, 96) in -1…1."""
    pixels = np.stack([np.asarray(picture) for picture in pictures])
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1


def batch(source: random.Random, tokenizer: tokens.Tokenizer, size: int) -> Batch:
    """`size` scenes that are not held out, with answers in every language; one prompt for all of them."""
    drawn = [scenes.random_scene(source) for _ in range(size)]
    complaint = source.choice(notes.COMPLAINTS) if source.random() < _COMPLAINT_SHARE else ""
    prompts = [
        tokenizer.ids(prompt.language_prompt(language, complaint) + tokens.ASSISTANT) for language in scenes.LANGUAGES
    ]
    answers = [
        [
            tokenizer.ids(scenes.to_json(scenes.reference_answer(scene, language)) + tokens.END)
            for language in scenes.LANGUAGES
        ]
        for scene in drawn
    ]
    longest = max(len(ids) + len(row[index]) for row in answers for index, ids in enumerate(prompts))
    suffixes = torch.zeros((size, len(prompts), longest), dtype=torch.long)
    targets = torch.full_like(suffixes, IGNORED)
    for row, texts in enumerate(answers):
        for index, (ids, text) in enumerate(zip(prompts, texts, strict=True)):
            suffixes[row, index, : len(ids) + len(text)] = torch.tensor([*ids, *text])
            targets[row, index, len(ids) - 1 : len(ids) + len(text) - 1] = torch.tensor(text)
    return Batch(
        as_tensor([letterboxed(_drawn(scene, source)) for scene in drawn]),
        torch.tensor([_aspects(scene) for scene in drawn]),
        torch.tensor(tokenizer.ids(notes.shared_prompt(source))),
        suffixes,
        targets,
    )


def _drawn(scene: scenes.Scene, source: random.Random) -> Image.Image:
    """The scene in a random size, sometimes with JPEG artefacts."""
    ratio, short_px = source.choice(_RATIOS), source.choice(_SHORT_SIDES_PX)
    size = (round(short_px * max(ratio, 1)), round(short_px * max(1 / ratio, 1)))
    picture = scenes.draw(scene, source.getrandbits(32), size)
    if source.random() >= _JPEG_SHARE:
        return picture
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=source.randint(75, 95))
    return Image.open(buffer).convert("RGB")


def _aspects(scene: scenes.Scene) -> list[int]:
    """The classes of ASPECTS; the last class means that there is no second thing."""
    colours, shapes, relations, backgrounds = (
        [*scenes.COLOURS, None], [*scenes.SHAPES, None], [*scenes.RELATIONS, None], [*scenes.BACKGROUNDS],
    )  # fmt: skip
    second = scene.second or (None, None)
    answers = [
        colours.index(scene.first.colour),
        shapes.index(scene.first.shape),
        colours.index(second[0]),
        shapes.index(second[1]),
        relations.index(scene.relation),
        backgrounds.index(scene.background),
    ]
    assert len(answers) == len(ASPECTS)
    return answers
