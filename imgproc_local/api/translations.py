"""Editing the texts of a picture: a person's words, undo and redo, and writing one text anew."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from litestar import Request, Response
from msgspec import UNSET
from msgspec.structs import replace

from imgproc_local.api import requests, wire
from imgproc_local.api.errors import results
from imgproc_local.api.images import IMAGE
from imgproc_local.api.openapi import IF_MATCH, PREFER, patch, post, results_content
from imgproc_local.api.requests import caller, read_json
from imgproc_local.domain import errors
from imgproc_local.domain.alt_text import MAX_ALT_CHARS, MAX_LONG_CHARS, alt_text_error, normalized_alt_text
from imgproc_local.domain.filename import make_slug
from imgproc_local.domain.plan import MAX_ITEMS
from imgproc_local.domain.result import NewTexts, StoredText, TextEdit, TextName
from imgproc_local.storage.translations import Outcome
from imgproc_local.vision.facts.describer import slug_of_alt_text

_TAG = "translations"
_TEXT = wire.EditedTranslationBody
_RESTORE = [errors.NoSuchVersion, errors.TextChanged]
PATH = f"{IMAGE}/translations/{{language_code:str}}"
_EXPECTED = "a JSON object with seo_alt_text, seo_filename or long_description (texts), or decorative or accept (true)"


@patch(PATH, _TAG, _TEXT, body=wire.TranslationEdit, headers=[IF_MATCH], raises=[errors.TextChanged])
async def edit_translation(request: Request[Any, Any, Any]) -> Response[wire.EditedTranslationBody]:
    """Edit an alt text, a file name or a long description by hand (local addition)."""
    requested = await read_json(request, wire.TranslationEdit, _EXPECTED)
    return _only(await _edited(request, [_name_in_path(request)], [requested]))


@post(f"{PATH}/undo", _TAG, _TEXT, headers=[IF_MATCH], raises=_RESTORE)
async def undo_translation(request: Request[Any, Any, Any]) -> Response[wire.EditedTranslationBody]:
    """Restore the version before a change (local addition)."""
    return _only(await _restored(request, [_name_in_path(request)], -1))


@post(f"{PATH}/redo", _TAG, _TEXT, headers=[IF_MATCH], raises=_RESTORE)
async def redo_translation(request: Request[Any, Any, Any]) -> Response[wire.EditedTranslationBody]:
    """Repeat a change that was undone (local addition)."""
    return _only(await _restored(request, [_name_in_path(request)], 1))


def _name_in_path(request: Request[Any, Any, Any]) -> TextName:
    path = request.path_params
    return TextName(path["image_id"], path["language_code"], requests.read_version(request.headers))


def _only(
    outcomes: Sequence[Outcome], status: int = 200, headers: Mapping[str, str] = {}
) -> Response[wire.EditedTranslationBody]:
    """The answer for the one text of a request. Raises: its problem."""
    (text,) = outcomes
    if isinstance(text, errors.ServiceError):
        raise text
    body = wire.EditedTranslationBody(wire.as_body(text, wire.EditedTranslation))
    return Response(body, status_code=status, headers={"ETag": f'"{text.version}"', **headers})


# ---- many texts ----

_RESULTS = results_content(wire.ChangedText)
_NAMES = f"a JSON object with texts, 1 to {MAX_ITEMS} objects with image_id and language_code"


@patch("/translations", _TAG, _RESULTS, body=wire.EditItems)
async def edit_translations(request: Request[Any, Any, Any]) -> wire.ResultsBody:
    """Edit or accept many texts at once (local addition)."""
    expected = f"a JSON object with texts, 1 to {MAX_ITEMS} edits with image_id and language_code"
    edits = (await read_json(request, wire.EditItems, expected, requests.MAX_ITEMS_BYTES)).texts
    names = [edit.name for edit in edits]
    return _results(names, await _edited(request, names, edits))


@post("/translations/undo", _TAG, _RESULTS, body=wire.TextNames)
async def undo_translations(request: Request[Any, Any, Any]) -> wire.ResultsBody:
    """Restore the version before a change of many texts (local addition)."""
    names = await _read_names(request)
    return _results(names, await _restored(request, names, -1))


@post("/translations/redo", _TAG, _RESULTS, body=wire.TextNames)
async def redo_translations(request: Request[Any, Any, Any]) -> wire.ResultsBody:
    """Repeat changes of many texts that were undone (local addition)."""
    names = await _read_names(request)
    return _results(names, await _restored(request, names, 1))


async def _read_names(request: Request[Any, Any, Any]) -> list[TextName]:
    return (await read_json(request, wire.TextNames, _NAMES, requests.MAX_ITEMS_BYTES)).texts


def _results(names: Sequence[TextName], outcomes: Sequence[Outcome]) -> wire.ResultsBody:
    """The answer for many texts."""
    return results(names, outcomes, wire.ChangedText)


async def _edited(
    request: Request[Any, Any, Any], names: Sequence[TextName], edits: Sequence[wire.TranslationEdit]
) -> list[Outcome]:
    services, account_id = caller(request)
    texts = await services.translations.read(account_id, names)
    read = await asyncio.to_thread(lambda: list(map(_read_edit, names, edits, texts)))
    return await services.translations.edit(account_id, read)


async def _restored(request: Request[Any, Any, Any], names: Sequence[TextName], step: Literal[-1, 1]) -> list[Outcome]:
    services, account_id = caller(request)
    return await services.translations.restore(account_id, names, step)


# ---- writing anew ----

_REPLACE = requests.words("replace", "replace the text also if a person wrote it", ["true"])
_KEPT = [errors.InsufficientCredits, errors.OriginalRemoved, errors.TextOfPerson, errors.TextChanged]


@post(f"{PATH}/regenerate", _TAG, _TEXT, status=202, query=[_REPLACE], headers=[PREFER, IF_MATCH], raises=_KEPT)
async def regenerate_translation(request: Request[Any, Any, Any]) -> Response[wire.EditedTranslationBody]:
    """Have one text written anew (local addition).

    It costs as much as analyze for one language. The credits are given back if it fails.
    """
    wait_s = requests.read_wait_s(request.headers)
    parameters = requests.read_query(request)
    replaces_person = bool(parameters.read(_REPLACE))
    parameters.require_valid()
    requested = await _requested(request, [_name_in_path(request)], NewTexts(replaces_person))
    if wait_s and isinstance(text := requested[0], StoredText):
        services, account_id = caller(request)
        requested = [await services.engine.rewritten(text, account_id, wait_s)]
    return _only(requested, 202, requests.preference_applied(wait_s))


@post("/translations/regenerate", _TAG, _RESULTS, status=202, body=wire.NewTextNames)
async def regenerate_translations(request: Request[Any, Any, Any]) -> wire.ResultsBody:
    """Have many texts written anew, also in languages that a picture lacks (local addition).

    All texts of a picture are written in one pass.
    """
    expected = f"{_NAMES}, replace (true) and from_language"
    fields = await read_json(request, wire.NewTextNames, expected, requests.MAX_ITEMS_BYTES)
    language = None if fields.from_language is UNSET else fields.from_language
    if problem := requests.language_problem("from_language", language):
        raise errors.InvalidRequest(problem)
    wanted = NewTexts(fields.replace is True, language, adds_languages=True)
    return _results(fields.texts, await _requested(request, fields.texts, wanted))


@post("/translations/cancel", _TAG, _RESULTS, body=wire.TextNames)
async def cancel_translations(request: Request[Any, Any, Any]) -> wire.ResultsBody:
    """Withdraw what waits to be written anew, and give its credits back (local addition)."""
    services, account_id = caller(request)
    names = await _read_names(request)
    return _results(names, await services.translations.cancel(account_id, names))


async def _requested(request: Request[Any, Any, Any], names: Sequence[TextName], wanted: NewTexts) -> list[Outcome]:
    key = requests.authenticated_key(request)
    return await requests.services_of(request).engine.regenerate(key, names, wanted)


# ---- what is sent ----


def _read_edit(name: TextName, requested: wire.TranslationEdit, current: Outcome) -> TextEdit | errors.ServiceError:
    """The words as they are stored, and the file name that follows from the alt text; or why they can't be stored."""
    if isinstance(current, errors.ServiceError):
        return current
    problems: dict[str, list[str]] = {}
    if requested.accept is True:
        if requested.seo_alt_text is not UNSET or requested.decorative is True:
            problems["accept"] = ["accept can't be true beside a new alt text."]
        is_decorative = not current.seo_alt_text and not current.needs_text
        requested = replace(requested, seo_alt_text=current.seo_alt_text, decorative=is_decorative)
        if name.version is None:
            name = replace(name, version=current.version)  # what was not read is not accepted
    texts = _read_texts(requested, current, problems)
    alt_text = texts.get("seo_alt_text")
    if requested.decorative is True:
        if alt_text or texts.get("long_description"):
            problems["decorative"] = ["decorative can't be true beside words in seo_alt_text or long_description."]
        # to accept an empty alt text changes nothing else
        texts |= {"seo_alt_text": ""} if requested.accept is True else {"seo_alt_text": "", "long_description": ""}
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
        return errors.InvalidRequest(problems)
    slug = slug_of_alt_text(alt_text, current.language_code) if alt_text else ""
    return TextEdit(name.image_id, name.language_code, name.version, texts, slug)


def _read_texts(requested: wire.TranslationEdit, current: StoredText, problems: dict[str, list[str]]) -> dict[str, str]:
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


_OF_ONE_TEXT = [edit_translation, undo_translation, redo_translation, regenerate_translation]
_OF_TEXTS = [edit_translations, regenerate_translations, cancel_translations, undo_translations, redo_translations]
HANDLERS = [*_OF_ONE_TEXT, *_OF_TEXTS]
