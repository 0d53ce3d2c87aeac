"""What a request for an export (a ZIP file of results) asks for, and what prevents it."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct

from imgproc_local.domain.languages import LANGUAGES

MAX_IMAGES = 10_000
"""The maximum number of images in one export."""

Variant = Literal["optimized", "converted", "original"]
"""One of the files of an image."""
VARIANTS: tuple[Variant, ...] = get_args(Variant)
"""All variants, in the order in which an export lists them."""
_RequestedVariant = Literal["best", Variant]
"""`best` is the smaller of the optimized and the converted file."""
MissingReason = Literal["unfinished", "failed", "not_requested", "removed", "missing", "damaged"]
_Identifier = Annotated[
    str,
    Meta(description="ULID, in either case", extra_json_schema={"pattern": "^[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}$"}),
]


class ExportFields(Struct, frozen=True, forbid_unknown_fields=True):
    """Which files an export is to contain, and how."""

    # the body of the request as the client sent it: its descriptions are published, identifiers are in either case

    images: Annotated[
        tuple[_Identifier, ...] | None,
        Meta(
            description="the ids of images; null is all finished images of the account, or of project_id",
            extra_json_schema={"minItems": 1, "maxItems": MAX_IMAGES},
        ),
    ] = None
    project_id: Annotated[_Identifier | None, Meta(description="only images of this project; not beside images")] = None
    variants: Annotated[
        tuple[_RequestedVariant, ...],
        Meta(
            description="the files of each image; best is the smaller of the optimized and the converted file",
            min_length=1,
            max_length=4,
        ),
    ] = ("optimized", "converted")
    language: Annotated[
        Annotated[str, Meta(extra_json_schema={"enum": sorted(LANGUAGES)})] | None,
        Meta(description="names the files by its seo_filename; null is the first language of each image"),
    ] = None
    write_texts: Annotated[
        bool, Meta(description="write alt texts, captions, keywords and credits into the optimized and converted files")
    ] = True
    allow_needs_text: Annotated[bool, Meta(description="export although images need a text")] = False
    allow_missing: Annotated[bool, Meta(description="export although requested files are missing")] = False
    dry_run: Annotated[bool, Meta(description="answer with what the archive would contain")] = False


class NeededText(Struct, frozen=True):
    """An image with languages in which its alt text is not written, or in which a person has to write it.

    `reasons` has the `NeedsTextReason` for each language, None where no text is written.
    """

    image_id: str
    original_filename: str
    languages: tuple[str, ...]
    reasons: dict[str, str | None]


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
