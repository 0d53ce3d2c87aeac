"""What a request for an export (a ZIP file of results) asks for, and what prevents it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

MAX_IMAGES = 10_000
"""The maximum number of images in one export."""

Variant = Literal["optimized", "converted", "original"]
"""One of the files of an image."""
VARIANTS: tuple[Variant, ...] = ("optimized", "converted", "original")
"""All variants, in the order in which an export lists them."""
RequestedVariant = Literal["best", "optimized", "converted", "original"]
"""`best` is the smaller of the optimized and the converted file."""
MissingReason = Literal["unfinished", "failed", "not_requested", "removed", "missing", "damaged"]


class ExportRequest(Struct, frozen=True):
    """Which files an export is to contain, and how.

    Without `images`, all finished images of the account are exported, or only those of `project_id`. Files are named
    in `language`, or if it is None, in the first language of each image. With `write_texts`, alt texts are written into
    the optimized and converted files. `allow_needs_text` and `allow_missing` allow an export that lacks texts or files.
    """

    images: tuple[str, ...] | None = None
    project_id: str | None = None
    variants: tuple[RequestedVariant, ...] = ("optimized", "converted")
    language: str | None = None
    write_texts: bool = True
    allow_needs_text: bool = False
    allow_missing: bool = False


class NeededText(Struct, frozen=True):
    """An image without an alt text in some of its languages, or with one that says nothing about its content."""

    image_id: str
    original_filename: str
    languages: tuple[str, ...]


class MissingFile(Struct, frozen=True):
    """A requested file that does not exist.

    Its stage is not done (`unfinished`) or has `failed`; or the file was `removed` because of its age, or is `missing`
    or `damaged` on the disk. It is `not_requested` if the operation of the job does not make it; that is reported only
    for an image that the request names and of which no requested file can be exported.
    """

    image_id: str
    original_filename: str
    variant: Variant
    reason: MissingReason


class ExportProblems(Struct, frozen=True):
    """The texts and files that an export lacks, in the order of its images."""

    needs_text: tuple[NeededText, ...] = ()
    missing: tuple[MissingFile, ...] = ()
