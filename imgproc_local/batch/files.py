"""The result files of one picture: what a manifest records of each, and how their names are made.

A name is made from the texts or from the picture's own name. Each file adds its ending, such as `.webp`,
`-converted.webp` or `.xmp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from msgspec import Struct

from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.domain.image import Format
from imgproc_local.domain.result import Translation
from imgproc_local.domain.slug import make_slug

SIDECAR_ENDING = ".xmp"


class ResultFile(Struct, frozen=True):
    """A result file. `path` is relative to the output folder, with `/` between the parts. A sidecar has no `format`."""

    path: str
    sha256: str
    size_bytes: int
    format: Format | None = None


def optimized_ending(picture: PurePath, result_format: Format) -> str:
    """The picture's extension in lower case if `result_format` uses it, else the usual extension of that format."""
    ending = picture.suffix.lower()
    extensions = FORMATS[result_format].extensions
    return ending if ending.removeprefix(".") in extensions else f".{extensions[0]}"


def converted_ending(result_format: Format, optimized: str) -> str:
    """The ending of the converted file; `optimized` is that of the optimized file, also if another run makes that file.

    A WebP that is converted to WebP has two results, which need different names.
    """
    ending = f".{FORMATS[result_format].extensions[0]}"
    return f"-converted{ending}" if ending == optimized else ending


def fallback_name(picture: PurePath, language: str) -> str:
    """The name for the results of a picture without texts, made from its file name."""
    return make_slug(picture.stem, language) or "image"


def sidecar_content(texts: Sequence[Translation]) -> bytes | None:
    """The content of the XMP file with the texts; None if no person or model wrote one of them."""
    from imgproc_local.codecs.alt_texts import sidecar, texts_to_write

    file_texts = texts_to_write(texts)
    return sidecar(file_texts) if file_texts.alt_texts else None
