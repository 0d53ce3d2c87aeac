"""The examples in the documents are what the service answers. `python -m tests.contract.examples` makes them again."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import msgspec
import pytest

from imgproc_local.api import app, reference
from tests.contract.examples import DATA, MARKED, PAGE, PLUGINS, encoded, make, page
from tests.support.service import Running

DOCUMENT = json.loads(app.document())
STRUCTS = {
    (handler.handler_name, status): content["application/json"]["schema"]
    for handler in app.HANDLERS
    for status, response in handler.opt["operation"]["responses"].items()
    if "application/json" in (content := response.get("content", {}))
}
"""The bodies of operations by status, as the code has them."""
AGAIN = "the service answers otherwise: run `python -m tests.contract.examples`, and read what it has changed"


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, Any]]:
    examples: list[dict[str, Any]] = json.loads(DATA.read_text(encoding="utf-8"))
    return examples


def test_the_service_answers_as_the_documents_say() -> None:
    made = make()
    assert encoded(made) == DATA.read_text(encoding="utf-8"), AGAIN
    for document in (PAGE, PLUGINS):
        written = document.read_text(encoding="utf-8")
        assert page(written, made) == written, AGAIN


def test_every_endpoint_and_every_example_is_on_the_page(recorded: list[dict[str, Any]]) -> None:
    names = [name for block in MARKED.findall(PAGE.read_text(encoding="utf-8")) for name in block[1].split()]
    assert sorted(names) == sorted(example["name"] for example in recorded)
    answered = {example["operation"] for example in recorded if example["status"] < 300}
    operations = {
        part["operationId"] for item in DOCUMENT["paths"].values() for part in item.values() if "tags" in part
    }
    assert operations - answered == {"docs"}


def test_an_example_has_the_fields_of_its_body_and_no_others(recorded: list[dict[str, Any]]) -> None:
    checked = 0
    for example in recorded:
        body = STRUCTS.get((example["operation"], str(example["status"])))
        if isinstance(body, type) and isinstance(example["body"], dict):
            converted = msgspec.json.encode(msgspec.convert(example["body"], body))
            assert json.loads(converted) == example["body"], example["name"]
            checked += 1
    assert checked > 20


def test_the_openapi_document_has_the_examples_of_bodies_unless_other_status_words_are_set(
    recorded: list[dict[str, Any]],
) -> None:
    shown = set(re.findall(r'"(\w+)":\{"summary":"[^"]+","value":', app.document().decode()))
    without = {example["name"] for example in recorded if not example["operation"] or example["body"] is None}
    assert shown == {example["name"] for example in recorded} - (without - {"export"})
    assert '"examples":{' not in app.document("B").decode()


def test_the_reference_is_one_page_that_loads_and_stores_nothing_and_is_made_once(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = httpx.get(f"{service.root}/docs")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'; script-src 'sha256-")
    assert "connect-src" not in policy
    assert "unsafe-eval" not in policy
    assert "A job that is completed" in answer.text
    monkeypatch.setattr(reference, "FOLDER", None)
    assert httpx.head(f"{service.root}/docs").headers["content-length"] == answer.headers["content-length"]
