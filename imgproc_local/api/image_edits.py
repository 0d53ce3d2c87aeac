"""Changing many pictures at once: their project, caption, keywords and credit."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from litestar import Request
from msgspec import UNSET, Meta, Struct, UnsetType

from imgproc_local.api import requests, wire
from imgproc_local.api.errors import results
from imgproc_local.api.openapi import patch, results_content
from imgproc_local.domain.errors import InvalidRequest
from imgproc_local.domain.export import published
from imgproc_local.domain.plan import MAX_ITEMS
from imgproc_local.domain.result import MAX_KEYWORD_CHARS, WORD_LIMITS, one_line
from imgproc_local.storage.images import ChangedImage, ImageChange, change_images


def _word(name: str, limit: str) -> Meta:
    return published("null for what the file says", **{limit: WORD_LIMITS[name]})


class ImageEdit(Struct, frozen=True, forbid_unknown_fields=True):
    """At least one field is sent besides the image."""

    image_id: Annotated[str, Meta(description="the id of a job's image, in either case")]
    project_name: Annotated[str | UnsetType, Meta(description="the project to move it to, also a new one")] = UNSET
    caption: Annotated[str | UnsetType | None, _word("caption", "maxLength")] = UNSET
    keywords: Annotated[list[str] | UnsetType | None, _word("keywords", "maxItems")] = UNSET
    credit: Annotated[str | UnsetType | None, _word("credit", "maxLength")] = UNSET

    @property
    def words(self) -> dict[str, Any]:
        """Those that were sent."""
        return {name: value for name in WORD_LIMITS if (value := getattr(self, name)) is not UNSET}


class ImageEdits(Struct, frozen=True, forbid_unknown_fields=True):
    images: Annotated[list[ImageEdit], wire.ITEMS]


@patch("/images", "images", results_content(ChangedImage), body=ImageEdits)
async def edit_images(request: Request[Any, Any, Any]) -> wire.ResultsBody:
    """Move many images to other projects, or change their captions, keywords and credits (local addition)."""
    services, account_id = requests.caller(request)
    expected = f"a JSON object with images, 1 to {MAX_ITEMS} objects with image_id and what changes"
    edits = (await requests.read_json(request, ImageEdits, expected, requests.MAX_ITEMS_BYTES)).images
    changes = await asyncio.to_thread(lambda: list(map(_read_edit, edits)))
    outcomes = await change_images(services.store.database, account_id, changes)
    for job_id in {image.job_id for image in outcomes if isinstance(image, ChangedImage)}:
        services.engine.updates.publish(job_id, account_id)
    return results(edits, outcomes, ChangedImage)


HANDLERS = [edit_images]


def _read_edit(edit: ImageEdit) -> ImageChange | InvalidRequest:
    """The change as it is stored, or what is wrong with it."""
    problems: dict[str, list[str]] = {}
    words = {name: value and _cleaned(name, value) for name, value in edit.words.items()}
    for name, value in words.items():
        if value and len(value) > WORD_LIMITS[name]:
            what = "entries" if name == "keywords" else "characters"
            problems[name] = [f"{name} may have at most {WORD_LIMITS[name]} {what}; received {len(value)}."]
    for word in words.get("keywords") or ():
        if len(word) > MAX_KEYWORD_CHARS:
            expected = f"at most {MAX_KEYWORD_CHARS} characters each"
            problems["keywords"] = [f"keywords may have {expected}; received {requests.shown(word)}."]
    project_name = None
    if edit.project_name is not UNSET:
        named, expected = requests.TEXT_FIELDS["project_name"].parsed(edit.project_name.strip())
        project_name = str(named or "")
        if not project_name:
            received = requests.shown(edit.project_name)
            problems["project_name"] = [f"project_name must be {expected}, not blank; received {received}."]
    elif not words:
        problems["body"] = ["Expected project_name, caption, keywords or credit beside image_id; received none."]
    return InvalidRequest(problems) if problems else ImageChange(edit.image_id.lower(), project_name, words)


def _cleaned(name: str, value: Any) -> str | list[str]:
    """A caption with its lines, a credit, or keywords without blank and repeated ones."""
    if name == "keywords":
        return list(dict.fromkeys(filter(None, map(one_line, value))))
    return "\n".join(map(one_line, value.splitlines())).strip() if name == "caption" else one_line(value)
