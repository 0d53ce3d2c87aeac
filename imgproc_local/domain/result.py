"""The texts that describe a picture."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class TextSource(StrEnum):
    """Where the texts of a translation come from: the vision model, measured facts, metadata, or a person's edit.

    Source: api/README.md, "Results".
    """

    VISION = "vision"
    FACTS = "facts"
    EMBEDDED = "embedded"
    PERSON = "person"


class Translation(Struct, frozen=True):
    """A file name and an alt text in one language. `seo_filename` is a slug (`domain.slug`), without extension."""

    language_code: str
    seo_filename: str
    seo_alt_text: str
    source: TextSource
