"""The result files of one picture: what the manifests know of each, and what follows the name."""

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
    """A file of the output folder. `path` is relative to it, with `/` between the parts."""

    path: str
    sha256: str
    size_bytes: int
    format: Format | None = None


def optimized_ending(picture: PurePath, result: Format) -> str:
    """The picture's extension in lower case if the format of the result uses it, else the usual one of that format."""
    ending = picture.suffix.lower()
    extensions = FORMATS[result].extensions
    return ending if ending.removeprefix(".") in extensions else f".{extensions[0]}"


def converted_ending(result: Format, beside: str | None) -> str:
    """What follows the name of the converted file; `beside` is the ending of the optimized file, None without one.

    A WebP that is converted to WebP has two results, which need different names.
    """
    ending = f".{FORMATS[result].extensions[0]}"
    return f"-converted{ending}" if ending == beside else ending


def fallback_name(picture: PurePath, language: str) -> str:
    """The name of the results of a picture without texts, made from its own name."""
    return make_slug(picture.stem, language) or "image"


def sidecar_content(texts: Sequence[Translation]) -> bytes | None:
    """The XMP file of the texts; None if a person has to write all of them."""
    from imgproc_local.codecs.words import sidecar, words_of

    words = words_of(texts)
    return sidecar(words) if words.alt_texts else None
