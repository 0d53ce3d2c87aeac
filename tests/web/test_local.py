"""The endpoints of the local page: creating, listing and revoking keys, and the overview."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from imgproc_local.api import requests
from imgproc_local.config import Config
from imgproc_local.domain.image import CONVERT_TARGETS, Format
from imgproc_local.vision.llm.listing import ModelList
from imgproc_local.vision.models.store import ModelStore
from tests.support import pictures
from tests.support.installed import install
from tests.support.service import Running


def works(service: Running, key: str) -> bool:
    return httpx.get(f"{service.url}/credits/balance", headers={"X-API-Key": key}).status_code == 200


def create(page: httpx.Client, **body: Any) -> dict[str, Any]:
    answer = page.post("/local/keys", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()["data"]
    return made


def listed(page: httpx.Client) -> dict[str, dict[str, Any]]:
    answer = page.get("/local/keys")
    assert answer.headers["cache-control"] == "no-store"
    return {key["id"]: key for key in answer.json()["data"]}


def test_a_new_key_works_at_once_is_shown_once_and_refused_when_revoked(service: Running, page: httpx.Client) -> None:
    made = create(page, name="  Shop „Äöü“ ", rate_limit=7)
    answer = httpx.get(f"{service.url}/credits/balance", headers={"Authorization": f"Bearer {made['key']}"})
    assert answer.status_code == 200
    assert answer.headers["x-ratelimit-limit"] == "7"
    entry = listed(page)[made["id"]]
    assert entry == {
        "id": made["id"],
        "name": "Shop „Äöü“",
        "account": "default",
        "rate_limit": 7,
        "created_at": made["created_at"],
        "revoked_at": None,
    }
    assert made["key"] not in page.get("/local/keys").text
    assert page.delete(f"/local/keys/{made['id'].upper()}").status_code == 204
    assert not works(service, made["key"])
    assert listed(page)[made["id"]]["revoked_at"] is not None
    again = page.delete(f"/local/keys/{made['id']}")
    assert (again.status_code, "message" in again.json()) == (404, True)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        *((body, "body") for body in (b"", b"name=x", b"[]", b"{}", b'{"name": 5}', b'{"name": "\xff"}')),
        *((b'{"name": "x", %s}' % more, "body") for more in (b'"rate_limit": 1.5', b'"rate_limit": true', b'"a": 1')),
        *((b'{"name": "%s"}' % name, "name") for name in (b"", b"  ", b"a\\u0007b", b"x" * 101)),
        *((b'{"name": "x", "rate_limit": %s}' % limit, "rate_limit") for limit in (b"-1", b"1000001", b"9" * 30)),
    ],
)
def test_an_invalid_body_is_refused_and_no_key_is_created(page: httpx.Client, body: bytes, field: str) -> None:
    before = listed(page)
    answer = page.post("/local/keys", content=body)
    assert answer.status_code == 422, answer.text
    assert list(answer.json()["errors"]) == [field]
    assert answer.json()["message"] == next(iter(answer.json()["errors"].values()))[0]
    assert listed(page) == before


def test_a_body_that_is_too_large_is_refused_while_it_is_read(page: httpx.Client) -> None:
    body = json.dumps({"name": "x", "pad": "y" * requests.MAX_JSON_BYTES}).encode()
    assert page.post("/local/keys", content=body).status_code == 413
    chunked = page.post("/local/keys", content=iter([body[:9000], body[9000:]]))
    assert (chunked.status_code, "16384" in chunked.json()["message"]) == (413, True)


def test_the_work_of_the_page_is_free(service: Running, page: httpx.Client) -> None:
    def balance() -> int:
        answer: int = service.client.get("/credits/balance").json()["data"]["balance"]
        return answer

    before = balance()
    own = service.with_key(page.headers["Authorization"].removeprefix("Bearer "))
    with own.client:
        job = own.process("process", pictures.jpeg())
        text = f"/images/{job['image']['id']}/translations/en"
        for client, price in ((own.client, 0), (service.client, 1)):
            client.patch(text, json={"long_description": "It will be gone."}).raise_for_status()
            anew = client.post(f"{text}/regenerate?replace=true", headers={"Prefer": "wait=20"})
            assert (anew.status_code, anew.json()["data"]["long_description"]) == (202, "")
            assert balance() == before - price


def test_the_overview_has_the_limits_and_the_model_in_use(
    service: Running, page: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    config: Config = service.services.config
    overview = page.get("/local/overview").json()["data"]
    formats = overview.pop("formats")
    assert formats["jpeg"] == {
        "name": "JPEG",
        "mime": "image/jpeg",
        "extensions": ["jpg", "jpeg", "jpe", "jfif"],
        "available": True,
    }
    assert list(formats) == list(Format)
    assert [formats[each]["available"] for each in overview.pop("targets")] == [True] * len(CONVERT_TARGETS)
    assert overview == {
        "max_upload_bytes": config.max_upload_bytes,
        "max_tiff_bytes": 32 * config.max_upload_bytes,
        "max_languages": 10,
        "rate_limit_per_minute": config.rate_limit_per_minute,
        "described_by": {"model": None, "problem": None},
    }

    def described_by() -> dict[str, Any]:
        shown: dict[str, Any] = page.get("/local/overview").json()["data"]["described_by"]
        return shown

    models = ModelStore(config.models_folder)
    install(models, "seer")
    assert described_by() == {"model": "seer", "problem": None}
    (models.folder / "seer" / "text.gguf").write_bytes(b"GGUF")
    assert "4 bytes" in described_by()["problem"]
    models.remove("seer")
    models.select("ollama:gemma3:4b")
    monkeypatch.setattr(ModelList, "problem_of", lambda *_: "Ollama does not answer.")
    assert described_by() == {"model": "ollama:gemma3:4b", "problem": "Ollama does not answer."}
    models.select("none")
    assert described_by()["model"] is None
