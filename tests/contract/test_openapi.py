"""The published OpenAPI document describes what the service accepts and answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx

from tests.support import pictures
from tests.support.service import Running, running

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


def test_the_event_stream_has_its_media_type(service: Running) -> None:
    answer = document(service)["paths"]["/jobs/{id}/events"]["get"]["responses"]["200"]
    job = service.process("optimize", pictures.jpeg())
    stream = service.client.get(f"/jobs/{job['job_id']}/events")
    assert stream.headers["content-type"].partition(";")[0] in answer["content"]
    assert stream.text.startswith("event: status\ndata: {")
