"""The first run, and the views of models and access, in a real browser."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.domain.errors import CheckStop
from imgproc_local.vision.llm import selftest
from imgproc_local.vision.models.store import ModelStore
from tests.browser.conftest import NumberedDescriber, OpenTab, Tab
from tests.support import pictures
from tests.support.gguf_files import projector, text_model
from tests.support.hub import Hub, entry_of, hub_with, offer
from tests.support.service import Running, running

FILES = {"T.gguf": text_model(seed=3), "M.gguf": projector(seed=3)}


class SelfTest:
    """A substitute for the self-test of models, which waits while `is_open` is false."""

    def __init__(self) -> None:
        self.is_open = True

    def __call__(self, *_: Any, check_stop: CheckStop, **__: Any) -> None:
        while not self.is_open:
            check_stop()
            time.sleep(0.01)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub_with(FILES) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


@pytest.fixture
def self_test(monkeypatch: pytest.MonkeyPatch) -> SelfTest:
    test = SelfTest()
    monkeypatch.setattr(selftest, "llama_is_installed", lambda: True)
    monkeypatch.setattr(selftest, "require_self_test", test)
    return test


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    offer(monkeypatch, known=entry_of(*FILES.values()))
    with running(tmp_path / "data", NumberedDescriber) as started:
        yield started


def show_view(tab: Tab, view: str, element: str) -> None:
    tab.page.evaluate(f"location.hash = {json.dumps(view)}")
    tab.wait(f"document.querySelector({json.dumps(element)})")


def press_button(tab: Tab, name: str) -> None:
    tab.page.get_by_role("button", name=name, exact=True).click()


def announced(tab: Tab, text: str) -> str:
    """The JavaScript condition that assistive technology was told `text`."""
    return f"document.querySelector('.announcement span')?.textContent === {json.dumps(text)}"


def test_the_first_run_leads_to_the_model_that_fits_and_ends_with_the_first_picture(
    service: Running, open_tab: OpenTab, self_test: SelfTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imgproc_local.vision.llm.listing.usable_memory_bytes", lambda: 10_000_000)
    tab = open_tab(service)
    tab.wait("document.querySelector('.welcome')?.textContent.includes('known fits this machine')")
    assert "Everything stays on this computer" in tab.text(".welcome h2")
    for said in ("TIFF", "needs text", "this computer"):
        assert tab.text(".no-pictures").count(said) == 1, said
    press_button(tab, "Choose a model")
    tab.wait("document.querySelector('.model .tag.good')?.textContent === 'recommended for this machine'")
    show_view(tab, "pictures", ".welcome")
    assert "Drop pictures or folders here" in tab.text(".no-pictures")
    with tab.page.expect_file_chooser() as chosen:
        tab.page.get_by_role("button", name="Choose pictures…").press("Enter")
    chosen.value.set_files([{"name": "first.jpg", "mimeType": "image/jpeg", "buffer": pictures.jpeg(64, 48)}])
    tab.wait_for_count("Done", 1)
    assert tab.text(".welcome") == ""
    assert tab.names() == ["first.jpg"]


def test_a_model_is_installed_paused_resumed_used_and_removed(
    service: Running, open_tab: OpenTab, hub: Hub, self_test: SelfTest
) -> None:
    store = ModelStore(service.services.config.models_folder)
    tab = open_tab(service)
    show_view(tab, "models", ".models")
    self_test.is_open = False
    press_button(tab, "Install known")
    tab.wait("document.querySelector('.task')?.textContent.includes('Testing')")
    assert tab.page.get_by_role("button", name="Install qwen3-vl-2b").is_disabled(), "one at a time"
    press_button(tab, "Pause")
    tab.wait("!document.querySelector('.task')")
    assert store.names() == []
    self_test.is_open = True
    press_button(tab, "Resume known")
    tab.wait(announced(tab, "known is installed."))
    tab.wait("document.querySelector('#in-use-title').textContent === 'In use: known'")
    time_per_picture = tab.page.locator(".fact", has_text="Time per picture").locator("dd")
    assert time_per_picture.inner_text() == "not measured yet"
    for number in range(1, 5):
        service.process("analyze", pictures.jpeg(64, 48, seed=number), f"{number}.jpg")
    tab.wait("document.querySelector('.describe')?.textContent.includes('The first ones show how long it takes')")
    tab.page.evaluate("localStorage['imgproc-local.describing'] = JSON.stringify({ model: 'known', pictureMs: 7200 })")
    tab.page.reload()
    show_view(tab, "models", ".models")
    tab.wait("document.querySelector('.describe')")
    assert time_per_picture.inner_text() == "about 7 s"
    assert "by the model known, about 10 s on this machine." in tab.text(".describe")
    press_button(tab, "Use no model")
    tab.wait("document.querySelector('#in-use-title').textContent === 'In use: no model'")
    assert store.selected() == "none"
    press_button(tab, "Remove known")
    tab.page.locator("dialog").get_by_role("button", name="Remove", exact=True).click()
    tab.wait(announced(tab, "known was removed."))
    assert store.names() == []


def test_no_model_can_be_installed_where_none_can_run(
    service: Running, open_tab: OpenTab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selftest, "llama_is_installed", lambda: False)
    tab = open_tab(service)
    show_view(tab, "models", ".models")
    assert "No model can run here" in tab.text(".in-use .warning")
    assert "recommended" not in tab.text(".panel")
    assert tab.page.get_by_role("button", name="Install known", exact=True).is_disabled()
    assert tab.page.get_by_role("button", name="Install the reader of text in pictures").is_enabled()


def test_a_key_is_created_shown_once_and_revoked(service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(service)
    show_view(tab, "access", ".new-key")
    tab.page.get_by_label("Name of the new key").fill("Shop")
    tab.page.get_by_label("Requests per minute").fill("7")
    press_button(tab, "Create key")
    tab.wait("document.querySelector('.created-key')?.contains(document.activeElement)")
    secret = tab.text(".created-key .secret code")
    tab.page.evaluate(
        "() => { navigator.clipboard.writeText = () => Promise.reject(new Error());"
        " document.execCommand = () => false; }"
    )
    refused = tab.watch("document.querySelector('.secret button')?.textContent === 'Not copied'")
    press_button(tab, "Copy the key")
    tab.wait(refused)
    with service.client_for(secret) as client:
        answer = client.get("/credits/balance")
        assert (answer.status_code, answer.headers["x-ratelimit-limit"]) == (200, "7")
        press_button(tab, "I have stored the key")
        tab.wait("!document.querySelector('.created-key')")
        assert secret not in tab.page.content()
        press_button(tab, "Revoke Shop")
        tab.page.locator("dialog").get_by_role("button", name="Revoke", exact=True).click()
        tab.wait(announced(tab, "Shop was revoked."))
        assert client.get("/credits/balance").status_code == 401
