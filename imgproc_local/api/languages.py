"""The list of languages, which needs no key."""

from __future__ import annotations

from imgproc_local.api.bodies import LanguagesBody
from imgproc_local.api.requests import get
from imgproc_local.api.wire import language_body
from imgproc_local.domain.languages import LANGUAGES


@get("/languages")
async def languages() -> LanguagesBody:
    return LanguagesBody([language_body(language) for language in LANGUAGES.values()])
