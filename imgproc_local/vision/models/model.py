"""Vision models as data: the two files of an installed model, its chat format and its manifest; or, for a model in
another program on this machine, that program and the name of the model in it. The catalogue, `catalogue.toml` in the
package, has the manifests of the models to download."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from imgproc_local.domain.errors import ModelUnusable

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


_LOOPBACK_PROGRAMS = ("ollama", "lmstudio", "llama-server")
"""The programs on this machine whose models can be used."""


class LoopbackModel(Struct, frozen=True):
    """A model in another program on this machine. `program` is one of `_LOOPBACK_PROGRAMS`."""

    program: str
    name_in_program: str

    @property
    def name(self) -> str:
        """The name that `models use` takes, such as "ollama:gemma3:4b"."""
        return f"{self.program}:{self.name_in_program}"


def loopback_model(name: str) -> LoopbackModel | None:
    """The model that a name such as "ollama:gemma3:4b" stands for; None if it is not such a name."""
    program, colon, name_in_program = name.partition(":")
    if not colon or program not in _LOOPBACK_PROGRAMS or not 0 < len(name_in_program) <= 200:
        return None
    return LoopbackModel(program, name_in_program) if name_in_program.isprintable() and " " not in name else None


AnyModel = VisionModel | LoopbackModel
"""A model that can describe pictures."""


# ---- manifests and the catalogue

_NAME_PATTERN = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
_RESERVED = {"none", "ocr", "con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)}
"""Names that no model may have, also before a dot, as in "con.v2".

They are "none", which selects no model, "ocr", which reads text in pictures, and the names of devices in Windows.

Source: Microsoft, "Naming Files, Paths, and Namespaces"."""

MANIFEST_FILE, TEXT_MODEL_FILE, MMPROJ_FILE = "manifest.json", "text.gguf", "mmproj.gguf"
HUB_URL = "https://huggingface.co"
"""The server that has the models of the catalogue."""


class ModelFile(Struct, frozen=True):
    """A file to download or to install. `file` is its original name."""

    file: str
    size_bytes: int
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]


class ListedFile(ModelFile, frozen=True):
    """A file with the address from which any program can download it."""

    url: str


class Manifest(Struct, frozen=True, kw_only=True):
    """The content of `MANIFEST_FILE`, or a table of the catalogue, whose head describes the fields.

    In the folder of the model, the files are named `TEXT_MODEL_FILE` and `MMPROJ_FILE`. `origin` is
    "REPOSITORY@COMMIT", "" if unknown. Invariant: the names in the JSON file never change, because other versions of
    the program read it. So the field `chat` is still stored as "talk".
    """

    name: str = ""
    text: ModelFile
    mmproj: ModelFile
    chat: ChatFormat = field(default=ChatFormat(), name="talk")
    origin: str = ""
    licence: str = ""
    languages: str = ""
    memory_mb: int = 0

    @property
    def size_bytes(self) -> int:
        """The size of both files together."""
        return self.text.size_bytes + self.mmproj.size_bytes

    def files(self) -> dict[str, ModelFile]:
        """The files by their name in the folder of the model."""
        return {TEXT_MODEL_FILE: self.text, MMPROJ_FILE: self.mmproj}

    def listed_files(self, hub: str = HUB_URL) -> tuple[ListedFile, ...]:
        """The files of a model of the catalogue with their addresses at the server `hub`, in the order of `files`."""
        repository, _, commit = self.origin.partition("@")
        folder = f"{hub}/{repository}/resolve/{commit}"
        return tuple(
            ListedFile(file.file, file.size_bytes, file.sha256, f"{folder}/{quote(file.file)}")
            for file in self.files().values()
        )


def read_catalogue() -> dict[str, Manifest]:
    """All models to download, by name."""
    from importlib.resources import files

    entries = msgspec.toml.decode((files(__package__) / "catalogue.toml").read_bytes(), type=dict[str, Manifest])
    return {name: replace(entry, name=name) for name, entry in entries.items()}


def is_name(name: str) -> bool:
    """Whether `name` can be the name of a model, and so of a folder on every file system."""
    return _NAME_PATTERN.fullmatch(name) is not None and name.split(".", 1)[0] not in _RESERVED


def require_name(name: str) -> None:
    """Raises: ModelUnusable, if `name` can't be the name of a model."""
    if not is_name(name):
        raise ModelUnusable(
            "The model can't have this name: expected a model's name of at most 64 lower-case letters, digits, dots,"
            " hyphens and underscores that begins and ends with a letter or a digit and is not a reserved name;"
            f" received {name!r}."
        )
