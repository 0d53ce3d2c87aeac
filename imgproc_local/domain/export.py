"""What an export is asked for, and what prevents it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

MAX_IMAGES = 10_000
"""The most images of one export."""

Variant = Literal["optimized", "converted", "original"]
"""A file of an image, in the order in which an archive lists them."""
VARIANTS: tuple[Variant, ...] = ("optimized", "converted", "original")
RequestedVariant = Literal["best", "optimized", "converted", "original"]
"""`best` is the smaller of the optimized and the converted file."""
MissingReason = Literal["unfinished", "failed", "not_requested", "removed", "missing", "damaged"]


class ExportRequest(Struct, frozen=True):
    """Which files an archive is to contain, and how.

    Without `images`, all finished images of the account are exported, or those of `project_id`. The files have the
    names of `language`; None is the first language of each image. With `write_texts`, alt texts are written into the
    optimized and converted files. `allow_needs_text` and `allow_missing` export although texts or files are missing.
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
    or `damaged` on the disk. It is `not_requested` if the job was for another operation; that is reported only for an
    image that the request names and that has no other requested file.
    """

    image_id: str
    original_filename: str
    variant: Variant
    reason: MissingReason


class ExportProblems(Struct, frozen=True):
    """The texts and files that an export lacks, in the order of its images."""

    needs_text: tuple[NeededText, ...] = ()
    missing: tuple[MissingFile, ...] = ()
