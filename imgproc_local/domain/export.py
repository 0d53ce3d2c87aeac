"""What a request for an export (a ZIP file of results) asks for, and what prevents it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from imgproc_local.domain.job import Variant
from imgproc_local.domain.languages import LANGUAGES

MAX_IMAGES = 10_000
"""The maximum number of images in one export."""

NAME_PARTS = ("words", "date", "n", "original")
"""What a template for names may have in braces."""
Table = Literal["shopify"]
"""A table for the importer of a shop. Only Shopify's has a column for alt texts: WooCommerce's and Squarespace's read
addresses of images and nothing else about them."""
_RequestedVariant = Literal["best", Variant]
"""`best` is the smaller of the optimized and the converted file."""
MissingReason = Literal["unfinished", "failed", "not_requested", "removed", "missing", "damaged"]


def published(description: str, **schema: Any) -> Meta:
    """What is published of a field. The `schema` is checked by what reads the field, which has its own messages."""
    return Meta(description=description, extra_json_schema=schema)


_Identifier = Annotated[str, published("ULID, in either case", pattern="^[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}$")]


class ExportFields(Struct, frozen=True, forbid_unknown_fields=True):
    """Which files an export is to contain, and how."""

    # the body of the request as the client sent it: its descriptions are published, identifiers are in either case

    images: Annotated[
        tuple[_Identifier, ...] | None,
        published(
            "the ids of images; null is all finished images of the account, or of project_id",
            minItems=1,
            maxItems=MAX_IMAGES,
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
    folders: Annotated[bool, Meta(description="put the files into the folders of the uploads")] = False
    name_template: Annotated[
        str,
        Meta(
            description=f"names the files; has some of {{{'}, {'.join(NAME_PARTS)}}}, not {{date}} alone",
            max_length=200,
        ),
    ] = "{words}"
    tables: Annotated[tuple[Table, ...], Meta(description="tables for shops to add", max_length=1)] = ()
    allow_needs_text: Annotated[bool, Meta(description="export although images need a text")] = False
    allow_missing: Annotated[bool, Meta(description="export although requested files are missing")] = False
    dry_run: Annotated[bool, Meta(description="answer with what the archive would contain")] = False


def template_problem(template: str) -> str | None:
    """The error message for a template that can't name files; None if it can."""
    parts = ", ".join(f"{{{part}}}" for part in NAME_PARTS)
    literal = re.sub(f"{{({'|'.join(NAME_PARTS)})}}", "", template)
    if unknown := re.search(r"{[^}]*}?|}", literal):
        return f"name_template may have {parts}; received {unknown[0]!r}."
    if not re.search(r"{(words|n|original)}", template):
        return f"name_template must have {{words}}, {{n}} or {{original}}; received {template[:40]!r}."
    return None


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
    or `damaged` on the disk. It is `not_requested` if the job does not make it, or was not to keep it; that is reported
    only for an image that the request names and of which no requested file can be exported.
    """

    image_id: str
    original_filename: str
    variant: Variant
    reason: MissingReason
