"""What the stages produce."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from imgproc_local.domain.image import Format


class Source(StrEnum):
    """Who wrote a translation. Source: api/README.md, "Results"."""

    VISION = "vision"
    FACTS = "facts"
    EMBEDDED = "embedded"
    PERSON = "person"


class Translation(Struct, frozen=True):
    """A file name and an alt text in one language. `seo_filename` is made by `domain.slug`, without extension."""

    language_code: str
    seo_filename: str
    seo_alt_text: str
    source: Source


class AnalyzeResult(Struct, frozen=True):
    """One translation per requested language, in the order requested."""

    translations: tuple[Translation, ...]


class OptimizeResult(Struct, frozen=True):
    """`data` is None where nothing smaller came out: the original bytes are the result then."""

    data: bytes | None


class ConvertResult(Struct, frozen=True):
    data: bytes
    format: Format


StageResult = AnalyzeResult | OptimizeResult | ConvertResult
