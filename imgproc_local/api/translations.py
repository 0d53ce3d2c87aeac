"""Editing the texts of a picture: a person's words, undo and redo, and writing one text anew."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Request, Response
from msgspec import UNSET

from imgproc_local.api.images import IMAGE, job_of_image
from imgproc_local.api.openapi import PREFER, patch, post
from imgproc_local.api.requests import authenticated_key, preference_applied, read_json, read_wait_s
from imgproc_local.api.wire import EditedTranslationBody, TranslationEdit, edited_translation_body
from imgproc_local.compose import Services
from imgproc_local.domain.alt_text import alt_text_error, normalized_alt_text
from imgproc_local.domain.errors import InsufficientCredits, InvalidRequest, NoSuchVersion, NotFound, OriginalRemoved
from imgproc_local.domain.filename import make_slug
from imgproc_local.domain.job import Job
from imgproc_local.domain.result import Translation

_TAG = "translations"
PATH = f"{IMAGE}/translations/{{language_code:str}}"
_EXPECTED = "a JSON object with seo_alt_text (text), seo_filename (text), or both"


@patch(PATH, _TAG, EditedTranslationBody, body=TranslationEdit)
async def edit_translation(request: Request[Any, Any, Any]) -> EditedTranslationBody:
    """Edit an alt text or file name by hand (local addition)."""
    services, job, text = await _find(request)
    requested = await read_json(request, TranslationEdit, _EXPECTED)
    alt_text, slug = await asyncio.to_thread(_read_edit, requested, text)
    return _body(await services.translations.edit(job.id, text.language_code, alt_text=alt_text, slug=slug), text)


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


def _read_edit(requested: TranslationEdit, current: Translation) -> tuple[str | None, str | None]:
    """The alt text and the file name as they are stored; None for what was not sent. Raises: InvalidRequest."""
    alt_text = slug = None
    errors: dict[str, list[str]] = {}
    if requested.seo_alt_text is not UNSET:
        alt_text = normalized_alt_text(requested.seo_alt_text)
        # a text from the picture's metadata may break the rules for edits; sending it unchanged accepts it
        is_accepted = bool(alt_text) and requested.seo_alt_text == current.seo_alt_text
        if not is_accepted and (error := alt_text_error(alt_text)):
            errors["seo_alt_text"] = [error]
    if requested.seo_filename is not UNSET:
        slug = requested.seo_filename
        if slug != current.seo_filename:  # a stored name with its number may have one word more than a slug
            slug = make_slug(_without_extension(slug), current.language_code)
        if not slug:
            received = repr(requested.seo_filename[:40])
            errors["seo_filename"] = [
                f"seo_filename must have words that can be written in Latin letters; received {received}."
            ]
    if alt_text is None and slug is None:
        errors["body"] = [f"Expected {_EXPECTED}; received neither."]
    if errors:
        raise InvalidRequest(errors)
    return alt_text, slug


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
