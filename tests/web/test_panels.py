"""Settings, health and credits on the local page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from imgproc_local.config import SETTINGS, Secret, setting_meta
from imgproc_local.web import health
from tests.support import pictures
from tests.support.service import Running, running


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("data"), compression_key=Secret("secret-word")) as started:
        yield started


def read(page: httpx.Client, path: str) -> dict[str, Any]:
    answer = page.get(f"/local/{path}")
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json()["data"]
    return data


def test_every_setting_is_shown_with_its_description(service: Running, page: httpx.Client) -> None:
    settings = read(page, "settings")["settings"]
    assert [setting["name"] for setting in settings] == list(SETTINGS)
    by_name = {setting["name"]: setting for setting in settings}
    assert by_name["codec_threads"]["value"] == 2
    assert by_name["data_dir"]["value"] == str(service.services.config.data_dir)
    assert by_name["port"]["description"] == setting_meta("port").description


def test_a_secret_is_not_sent_to_the_page(page: httpx.Client) -> None:
    answer = page.get("/local/settings")
    assert "secret-word" not in answer.text
    shown = {setting["name"]: setting["value"] for setting in answer.json()["data"]["settings"]}
    assert shown["compression_key"] == "set"


def test_the_health_is_that_of_doctor(service: Running, page: httpx.Client) -> None:
    data = read(page, "health")
    checks = {check["name"]: check for check in data["checks"]}
    assert data["problem"] is None
    assert data["ok"] == all(check["state"] != "problem" for check in checks.values())
    assert checks["data folder"]["detail"] == f"{service.services.config.data_dir}, writable"
    assert checks["libvips"]["state"] == "ok"


def test_checks_that_do_not_end_are_reported(
    service: Running, page: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "TTL_S", 0.0)
    monkeypatch.setattr(health, "TIMEOUT_S", 0.01)
    data = read(page, "health")
    assert (data["ok"], data["checks"]) == (None, [])
    assert "did not end" in data["problem"]
    monkeypatch.setattr(health, "TIMEOUT_S", 20.0)
    monkeypatch.setattr(health, "program", lambda *_: ["/bin/false"])
    assert "exit code 1" in read(page, "health")["problem"]


def test_the_usage_of_credits_is_shown_by_day_and_key(service: Running, page: httpx.Client) -> None:
    assert read(page, "credits")["keys"] == []
    job = service.process("process", pictures.jpeg(seed=1), languages=["en", "de"])
    text = f"/images/{job['image']['id']}/translations/en/regenerate"
    for _ in range(2):
        assert service.client.post(text, headers={"Prefer": "wait=20"}).status_code in (200, 202)
    service.process("optimize", pictures.jpeg(seed=2))
    deleted = service.process("optimize", pictures.jpeg(seed=3))
    whole = pictures.jpeg(seed=4)
    failed = service.process("optimize", whole[: len(whole) // 3])
    assert failed["status"] == "failed", "its price is given back"
    assert service.client.delete(f"/jobs/{deleted['job_id']}").status_code == 204
    data = read(page, "credits")
    assert data["balance"] == service.client.get("/credits/balance").json()["data"]["balance"]
    assert len(data["days"]) == 30
    today = data["days"][-1]
    assert (today["credits"], today["pictures"]) == (8, 4)
    assert today["operations"] == {"analyze": 2, "regenerate": 2, "optimize": 3, "convert": 1}
    assert not any(day["credits"] for day in data["days"][:-1])
    used = {(key["name"], key["credits"]) for key in data["keys"]}
    assert used == {("test", 5), (None, 3)}


@pytest.mark.parametrize("path", ["settings", "health", "credits"])
def test_a_session_is_required(service: Running, path: str) -> None:
    assert httpx.get(f"{service.root}/local/{path}").status_code == 401
