"""The published OpenAPI document describes what the service accepts and answers, in a form that generators of clients
can read. `tests.ordeals.generated_clients` runs three, and `tests.ordeals.openapi` is a long run of Schemathesis.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from imgproc_local.api import app
from tests.ordeals import openapi as schemathesis
from tests.support import pictures
from tests.support.service import Running, running

DOCUMENT = json.loads(app.document())
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = [
    operation for methods in DOCUMENT["paths"].values() for name, operation in methods.items() if name != "servers"
]
BINARY = {"application/octet-stream", "application/zip", "image/*", "image/webp"}
SET_A = ["pending", "analyzing", "optimizing", "converting", "completed", "failed"]
SET_B = ["pending", "processing", "done", "failed"]


def document(service: Running) -> dict[str, Any]:
    published: dict[str, Any] = httpx.get(f"{service.url}/openapi.json").json()
    return published


def enums_of_statuses(published: dict[str, Any]) -> list[list[str]]:
    schemas = published["components"]["schemas"]
    parameters = published["paths"]["/jobs"]["get"]["parameters"]
    return [
        *(schemas[name]["properties"]["status"]["enum"] for name in ("Dispatch", "JobData", "ImageBody")),
        next(parameter for parameter in parameters if parameter["name"] == "status")["schema"]["enum"],
    ]


def test_a_status_is_one_of_the_words_of_the_set_in_force(service: Running, tmp_path: Path) -> None:
    assert enums_of_statuses(document(service)) == [SET_A] * 4
    with running(tmp_path, status_set="B") as other:
        assert enums_of_statuses(document(other)) == [SET_B] * 4


def test_options_lists_every_documented_method(service: Running) -> None:
    for path, operations in document(service)["paths"].items():
        root = service.root if "servers" in operations else service.url
        answer = httpx.options(root + re.sub(r"\{\w+\}", "01arz3ndektsv4rrffq69g5fav", path))
        allowed = set(answer.headers["allow"].split(", "))
        methods = {method.upper() for method in operations if method != "servers"}
        assert allowed == methods | {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set()), path


# ---- traits that generators need ----


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in the document."""
    if isinstance(value, dict):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(part)


def test_generators_find_types_names_groups_and_binary_files() -> None:
    lists = [part for part in parts(DOCUMENT) if isinstance(part.get("enum"), list)]
    assert {part.get("type") for part in lists} == {"string"}
    assert len({operation["operationId"] for operation in OPERATIONS}) == len(OPERATIONS)
    groups = [group["name"] for group in DOCUMENT["tags"]]
    assert {tuple(operation["tags"]) for operation in OPERATIONS} == {(group,) for group in groups}
    contents = [part["content"] for part in parts(OPERATIONS) if BINARY & set(part.get("content", ()))]
    assert len(contents) == 5
    for content in contents:
        assert next(iter(content)) == "application/octet-stream"
        assert {content[media_type]["schema"]["format"] for media_type in BINARY & set(content)} == {"binary"}
    for operation in OPERATIONS:
        if operation.get("security") != []:
            assert {"401", "429", "500", "503"} < set(operation["responses"]), operation["operationId"]


def test_the_form_of_an_upload_requires_only_the_image() -> None:
    for operation in ("analyze", "optimize", "convert", "process"):
        upload = DOCUMENT["paths"][f"/images/{operation}"]["post"]
        reference = upload["requestBody"]["content"]["multipart/form-data"]["schema"]["$ref"]
        form = SCHEMAS[reference.rpartition("/")[2]]
        assert form["required"] == ["image"]
        assert {"image", "project_id", "project_name"} < set(form["properties"])


def test_the_fields_of_a_request_have_no_default_that_a_generator_would_require_or_send() -> None:
    bodies = [operation["requestBody"]["content"] for operation in OPERATIONS if "requestBody" in operation]
    names = {content["schema"]["$ref"].rpartition("/")[2] for body in bodies for content in body.values()}
    assert len(names) >= 6
    assert [name for name in names if any("default" in part for part in parts(SCHEMAS[name]))] == []
    assert "default" not in SCHEMAS["TextName"]["properties"]["version"]


def test_an_idempotency_key_has_the_characters_that_are_published(service: Running) -> None:
    parameters = DOCUMENT["paths"]["/images/optimize"]["post"]["parameters"]
    schema = next(each for each in parameters if each["name"] == "Idempotency-Key")["schema"]
    for character in map(chr, (0x20, 0x7E, 0x80, 0x9F, 0xA0, 0xA1, 0xAC, 0xAD, 0xAE, 0xFC, 0xFF)):
        key = f"a{character}b"
        headers, files = {"Idempotency-Key": key.encode("latin-1")}, {"image": ("a.jpg", pictures.jpeg())}
        answer = service.client.post("/images/optimize", headers=headers, files=files)
        assert answer.status_code == (202 if re.fullmatch(schema["pattern"], key) else 422), ascii(character)


@pytest.mark.skipif(shutil.which("schemathesis") is None, reason="schemathesis is not on PATH")
def test_generated_requests_are_answered_as_published(tmp_path: Path) -> None:
    program = shutil.which("schemathesis")
    assert program is not None
    assert schemathesis.run(tmp_path, program, min_cases=1, seed=1) == 0
