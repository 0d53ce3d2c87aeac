"""The texts that describe a picture."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Source(StrEnum):
    """Who wrote a translation. Source: api/README.md, "Results"."""

    VISION = "vision"
    FACTS = "facts"
    EMBEDDED = "embedded"
    PERSON = "person"


class Translation(Struct, frozen=True):
    """A file name and an alt text in one language. `seo_filename` comes from `domain.slug`, without extension."""

    language_code: str
    seo_filename: str
    seo_alt_text: str
    source: Source
