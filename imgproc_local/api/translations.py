"""Editing the texts of a picture: a person's words, undo and redo, and writing one text anew."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from litestar import Request, Response
from msgspec import UNSET

from imgproc_local.api.images import IMAGE, job_of_image
from imgproc_local.api.openapi import PREFER, patch, post
from imgproc_local.api.requests import authenticated_key, preference_applied, read_json, read_wait_s
from imgproc_local.api.wire import EditedTranslationBody, TranslationEdit, edited_translation_body
from imgproc_local.compose import Services
from imgproc_local.domain.alt_text import MAX_ALT_CHARS, MAX_LONG_CHARS, alt_text_error, normalized_alt_text
from imgproc_local.domain.errors import InsufficientCredits, InvalidRequest, NoSuchVersion, NotFound, OriginalRemoved
from imgproc_local.domain.filename import make_slug
from imgproc_local.domain.job import Job
from imgproc_local.domain.result import Translation
from imgproc_local.storage.translations import Edit
from imgproc_local.vision.facts.describer import slug_of_alt_text

_TAG = "translations"
PATH = f"{IMAGE}/translations/{{language_code:str}}"
_EXPECTED = (
    "a JSON object with one or more of seo_alt_text (text), seo_filename (text), long_description (text) and decorative"
    " (true)"
)


@patch(PATH, _TAG, EditedTranslationBody, body=TranslationEdit)
async def edit_translation(request: Request[Any, Any, Any]) -> EditedTranslationBody:
    """Edit an alt text, a file name or a long description by hand (local addition)."""
    services, job, text = await _find(request)
    requested = await read_json(request, TranslationEdit, _EXPECTED)
    edit = await asyncio.to_thread(_read_edit, requested, text)
    return _body(await services.translations.edit(job.id, text.language_code, edit), text)


@post(f"{PATH}/undo", _TAG, EditedTranslationBody, raises=[NoSuchVersion])
async def undo_translation(request: Request[Any, Any, Any]) -> EditedTranslationBody:
    """Restore the version before a change (local addition)."""
    services, job, text = await _find(request)
    return _body(await services.translations.undo(job.id, text.language_code), text)


@post(f"{PATH}/redo", _TAG, EditedTranslationBody, raises=[NoSuchVersion])
async def redo_translation(request: Request[Any, Any, Any]) -> EditedTranslationBody:
    """Repeat a change that was undone (local addition)."""
    services, job, text = await _find(request)
    return _body(await services.translations.redo(job.id, text.language_code), text)


_REGENERATION_ERRORS = [InsufficientCredits, OriginalRemoved]


@post(f"{PATH}/regenerate", _TAG, EditedTranslationBody, status=202, headers=[PREFER], raises=_REGENERATION_ERRORS)
async def regenerate_translation(request: Request[Any, Any, Any]) -> Response[EditedTranslationBody]:
    """Have one text written anew (local addition).

    It costs as much as analyze for one language. The credits are given back if it fails.
    """
    wait_s = read_wait_s(request.headers)
    services, job, text = await _find(request)
    is_local = authenticated_key(request).for_page
    job = await services.engine.regenerate(job, text.language_code, is_local=is_local, timeout_s=wait_s or 0)
    return Response(_body(job, text), status_code=202, headers=preference_applied(wait_s))


async def _find(request: Request[Any, Any, Any]) -> tuple[Services, Job, Translation]:
    """The services, the job of the image, and its text in the language. Raises: NotFound."""
    services, job = await job_of_image(request)
    code = request.path_params["language_code"]
    for text in job.translations:
        if text.language_code == code.lower():
            return services, job, text
    written = ", ".join(text.language_code for text in job.translations) or "none"
    raise NotFound(f"This image has no text in {code[:40]!r}; it has texts in: {written}.")


def _read_edit(requested: TranslationEdit, current: Translation) -> Edit:
    """The words as they are stored. Raises: InvalidRequest."""
    errors: dict[str, list[str]] = {}
    alt_text = _read_text(requested, current, "seo_alt_text", MAX_ALT_CHARS, errors)
    long_description = _read_text(requested, current, "long_description", MAX_LONG_CHARS, errors)
    slug = new_slug = None
    if requested.decorative is True:
        if alt_text:
            errors["decorative"] = ["decorative can't be true beside words in seo_alt_text."]
        alt_text = ""
    elif alt_text == "":
        errors["seo_alt_text"] = [f"{alt_text_error('')} For a decorative picture, send decorative: true."]
    elif alt_text:
        new_slug = slug_of_alt_text(alt_text, current.language_code)
    if requested.seo_filename is not UNSET:
        slug = requested.seo_filename
        if slug != current.seo_filename:  # a stored name with its number may have one word more than a slug
            slug = make_slug(_without_extension(slug), current.language_code)
        if not slug:
            received = repr(requested.seo_filename[:40])
            errors["seo_filename"] = [
                f"seo_filename must have words that can be written in Latin letters; received {received}."
            ]
    edit = Edit(alt_text, slug, long_description, new_slug)
    if edit == Edit():
        errors["body"] = [f"Expected {_EXPECTED}; received none."]
    if errors:
        raise InvalidRequest(errors)
    return edit


def _read_text(
    requested: TranslationEdit,
    current: Translation,
    field: Literal["seo_alt_text", "long_description"],
    max_chars: int,
    errors: dict[str, list[str]],
) -> str | None:
    """The text of a field as it is stored, "" included; None if it was not sent. A problem is added to `errors`."""
    received = getattr(requested, field)
    if received is UNSET:
        return None
    text = normalized_alt_text(received)
    # a text from the picture's metadata may break the rules for edits; sending it unchanged accepts it
    if text and received != getattr(current, field) and (error := alt_text_error(text, field, max_chars)):
        errors[field] = [error]
    return text


def _without_extension(name: str) -> str:
    """`name` without the extension of a picture format, because a `seo_filename` has no extension."""
    from imgproc_local.codecs.picture.formats import FORMATS

    stem, dot, extension = name.rpartition(".")
    is_known = any(extension.strip().lower() in row.extensions for row in FORMATS.values())
    return stem if dot and stem.strip() and is_known else name


def _body(job: Job, before: Translation) -> EditedTranslationBody:
    """The text that replaced `before`."""
    code = before.language_code
    return edited_translation_body(
        next(text for text in job.translations if text.language_code == code), job.text_states[code]
    )


HANDLERS = [edit_translation, undo_translation, redo_translation, regenerate_translation]
