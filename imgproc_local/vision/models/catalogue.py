"""The catalogue of vision models: the entries of `catalogue.toml` in the package.

An entry has the names, sizes and SHA-256 sums of the two files of a model, and the model's chat format. This module
only handles these entries: it neither reads a model nor opens a connection.
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from imgproc_local.vision.models.model import ChatFormat

NAME_PATTERN = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
"""A model's name is also the name of a folder, so it must be valid on every file system."""
RESERVED = frozenset(
    {"none", "ocr", "con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}
)
"""Names that no model may have, also before a dot, as in "con.v2".

They are "none", which selects no model, "ocr", which reads text in pictures, and the names of devices in Windows.

Source: Microsoft, "Naming Files, Paths, and Namespaces"."""

FileName = Annotated[str, Meta(pattern=r"^[^/\\\x00-\x1f]{1,200}\.gguf$")]
ImageTokens = Annotated[int, Meta(ge=1, le=4096)]
Sha256 = Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?$")]


class CatalogueFile(Struct, frozen=True, forbid_unknown_fields=True):
    """One file of a repository. If `sha256` is "", any sum that the hub reports is accepted."""

    file: FileName
    size_bytes: Annotated[int, Meta(ge=1)]
    sha256: Sha256 = ""


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model that can be downloaded. The head of `catalogue.toml` describes the fields."""

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


def read_catalogue() -> dict[str, Entry]:
    """All entries by name."""
    from importlib.resources import files

    text = (files(__package__) / "catalogue.toml").read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=dict[str, Entry])


def check_name(name: str) -> None:
    """Raises: ValueError, if `name` can't be the name of a model."""
    if NAME_PATTERN.fullmatch(name) is None or name.split(".", 1)[0] in RESERVED:
        raise ValueError(
            "expected a model's name of at most 64 lower-case letters, digits, dots, hyphens and underscores that"
            f" begins and ends with a letter or a digit and is not a reserved name; received {name!r}"
        )
