"""The page's endpoint for remarks on an alt text while it is written."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Request, post
from msgspec import Struct

from imgproc_local.api.json_body import read_json
from imgproc_local.domain.alt_text import MAX_ALT_CHARS, PREFERRED_ALT_CHARS, alt_text_error, normalized_alt_text
from imgproc_local.domain.errors import InvalidRequest
from imgproc_local.domain.languages import LANGUAGES

EXPECTED = "a JSON object with language_code (text) and seo_alt_text (text)"


class Draft(Struct, frozen=True, forbid_unknown_fields=True):
    language_code: str
    seo_alt_text: str


class Remarks(Struct, frozen=True):
    """`remarks` are sentences in English; only one, if the text can't be stored. `chars` is the length of the text as
    it would be stored, which can be at most `max_chars` and should be at most `usual_chars`.
    """

    remarks: list[str]
    chars: int
    max_chars: int = MAX_ALT_CHARS
    usual_chars: int = PREFERRED_ALT_CHARS


class RemarksBody(Struct, frozen=True):
    data: Remarks


@post("/local/remarks", status_code=200)
async def remarks(request: Request[Any, Any, Any]) -> RemarksBody:
    draft = await read_json(request, Draft, EXPECTED)
    if draft.language_code not in LANGUAGES:
        received = repr(draft.language_code[:40])
        raise InvalidRequest(
            {"language_code": [f"language_code must be a code that GET /languages lists; received {received}."]}
        )
    text = normalized_alt_text(draft.seo_alt_text)
    return RemarksBody(Remarks(await asyncio.to_thread(_remarks, text, draft.language_code), len(text)))


def _remarks(text: str, language_code: str) -> list[str]:
    from imgproc_local.vision.llm.editing_remarks import remarks_on

    # for an empty or too long text, `remarks_on` has a remark of its own
    error = alt_text_error(text) if 0 < len(text) <= MAX_ALT_CHARS else None
    return [error] if error else remarks_on(text, language_code)


HANDLERS = [remarks]
