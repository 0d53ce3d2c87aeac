"""The tables of the published interface, against a service behind a real socket."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from tests.support import pictures
from tests.support.service import Running

ULID = re.compile(r"[0-9a-hjkmnp-tv-z]{26}")
UNKNOWN = "01arz3ndektsv4rrffq69g5fav"

IMAGE_FIELDS = {
    *("id", "status", "original_filename", "original_size", "optimized_size", "converted_format", "converted_size"),
    *("compression_percentage", "translations", "suggested_role", "suggested_role_reason"),
}
TRANSLATION_FIELDS = {
    *("language_code", "seo_filename", "seo_alt_text"),
    *("source", "needs_text", "needs_text_reason"),
}
RESULTS = {
    "analyze": {"translations"},
    "optimize": {"optimized_size", "compression_percentage"},
    "convert": {"converted_format", "converted_size"},
    "process": {
        *("optimized_size", "converted_format", "converted_size", "compression_percentage", "translations"),
    },
}
KEYED = [
    *(("POST", f"/images/{operation}") for operation in RESULTS),
    ("GET", "/credits/afford?images=1"),
    ("GET", "/credits/balance"),
    ("GET", f"/jobs/{UNKNOWN}"),
    ("GET", f"/images/{UNKNOWN}/optimized"),
]


def data(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"data"}
    return answer.json()["data"]


def test_languages_are_public_and_have_three_fields_each(service: Running) -> None:
    for language in data(httpx.get(f"{service.root}/api/v1/languages")):
        assert set(language) == {"code", "name", "native_name"}
        assert re.fullmatch(r"[a-z]{2}", language["code"])
        assert language["name"]
        assert language["native_name"]
    assert httpx.get(f"{service.root}/languages").status_code == 404, "the version is part of the path"


def test_every_operation_is_dispatched_polled_and_has_its_results(service: Running) -> None:
    messages = set()
    picture = pictures.jpeg()
    for operation, results in RESULTS.items():
        answer = service.client.post(f"/images/{operation}", files={"image": ("Meer.jpg", picture)})
        dispatched = data(answer, 202)
        assert set(dispatched) == {"job_id", "status", "message"}
        assert dispatched["status"] == "pending"
        assert f"GET /api/v1/jobs/{dispatched['job_id']}" in dispatched["message"]
        messages.add(dispatched["message"].replace(dispatched["job_id"], ""))

        job = service.final(dispatched["job_id"])
        assert set(job) == {"job_id", "status", "image"}
        image = job["image"]
        assert (job["status"], image["status"]) == ("completed", "completed")
        assert set(image) == IMAGE_FIELDS
        assert ULID.fullmatch(job["job_id"])
        assert ULID.fullmatch(image["id"])
        assert image["id"] != job["job_id"]
        assert (image["original_filename"], image["original_size"]) == ("Meer.jpg", len(picture))
        if image["optimized_size"] is not None:
            saved = round(100 * (1 - image["optimized_size"] / image["original_size"]))
            assert image["compression_percentage"] == max(0, saved)
        assert {name for name in RESULTS["process"] if image[name] not in (None, [])} == results

        assert service.job(job["job_id"].upper()) == job, "identifiers are looked up in either case"
        for variant, size in (("optimized", image["optimized_size"]), ("converted", image["converted_size"])):
            download = service.client.get(f"/images/{image['id'].upper()}/{variant}")
            assert download.status_code == (404 if size is None else 200)
            assert len(download.content) == size or set(download.json()) == {"error"}
    assert len(messages) == len(RESULTS)


def test_a_translation_has_its_fields_and_its_language_is_english_by_default(service: Running) -> None:
    (translation,) = service.process("analyze", pictures.jpeg())["image"]["translations"]
    assert set(translation) == TRANSLATION_FIELDS
    assert translation["language_code"] == "en"
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", translation["seo_filename"])
    assert translation["seo_alt_text"]


def test_the_balance_and_what_is_affordable(service: Running) -> None:
    balance = data(service.client.get("/credits/balance"))["balance"]
    assert isinstance(balance, int)
    expected = {"can_afford": True, "required": 30, "balance": balance, "shortfall": 0}
    assert data(service.client.get("/credits/afford", params={"images": 10})) == expected
    query = {"images": 100, "languages": 10, "format": "avif"}
    assert data(service.client.get("/credits/afford", params=query))["required"] == 1200
    assert list(service.client.get("/credits/afford").json()["errors"]) == ["images"]


@pytest.mark.parametrize(("method", "path"), KEYED)
def test_every_endpoint_but_languages_requires_a_key(service: Running, method: str, path: str) -> None:
    assert httpx.request(method, service.url + path).status_code == 401
