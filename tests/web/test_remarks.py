"""Remarks on an alt text while a person writes it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

LONG = (
    "Two red boats lie at the quay in the harbour of Bremen, while a crane lifts a blue container onto a ship that is"
    " painted green and white."
)


@pytest.mark.parametrize(
    ("language", "text", "remarks"),
    [
        ("en", "Two red boats in the harbour of Bremen.", []),
        ("de", "Ein Bild von einem Hund.", ['It begins with "ein bild von".']),
        ("de", "A red bridge over the river at noon.", ["It is not in German."]),
        ("en", "A <b>boat</b> in the harbour.", ["seo_alt_text must be plain text"]),
        ("en", "", ["It is empty"]),
        ("en", "Boats in the harbour. " * 12, ["It has 263 characters; at most 250"]),
        ("en", LONG, [f"It has {len(LONG)} characters; texts of up to 125"]),
    ],
)
def test_remarks_are_made_while_a_text_is_written(
    page: httpx.Client, language: str, text: str, remarks: list[str]
) -> None:
    answer = page.post("/local/remarks", json={"language_code": language, "seo_alt_text": text})
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json()["data"]
    assert len(data["remarks"]) == len(remarks)
    for received, expected in zip(data["remarks"], remarks, strict=False):
        assert received.startswith(expected), data
    assert (data["chars"], data["max_chars"], data["usual_chars"]) == (len(text.strip()), 250, 125)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"language_code": "xx", "seo_alt_text": "A boat."}, "language_code"),
        ({"seo_alt_text": "A boat."}, "body"),
        ({"language_code": "en", "seo_alt_text": None}, "body"),
    ],
)
def test_an_invalid_body_is_refused(page: httpx.Client, body: dict[str, Any], field: str) -> None:
    answer = page.post("/local/remarks", json=body)
    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == [field]


def test_a_body_that_is_not_utf8_is_refused(page: httpx.Client) -> None:
    answer = page.post("/local/remarks", content=b'{"language_code": "en", "seo_alt_text": "\xff"}')
    assert answer.status_code == 422, answer.text
    assert list(answer.json()["errors"]) == ["body"]
