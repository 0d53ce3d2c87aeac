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
"""The target of tokens that no answer follows; the loss ignores them. Source: PyTorch, `cross_entropy`,
ignore_index."""

_PAD_RGB = (127, 127, 127)
_ASPECT_RATIOS = (1, 1, 1, 4 / 3, 3 / 4, 3 / 2, 2 / 3, 16 / 9, 9 / 16, 5 / 2, 2 / 5)
_SHORT_SIDES_PX = (96, 120, 144, 192, 192, 256)
"""Width divided by height, and the shorter side, of the drawn pictures; repeated values are more frequent."""
_JPEG_PROBABILITY = 0.25
_COMPLAINT_PROBABILITY = 0.05
_DRAFT_PROBABILITY = 0.5
"""The share of batches in which the prompts of languages other than English have the English text to translate."""


class Batch(NamedTuple):
    """The input and the targets of one training step, for B pictures and L languages.

    `pictures` (B, 3, 96, 96) in -1…1. `aspects` (B, 6), the classes of ASPECTS. `notes` (N), the tokens of the notes
    after the picture. `suffixes` (B, L, T), the tokens of the English text to translate, if there is one, of the last
    line of the prompt and of the answer. `targets` (B, L, T), the token that follows each of them, or IGNORED.
    """

    pictures: Tensor
    aspects: Tensor
    notes: Tensor
    suffixes: Tensor
    targets: Tensor


def letterbox(picture: Image.Image) -> Image.Image:
    """The picture scaled to fit into 96 × 96 px and padded with grey, with the same pixels as in llama.cpp.

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


def to_tensor(pictures: list[Image.Image]) -> Tensor:
    """RGB pictures of 96 × 96 px as the input of the vision encoder: (B, 3, 96, 96) in -1…1."""
    pixels = np.stack([np.asarray(picture) for picture in pictures])
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1


def make_batch(rng: random.Random, tokenizer: tokens.Tokenizer, size: int) -> Batch:
    """A batch of `size` scenes that are not held out, with answers in all languages.

    They share the notes and the complaint of the prompt; the English text to translate is that of each scene.
    """
    batch_scenes = [scenes.random_scene(rng) for _ in range(size)]
    complaint = rng.choice(notes.COMPLAINTS) if rng.random() < _COMPLAINT_PROBABILITY else ""
    drafts: list[list[int]] = [[] for _ in batch_scenes]
    if rng.random() < _DRAFT_PROBABILITY:
        texts = [scenes.reference_answer(scene, "en").alt_text for scene in batch_scenes]
        drafts = [tokenizer.ids(prompt.draft_note(text)) for text in texts]
    last_lines = {
        language: tokenizer.ids(prompt.language_prompt(language, complaint) + tokens.ASSISTANT)
        for language in scenes.LANGUAGES
    }
    prompts = [
        [line if language == "en" else draft + line for language, line in last_lines.items()] for draft in drafts
    ]
    answers = [
        [
            tokenizer.ids(scenes.to_json(scenes.reference_answer(scene, language)) + tokens.END)
            for language in scenes.LANGUAGES
        ]
        for scene in batch_scenes
    ]
    pairs = [[*zip(*row, strict=True)] for row in zip(prompts, answers, strict=True)]
    longest = max(len(ids) + len(text) for row in pairs for ids, text in row)
    suffixes = torch.zeros((size, len(scenes.LANGUAGES), longest), dtype=torch.long)
    targets = torch.full_like(suffixes, IGNORED)
    for row, texts_of_picture in enumerate(pairs):
        for index, (ids, text) in enumerate(texts_of_picture):
            suffixes[row, index, : len(ids) + len(text)] = torch.tensor([*ids, *text])
            targets[row, index, len(ids) - 1 : len(ids) + len(text) - 1] = torch.tensor(text)
    return Batch(
        to_tensor([letterbox(_draw(scene, rng)) for scene in batch_scenes]),
        torch.tensor([_aspects(scene) for scene in batch_scenes]),
        torch.tensor(tokenizer.ids(notes.picture_notes(rng))),
        suffixes,
        targets,
    )


def _draw(scene: scenes.Scene, rng: random.Random) -> Image.Image:
    """A picture of the scene in a random size, sometimes with JPEG artefacts."""
    ratio, short_px = rng.choice(_ASPECT_RATIOS), rng.choice(_SHORT_SIDES_PX)
    size = (round(short_px * max(ratio, 1)), round(short_px * max(1 / ratio, 1)))
    picture = scenes.draw(scene, rng.getrandbits(32), size)
    if rng.random() >= _JPEG_PROBABILITY:
        return picture
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=rng.randint(75, 95))
    return Image.open(buffer).convert("RGB")


def _aspects(scene: scenes.Scene) -> list[int]:
    """The class of each of ASPECTS. The last class means that there is no second object."""
    colours, shapes, relations, backgrounds = (
        [*scenes.COLOURS, None], [*scenes.SHAPES, None], [*scenes.RELATIONS, None], [*scenes.BACKGROUNDS],
    )  # fmt: skip
    second = scene.second or (None, None)
    classes = [
        colours.index(scene.first.colour),
        shapes.index(scene.first.shape),
        colours.index(second[0]),
        shapes.index(second[1]),
        relations.index(scene.relation),
        backgrounds.index(scene.background),
    ]
    assert len(classes) == len(ASPECTS)
    return classes
