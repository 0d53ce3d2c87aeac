"""Which vision models are known: those of `catalogue.toml` in the package, and those of the settings file.

An entry says where a model's two files are, what they are, and how the model is prompted. It is data only; nothing
here reads a model or opens a connection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from imgproc_local.vision.models.model import ChatFormat

NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
"""A model's name is the name of a folder too, on every file system."""
RESERVED = frozenset(
    {"none", "con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}
)

FileName = Annotated[str, Meta(pattern=r"^[^/\\\x00-\x1f]{1,200}\.gguf$")]
ImageTokens = Annotated[int, Meta(ge=1, le=4096)]
Sha256 = Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?$")]


class CatalogueFile(Struct, frozen=True, forbid_unknown_fields=True):
    """One file of a repository. `sha256` is "" where it is not known before the hub tells it."""

    file: FileName
    size_bytes: Annotated[int, Meta(ge=1)]
    sha256: Sha256 = ""


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model that can be pulled. `languages` and `licence` are what its card says, in words."""

    repository: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")]
    revision: Annotated[str, Meta(pattern=r"^[\w][\w./-]{0,199}$")] = "main"
    text: CatalogueFile
    mmproj: CatalogueFile
    licence: str = ""
    languages: str = ""
    memory_mb: Annotated[int, Meta(ge=0)] = 0
    image_tokens: ImageTokens = 256
    template: str = ""
    answer_opening: str = ""

    @property
    def size_bytes(self) -> int:
        return self.text.size_bytes + self.mmproj.size_bytes

    @property
    def chat(self) -> ChatFormat:
        return ChatFormat(self.image_tokens, self.template, self.answer_opening)


def read_catalogue(own: Mapping[str, Entry]) -> dict[str, Entry]:
    """All entries by name, the package's first; one of `own` takes the place of the package's."""
    from importlib.resources import files

    text = (files(__package__) / "catalogue.toml").read_text(encoding="utf-8")
    return {**msgspec.toml.decode(text, type=dict[str, Entry]), **own}


def check_name(name: str) -> None:
    """Raises `ValueError`, saying what was expected, where `name` can't name a model."""
    if NAME.fullmatch(name) is None or name.split(".", 1)[0] in RESERVED:
        raise ValueError(
            "expected a model's name of at most 64 small letters, digits, dots, dashes and underscores that begins and"
            f" ends with a letter or a digit, and is no name that the system keeps for itself; {name!r} came"
        )
