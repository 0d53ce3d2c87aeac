"""Editing the texts of a picture: a person's words, undo and redo, and writing one text anew."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from litestar import Request, Response
from msgspec import UNSET

from imgproc_local.api.images import IMAGE, job_of_image
from imgproc_local.api.openapi import PREFER, patch, post
from imgproc_local.api.requests import authenticated_key, preference_applied, read_json, read_query, read_wait_s, words
from imgproc_local.api.wire import EditedTranslationBody, TranslationEdit, edited_translation_body
from imgproc_local.compose import Services
from imgproc_local.domain import errors
from imgproc_local.domain.alt_text import MAX_ALT_CHARS, MAX_LONG_CHARS, alt_text_error, normalized_alt_text
from imgproc_local.domain.filename import make_slug
from imgproc_local.domain.job import Job
from imgproc_local.domain.result import Translation
from imgproc_local.vision.facts.describer import slug_of_alt_text

_TAG = "translations"
PATH = f"{IMAGE}/translations/{{language_code:str}}"
_EXPECTED = "a JSON object with seo_alt_text, seo_filename or long_description (texts), or decorative (true)"


@patch(PATH, _TAG, EditedTranslationBody, body=TranslationEdit)
async def edit_translation(request: Request[Any, Any, Any]) -> EditedTranslationBody:
    """Edit an alt text, a file name or a long description by hand (local addition)."""
    services, job, text = await _find(request)
    requested = await read_json(request, TranslationEdit, _EXPECTED)
    edit, new_slug = await asyncio.to_thread(_read_edit, requested, text)
    job = await services.translations.edit(job.id, text.language_code, edit, new_slug)
    return edited_translation_body(job, text.language_code)


@post(f"{PATH}/undo", _TAG, EditedTranslationBody, raises=[errors.NoSuchVersion])
async def undo_translation(request: Request[Any, Any, Any]) -> EditedTranslationBody:
    """Restore the version before a change (local addition)."""
    return await _restore(request, -1)


@post(f"{PATH}/redo", _TAG, EditedTranslationBody, raises=[errors.NoSuchVersion])
async def redo_translation(request: Request[Any, Any, Any]) -> EditedTranslationBody:
    """Repeat a change that was undone (local addition)."""
    return await _restore(request, 1)


async def _restore(request: Request[Any, Any, Any], step: Literal[-1, 1]) -> EditedTranslationBody:
    services, job, text = await _find(request)
    job = await services.translations.restore(job.id, text.language_code, step)
    return edited_translation_body(job, text.language_code)


_REPLACE = words("replace", "replace the text also if a person wrote it", ["true"])
_KEPT = [errors.InsufficientCredits, errors.OriginalRemoved, errors.TextOfPerson]


@post(f"{PATH}/regenerate", _TAG, EditedTranslationBody, status=202, query=[_REPLACE], headers=[PREFER], raises=_KEPT)
async def regenerate_translation(request: Request[Any, Any, Any]) -> Response[EditedTranslationBody]:
    """Have one text written anew (local addition).

    It costs as much as analyze for one language. The credits are given back if it fails.
    """
    wait_s = read_wait_s(request.headers)
    parameters = read_query(request)
    replaces_person = bool(parameters.read(_REPLACE))
    parameters.require_valid()
    services, job, text = await _find(request)
    is_local, timeout_s = authenticated_key(request).for_page, wait_s or 0
    job = await services.engine.regenerate(
        job, text.language_code, replaces_person=replaces_person, is_local=is_local, timeout_s=timeout_s
    )
    body = edited_translation_body(job, text.language_code)
    return Response(body, status_code=202, headers=preference_applied(wait_s))


async def _find(request: Request[Any, Any, Any]) -> tuple[Services, Job, Translation]:
    """The services, the job of the image, and its text in the language. Raises: NotFound."""
    services, job = await job_of_image(request)
    code = request.path_params["language_code"]
    for text in job.translations:
        if text.language_code == code.lower():
            return services, job, text
    written = ", ".join(text.language_code for text in job.translations) or "none"
    raise errors.NotFound(f"This image has no text in {code[:40]!r}; it has texts in: {written}.")


def _read_edit(requested: TranslationEdit, current: Translation) -> tuple[dict[str, str], str]:
    """The words as they are stored, and the file name that follows from the alt text, if any.

    Raises: InvalidRequest.
    """
    problems: dict[str, list[str]] = {}
    texts = _read_texts(requested, current, problems)
    alt_text = texts.get("seo_alt_text")
    if requested.decorative is True:
        if alt_text or texts.get("long_description"):
            problems["decorative"] = ["decorative can't be true beside words in seo_alt_text or long_description."]
        texts |= {"seo_alt_text": "", "long_description": ""}
    elif alt_text == "":
        problems["seo_alt_text"] = [f"{alt_text_error('')} For a decorative picture, send decorative: true."]
    if requested.seo_filename is not UNSET:
        slug = requested.seo_filename
        if slug != current.seo_filename:  # a stored name with its number may have one word more than a slug
            slug = make_slug(_without_extension(slug), current.language_code)
        if not slug:
            received = repr(requested.seo_filename[:40])
            problems["seo_filename"] = [
                f"seo_filename must have words that can be written in Latin letters; received {received}."
            ]
        texts["seo_filename"] = slug
    if not texts:
        problems["body"] = [f"Expected {_EXPECTED}; received none."]
    if problems:
        raise errors.InvalidRequest(problems)
    return texts, slug_of_alt_text(alt_text, current.language_code) if alt_text else ""


def _read_texts(requested: TranslationEdit, current: Translation, problems: dict[str, list[str]]) -> dict[str, str]:
    """The alt text and the long description as they are stored, if they were sent. Adds to `problems`."""
    texts = {}
    for field, max_chars in (("seo_alt_text", MAX_ALT_CHARS), ("long_description", MAX_LONG_CHARS)):
        received = getattr(requested, field)
        if received is not UNSET:
            texts[field] = text = normalized_alt_text(received)
            # a text from the picture's metadata may break the rules for edits; sending it unchanged accepts it
            if text and received != getattr(current, field) and (error := alt_text_error(text, field, max_chars)):
                problems[field] = [error]
    return texts


def _without_extension(name: str) -> str:
    """`name` without the extension of a picture format, because a `seo_filename` has no extension."""
    from imgproc_local.codecs.picture.formats import FORMATS

    stem, dot, extension = name.rpartition(".")
    is_known = any(extension.strip().lower() in row.extensions for row in FORMATS.values())
    return stem if dot and stem.strip() and is_known else name


HANDLERS = [edit_translation, undo_translation, redo_translation, regenerate_translation]
