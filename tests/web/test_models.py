"""Models on the local page: the list, installing with progress, cancelling and resuming, using, removing."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from imgproc_local.config import Config
from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.llm import listing, selftest
from imgproc_local.vision.llm.listing import ModelList, ModelRow
from imgproc_local.vision.models.store import ModelStore
from tests.support import pictures
from tests.support.gguf_files import projector, text_model
from tests.support.hub import Hub, entry_of, hub_with, offer
from tests.support.installed import install
from tests.support.service import GatedDescriber, Running, running

FILES = {"T.gguf": text_model(seed=3), "M.gguf": projector(seed=3)}
SIZE_BYTES = sum(map(len, FILES.values()))
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with hub_with(FILES) as hub:
        yield hub


@pytest.fixture(scope="module")
def describer() -> GatedDescriber:
    return GatedDescriber()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, describer: GatedDescriber) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("data"), lambda: describer) as started:
        yield started


def passes(*_: Any, **__: Any) -> None:
    """A self-test that passes every model."""


def fails(*_: Any, **__: Any) -> None:
    raise ModelUnusable("it is blind.")


@pytest.fixture
def page(service: Running, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    """The page on a service without installed models, whose hub is `hub` and whose tests pass every model."""
    offer(monkeypatch, known=entry_of(*FILES.values()))
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setattr(selftest, "llama_is_installed", lambda: True)
    monkeypatch.setattr(selftest, "require_self_test", passes)
    monkeypatch.setattr("imgproc_local.vision.models.download.time.sleep", lambda _: None)
    service.services.models.failures.clear()
    hub.cut_after.clear()
    hub.requests.clear()
    shutil.rmtree(store_of(service).folder, ignore_errors=True)
    with httpx.Client(base_url=service.root, headers=service.page_session(), timeout=TIMEOUT_S) as client:
        yield client


def store_of(service: Running) -> ModelStore:
    config: Config = service.services.config
    return ModelStore(config.models_folder)


def read(page: httpx.Client) -> dict[str, Any]:
    answer = page.get("/local/models")
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json()["data"]
    return data


def model(page: httpx.Client, name: str = "known") -> dict[str, Any]:
    return next(one for one in read(page)["models"] if one["name"] == name)


def until(page: httpx.Client, met: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Poll as the page does until `met`, and return the answer."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        data = read(page)
        if met(data):
            return data
        time.sleep(0.02)
    raise AssertionError(f"not met: {data['task']}, {data['failures']}")


def ended(page: httpx.Client) -> dict[str, Any]:
    return until(page, lambda data: data["task"] is None)


def test_the_list_has_what_a_choice_needs(page: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "usable_memory_bytes", lambda: 8 * 10**9)
    data = read(page)
    by_name = {one["name"]: one for one in data["models"]}
    assert {**by_name["known"], "files": len(by_name["known"]["files"])} == {
        "name": "known",
        "kind": "vision",
        "state": "available",
        "in_use": False,
        "problem": None,
        "program": None,
        "size_bytes": SIZE_BYTES,
        "memory_bytes": 1_000_000,
        "fits_memory": True,
        "recommended": False,
        "downloaded_bytes": 0,
        "licence": "MIT",
        "languages": "English",
        "files": 2,
    }
    assert [one["name"] for one in data["models"] if one["recommended"]] == ["gemma-4-e2b"]
    with monkeypatch.context() as patch:
        patch.setattr(selftest, "llama_is_installed", lambda: False)
        without = read(page)
    assert "llama-cpp-python is not installed" in without["runtime_problem"]
    assert not any(one["recommended"] for one in without["models"])
    assert by_name["gemma-4-e4b"]["fits_memory"] is False
    assert by_name["ocr"]["kind"] == "text-reader"
    assert data["free_bytes"] > 0
    assert (data["task"], data["air_gapped"], data["fixed_by_setting"]) == (None, False, "")


def test_a_model_is_installed_used_and_removed(page: httpx.Client, service: Running) -> None:
    assert page.post("/local/models/known/install").status_code == 202
    assert ended(page)["failures"] == {}
    assert model(page)["in_use"], "the first model is used at once"
    assert store_of(service).selected() == "known"
    again = page.post("/local/models/known/install")
    assert (again.status_code, "installed already" in again.json()["message"]) == (409, True)
    refused = page.delete("/local/models/known")
    assert (refused.status_code, "is in use" in refused.json()["message"]) == (409, True)
    assert store_of(service).names() == ["known"]
    assert page.post("/local/models/none/use").status_code == 202
    assert not model(page)["in_use"]
    assert page.delete("/local/models/known").status_code == 204
    assert store_of(service).names() == []


def test_a_model_is_tested_before_it_is_used_and_the_one_in_use_unloaded_meanwhile(
    page: httpx.Client, service: Running, describer: GatedDescriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(service)
    install(store, "first")
    install(store, "second", seed=1)
    service.process("analyze", pictures.jpeg(64, 48))
    describer.closed = False
    released = threading.Event()
    monkeypatch.setattr(selftest, "require_self_test", lambda *_, **__: released.wait(TIMEOUT_S))
    assert page.post("/local/models/second/use").status_code == 202
    refused = page.delete("/local/models/second")
    assert (refused.status_code, "being installed or tested" in refused.json()["message"]) == (409, True)
    released.set()
    ended(page)
    assert (describer.closed, store.selected()) == (True, "second")
    monkeypatch.setattr(selftest, "require_self_test", fails)
    page.post("/local/models/first/use")
    assert ended(page)["failures"] == {"first": "it is blind."}
    assert store.selected() == "second"
    assert model(page, "first")["state"] == "unusable"
    page.post("/local/models/known/install")
    assert ended(page)["failures"]["known"] == "it is blind."
    assert model(page)["state"] == "failed"
    assert store.names() == ["first", "second"]


def test_a_model_in_another_program_is_listed_and_used(
    page: httpx.Client, service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ModelRow(name="ollama:hf.co/someone/model:q4", state="in-program", program="Ollama", size_bytes=5)
    monkeypatch.setattr(ModelList, "offered", lambda _: [row])
    monkeypatch.setattr(ModelList, "problem_of", lambda *_: None)
    service.app.state["offered_models"] = 0.0, ()
    shown = model(page, row.name)
    assert (shown["state"], shown["program"], shown["in_use"]) == ("in-program", "Ollama", False)
    twice = quote(quote(row.name, safe=""), safe="")
    assert page.post(f"/local/models/{twice}/use").status_code == 202
    assert store_of(service).selected() == row.name
    assert model(page, row.name)["in_use"]
    monkeypatch.setattr(ModelList, "problem_of", lambda *_: "it is down.")
    refused = page.post(f"/local/models/{twice}/use")
    assert (refused.status_code, refused.json()["message"]) == (409, "it is down.")
    service.app.state["offered_models"] = 0.0, ()


@contextlib.contextmanager
def page_of(folder: Path, **settings: Any) -> Iterator[tuple[Running, httpx.Client]]:
    """A service with these settings, and its page."""
    with (
        running(folder, **settings) as service,
        httpx.Client(base_url=service.root, headers=service.page_session(), timeout=TIMEOUT_S) as page,
    ):
        yield service, page


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["message"]


def test_settings_and_a_missing_folder_are_reported(tmp_path: Path) -> None:
    with page_of(tmp_path / "fixed", air_gapped=True, model="none") as (_, page):
        data = read(page)
        assert (data["air_gapped"], data["fixed_by_setting"]) == (True, "none")
        status, message = refusal(page.post("/local/models/gemma-4-e2b/install"))
        assert (status, message.startswith("air_gapped is true: nothing is downloaded.")) == (409, True)
        assert "The setting model is 'none'" in refusal(page.post("/local/models/none/use"))[1]
    with page_of(tmp_path / "data", models_dir=str(tmp_path / "drive")) as (_, page):
        data = read(page)
        assert "Connect its drive" in data["folder_problem"]
        assert "gemma-4-e2b" in {one["name"] for one in data["models"]}
        for request in (page.post("/local/models/mine/use"), page.delete("/local/models/mine")):
            status, message = refusal(request)
            assert (status, "Connect its drive" in message) == (409, True)
