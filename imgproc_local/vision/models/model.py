"""Vision models as data: which two files one is made of, and how it is prompted."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

QUESTION = "{question}"
"""Stands for the picture and the question in a template that is written out."""


class ChatFormat(Struct, frozen=True):
    """How a model is prompted.

    `image_tokens` is the most that one picture may take, where the model's pictures vary in size. `template` is
    llama.cpp's name of a chat template, or a user's turn written out with `QUESTION` in it, or "" for the template
    inside the file. `answer_opening` is put in the model's mouth before its answer: an empty thought, where it would
    think aloud otherwise.
    """

    image_tokens: int = 256
    template: str = ""
    answer_opening: str = ""


class RunOptions(Struct, frozen=True):
    """On what of the machine a model runs: `threads` 0 is one per physical core, `gpu_layers` None is all there are."""

    threads: int = 0
    gpu_layers: int | None = None


DEFAULT_RUN_OPTIONS = RunOptions()


class VisionModel(Struct, frozen=True):
    """An installed model: a text model and the projector that lets it see, both GGUF.

    `digest` tells other files under the same name apart, "" where it is not known.
    """

    name: str
    text_path: Path
    mmproj_path: Path
    chat: ChatFormat = ChatFormat()
    digest: str = ""
    run_options: RunOptions = DEFAULT_RUN_OPTIONS
