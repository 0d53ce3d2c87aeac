"""Vision models as data: the two files of a model, its chat format, and the hardware options it runs with."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

QUESTION_PLACEHOLDER = "{question}"
"""Marks the position of the picture and the prompt in a chat template that is written out."""


class ChatFormat(Struct, frozen=True):
    """How a prompt is written for a model.

    `image_tokens` is the maximum for one picture, for models whose token count depends on the picture's size.
    `template` is llama.cpp's name of a chat template, or one user's turn with `QUESTION_PLACEHOLDER` in it, or "" for
    the template in the GGUF file. `answer_opening` precedes the model's answer: an empty thought makes a model that
    reasons answer at once.
    """

    image_tokens: int = 256
    template: str = ""
    answer_opening: str = ""


class RunOptions(Struct, frozen=True):
    """`threads` 0 is one per physical core; `gpu_layers` None is all layers of the model."""

    threads: int = 0
    gpu_layers: int | None = None


DEFAULT_RUN_OPTIONS = RunOptions()


class VisionModel(Struct, frozen=True):
    """An installed model: a text model and the vision encoder (mmproj) that was made for it, both GGUF files.

    `digest` changes when other files are installed under the same name; "" if unknown.
    """

    name: str
    text_path: Path
    mmproj_path: Path
    chat: ChatFormat = ChatFormat()
    digest: str = ""
    run_options: RunOptions = DEFAULT_RUN_OPTIONS
