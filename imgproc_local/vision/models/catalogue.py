"""What is known of a model: its manifest. The catalogue, `catalogue.toml` in the package, has those to download."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.models.model import ChatFormat

NAME_PATTERN = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
"""A model's name is also the name of a folder, so it must be valid on every file system."""
RESERVED = frozenset(
    {"none", "ocr", "con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}
)
"""Names that no model may have, also before a dot, as in "con.v2".

They are "none", which selects no model, "ocr", which reads text in pictures, and the names of devices in Windows.

Source: Microsoft, "Naming Files, Paths, and Namespaces"."""

MANIFEST_FILE, TEXT_MODEL_FILE, MMPROJ_FILE = "manifest.json", "text.gguf", "mmproj.gguf"


class ModelFile(Struct, frozen=True):
    """A file to download or to install. `file` is its original name."""

    file: str
    size_bytes: int
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]


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


def read_catalogue() -> dict[str, Manifest]:
    """All models to download, by name."""
    from importlib.resources import files

    text = (files(__package__) / "catalogue.toml").read_text(encoding="utf-8")
    entries = msgspec.toml.decode(text, type=dict[str, Manifest])
    return {name: msgspec.structs.replace(entry, name=name) for name, entry in entries.items()}


def is_name(name: str) -> bool:
    """Whether `name` can be the name of a model."""
    return NAME_PATTERN.fullmatch(name) is not None and name.split(".", 1)[0] not in RESERVED


def require_name(name: str) -> None:
    """Raises: ModelUnusable, if `name` can't be the name of a model."""
    if not is_name(name):
        raise ModelUnusable(
            "The model can't have this name: expected a model's name of at most 64 lower-case letters, digits, dots,"
            " hyphens and underscores that begins and ends with a letter or a digit and is not a reserved name;"
            f" received {name!r}."
        )
