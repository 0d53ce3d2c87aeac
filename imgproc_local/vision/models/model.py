"""Vision models as data: the two files of an installed model and its chat format; or, for a model in another program on
this machine, that program and the name of the model in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

QUESTION_PLACEHOLDER = "{question}"
"""The position of the picture and the prompt in a chat template that is written out as text."""


class ChatFormat(Struct, frozen=True):
    """How a prompt is written for a model.

    `image_tokens` is the maximum for one picture, for models whose number of tokens depends on the size of the picture.
    `template` is a name of a chat template that llama.cpp knows, or the text of one turn of the user with
    `QUESTION_PLACEHOLDER`, or "" for the template in the GGUF file. `answer_opening` is put before the model's answer;
    with an empty thought, a reasoning model answers at once.
    """

    image_tokens: Annotated[int, Meta(ge=1, le=4096)] = 256
    template: str = ""
    answer_opening: str = ""


class VisionModel(Struct, frozen=True):
    """An installed model: a text model and the vision encoder (mmproj) that was made for it, both GGUF files.

    `digest` identifies the content of the files, because others may be installed later under the same name; "" if it is
    unknown. `gpu_layers` is how many layers run on the GPU, None for all.
    """

    name: str
    text_path: Path
    mmproj_path: Path
    chat: ChatFormat = ChatFormat()
    digest: str = ""
    gpu_layers: int | None = None


LOOPBACK_PROGRAMS = ("ollama", "lmstudio", "llama-server")
"""The programs on this machine whose models can be used."""
MAX_LOOPBACK_NAME_CHARS = 200


class LoopbackModel(Struct, frozen=True):
    """A model in another program on this machine. `program` is one of `LOOPBACK_PROGRAMS`."""

    program: str
    name_in_program: str

    @property
    def name(self) -> str:
        """The name that `models use` takes, such as "ollama:gemma3:4b"."""
        return f"{self.program}:{self.name_in_program}"


def loopback_model(name: str) -> LoopbackModel | None:
    """The model that a name such as "ollama:gemma3:4b" stands for; None if it is not such a name."""
    program, colon, name_in_program = name.partition(":")
    if not colon or program not in LOOPBACK_PROGRAMS or not 0 < len(name_in_program) <= MAX_LOOPBACK_NAME_CHARS:
        return None
    return LoopbackModel(program, name_in_program) if name_in_program.isprintable() and " " not in name else None


AnyModel = VisionModel | LoopbackModel
"""A model that can describe pictures."""
