"""Editing the texts of a picture: a person's words, undo and redo, and writing one text anew."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Request, Response
from litestar.params import FromPath
from msgspec import UNSET

from imgproc_local.api.auth import authenticated_key
from imgproc_local.api.bodies import EditedTranslationBody, TranslationEdit
from imgproc_local.api.operations import PREFER, PREFERENCE_APPLIED, Described, patch, post
from imgproc_local.api.requests import preference_applied, read_json, read_wait_s
from imgproc_local.api.wire import edited_translation_body
from imgproc_local.compose import Services
from imgproc_local.domain.alt_text import alt_text_error, normalized_alt_text
from imgproc_local.domain.errors import InvalidRequest, NotFound
from imgproc_local.domain.job import Job
from imgproc_local.domain.result import Translation
from imgproc_local.domain.slug import make_slug

PATH = "/images/{image_id:str}/translations/{language_code:str}"
NO_TEXT = "no such image in this account, or it has no text in this language (yet)"
CHANGED: dict[int, Described] = {200: (EditedTranslationBody, "the text as it is now"), 404: NO_TEXT}
NO_VERSION: dict[int, Described] = {409: "there is no such version; nothing was changed"}
EXPECTED = "a JSON object with seo_alt_text (text), seo_filename (text), or both"


@patch(
    PATH,
    "translations",
    "Edit an alt text or file name by hand (local addition)",
    CHANGED
    | {
        408: "the body was not received in time",
        413: "the body has more than 16 KiB",
        422: "a field is invalid, or none was sent",
    },
    body=TranslationEdit,
)
async def edit_translation(
    request: Request[Any, Any, Any], image_id: FromPath[str], language_code: FromPath[str]
) -> EditedTranslationBody:
    services: Services = request.app.state.services
    job, text = await _job_and_text(request, image_id, language_code)
    requested = await read_json(request, TranslationEdit, EXPECTED)
    alt_text, slug = await asyncio.to_thread(_read_edit, requested, text)
    edited = await services.engine.texts.edit(job.id, text.language_code, alt_text=alt_text, slug=slug)
    return _body(edited, text.language_code)


@post(f"{PATH}/undo", "translations", "Restore the version before a change (local addition)", CHANGED | NO_VERSION)
async def undo_translation(
    request: Request[Any, Any, Any], image_id: FromPath[str], language_code: FromPath[str]
) -> EditedTranslationBody:
    services: Services = request.app.state.services
    job, text = await _job_and_text(request, image_id, language_code)
    return _body(await services.engine.texts.undo(job.id, text.language_code), text.language_code)


@post(f"{PATH}/redo", "translations", "Repeat a change that was undone (local addition)", CHANGED | NO_VERSION)
async def redo_translation(
    request: Request[Any, Any, Any], image_id: FromPath[str], language_code: FromPath[str]
) -> EditedTranslationBody:
    services: Services = request.app.state.services
    job, text = await _job_and_text(request, image_id, language_code)
    return _body(await services.engine.texts.redo(job.id, text.language_code), text.language_code)


@post(
    f"{PATH}/regenerate",
    "translations",
    "Have one text written anew (local addition)",
    {
        202: (EditedTranslationBody, "the text as it is now", PREFERENCE_APPLIED),
        402: "the balance does not cover it",
        404: NO_TEXT,
        409: "the uploaded picture was removed because of its age",
    },
    PREFER,
    description="It costs as much as analyze for one language. The credits are given back if it fails.",
)
async def regenerate_translation(
    request: Request[Any, Any, Any], image_id: FromPath[str], language_code: FromPath[str]
) -> Response[EditedTranslationBody]:
    services: Services = request.app.state.services
    wait_s = read_wait_s(request.headers)
    job, text = await _job_and_text(request, image_id, language_code)
    job = await services.engine.texts.regenerate(job.id, text.language_code, timeout_s=wait_s or 0)
    return Response(_body(job, text.language_code), status_code=202, headers=preference_applied(wait_s))


async def _job_and_text(request: Request[Any, Any, Any], image_id: str, language_code: str) -> tuple[Job, Translation]:
    """The job of the image, and its text in the language. Raises: NotFound."""
    services: Services = request.app.state.services
    job = await services.jobs.by_image(image_id.lower(), authenticated_key(request).account_id)
    for text in job.translations:
        if text.language_code == language_code.lower():
            return job, text
    written = ", ".join(text.language_code for text in job.translations) or "none"
    raise NotFound(f"This image has no text in {language_code[:40]!r}; it has texts in: {written}.")


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
        errors["body"] = [f"Expected {EXPECTED}; received neither."]
    if errors:
        raise InvalidRequest(errors)
    return alt_text, slug


def _without_extension(name: str) -> str:
    """`name` without the extension of a picture format, because a `seo_filename` has no extension."""
    from imgproc_local.codecs.picture.formats import FORMATS

    stem, dot, extension = name.rpartition(".")
    is_known = any(extension.strip().lower() in row.extensions for row in FORMATS.values())
    return stem if dot and stem.strip() and is_known else name


def _body(job: Job, language_code: str) -> EditedTranslationBody:
    text = next(text for text in job.translations if text.language_code == language_code)
    return edited_translation_body(text, job.text_states[language_code])
