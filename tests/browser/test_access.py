"""The page by keyboard alone, for assistive technology, in both themes, and from 360 pixels to 4K."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import WAIT_S, Desk, NumberedDescriber, OpenDesk
from tests.support import pictures
from tests.support.service import Running, running

VIEWS = ["pictures", "models", "access", "storage", "settings"]
COUNT = 6


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("data"), NumberedDescriber) as started:
        for number in range(1, COUNT + 1):
            started.dispatch("process", pictures.jpeg(96, 64, seed=number), f"{number}.jpg", languages=["en", "de"])
        cut = pictures.jpeg(96, 64)[:1500]
        started.final(started.dispatch("process", cut, "broken.jpg")["job_id"])
        yield started


@pytest.fixture(scope="module")
def axe() -> str:
    module = pytest.importorskip("axe_playwright_python", reason="axe-core is not installed")
    return (Path(module.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


def violations(desk: Desk, axe: str) -> list[Any]:
    """What axe-core finds in the page as it is shown: rule, and the elements that break it."""
    desk.page.evaluate(axe)
    found: list[Any] = desk.page.evaluate(
        "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>"
        " violations.map(({ id, nodes }) => [id, nodes.map(({ target, failureSummary }) => [target, failureSummary])]))"
    )
    return found


def show_view(desk: Desk, view: str) -> None:
    desk.page.evaluate(f"location.hash = {json.dumps(view)}")
    desk.wait(f"document.querySelector('main').classList.contains('view-{view}')")
    desk.page.wait_for_timeout(400)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 360)])
def test_axe_finds_no_violation_in_any_view(
    service: Running, open_desk: OpenDesk, axe: str, scheme: str, width: int
) -> None:
    desk = open_desk(service, width=width, height=900, color_scheme=scheme)
    desk.wait_for_count("All", COUNT + 1)
    found = {view: [] for view in VIEWS}
    for view in VIEWS:
        show_view(desk, view)
        found[view] = violations(desk, axe)
    show_view(desk, "pictures")
    desk.page.get_by_role("button", name="List", exact=True).click()
    found["list"] = violations(desk, axe)
    for key, name in {"n": "add", "e": "export", "?": "help"}.items():
        desk.press(key)
        desk.page.wait_for_timeout(500)
        found[name] = violations(desk, axe)
        desk.press("Escape")
    desk.page.locator(".tile").first.click()
    desk.wait("document.querySelector('[data-alt]')")
    found["detail"] = violations(desk, axe)
    assert {name: broken for name, broken in found.items() if broken} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_at_the_first_run(empty: Running, open_desk: OpenDesk, axe: str, scheme: str) -> None:
    desk = open_desk(empty, color_scheme=scheme)
    desk.wait("document.querySelector('.empty-desk') && document.querySelector('.welcome')")
    assert violations(desk, axe) == []


def test_no_view_is_wider_than_360_pixels(service: Running, open_desk: OpenDesk) -> None:
    desk = open_desk(service, width=360, height=740)
    desk.wait_for_count("All", COUNT + 1)

    def width() -> int:
        return int(desk.page.evaluate("document.documentElement.scrollWidth"))

    for view in VIEWS:
        show_view(desk, view)
        assert width() <= 360, view
    show_view(desk, "pictures")
    assert desk.page.evaluate("document.querySelectorAll('.tile')[1].getBoundingClientRect().right") <= 360
    desk.page.locator(".tile").first.click()
    desk.wait("document.querySelector('[data-alt]')")
    assert width() <= 360
    # the browser's back button returns to the list
    desk.page.go_back()
    desk.wait("document.querySelector('.list').checkVisibility()")
    assert not desk.page.evaluate("document.querySelector('.desk-detail').checkVisibility()")


def test_a_4k_screen_is_used(service: Running, open_desk: OpenDesk) -> None:
    desk = open_desk(service, width=3840, height=2160)
    desk.wait("document.querySelector('.compare') && document.querySelector('.tile')")
    columns = desk.page.evaluate(
        "new Set([...document.querySelectorAll('.tile')].map((tile) => tile.getBoundingClientRect().left)).size"
    )
    assert columns >= 6
    compared = desk.page.evaluate("document.querySelector('.compare').getBoundingClientRect().width")
    assert compared >= 1000
    texts = desk.page.evaluate("document.querySelector('.detail-texts').getBoundingClientRect().left")
    assert texts > 1000 + compared, "the texts are beside the picture"


def stored_texts(service: Running) -> dict[str, dict[str, dict[str, Any]]]:
    """The texts that the service has, by name of the picture and language."""
    return {
        job["image"]["original_filename"]: {text["language_code"]: text for text in job["image"]["translations"]}
        for job in service.client.get("/jobs").json()["data"]
    }


def sources(texts: dict[str, dict[str, dict[str, Any]]], name: str) -> set[str]:
    return {text["source"] for text in texts[name].values()}


def test_pictures_are_named_and_exported_by_keyboard_alone(empty: Running, open_desk: OpenDesk) -> None:
    for number in range(1, 6):
        empty.process("process", pictures.jpeg(64, 48, seed=number), f"{number}.jpg", languages=["en", "de"])
    desk = open_desk(empty)
    desk.wait("document.querySelector('[data-alt]')")
    assert desk.names()[0] == "4.jpg"
    # Enter goes to the text that a person has to write; Enter in a text accepts it and goes on
    desk.press("Enter")
    desk.wait("document.activeElement.dataset.alt === 'en'")
    desk.press("Control+a")
    desk.page.keyboard.type("A quay.")
    desk.press("Enter", "Control+a")
    desk.wait("document.activeElement.dataset.alt === 'de'")
    desk.page.keyboard.type("Ein Kai.")
    desk.press("Enter")
    desk.wait("document.querySelector('#detail-title').textContent === '1.jpg'")
    desk.wait_for_count("Needs text", 0)
    # the texts of the next pictures are accepted without a change
    desk.press("Escape", "Enter")
    desk.wait("document.querySelector('#detail-title').textContent === '2.jpg'")
    desk.press("j", "k", "j")
    desk.wait("document.querySelector('#detail-title').textContent === '3.jpg'")
    deadline = time.monotonic() + WAIT_S
    while sources(texts := stored_texts(empty), "1.jpg") != {"person"}:
        assert time.monotonic() < deadline, texts["1.jpg"]
        time.sleep(0.05)
    assert texts["4.jpg"]["en"]["seo_alt_text"] == "A quay."
    assert texts["4.jpg"]["de"]["seo_alt_text"] == "Ein Kai."
    assert sources(texts, "2.jpg") == {"vision"}
    # the export, from the shortcut to the button
    desk.press("e")
    desk.wait("document.querySelector('dialog [role=status]').textContent.includes('5 files')")
    for _ in range(30):
        if desk.page.evaluate("document.activeElement.textContent") == "Download ZIP":
            break
        desk.press("Tab")
    with desk.page.expect_download():
        desk.press("Enter")


def test_the_list_is_one_tab_stop_with_a_named_active_option(service: Running, open_desk: OpenDesk) -> None:
    desk = open_desk(service)
    desk.wait("document.querySelector('.tile')")
    listbox = desk.page.get_by_role("listbox", name="Pictures")
    listbox.focus()
    desk.press("Home", "ArrowRight")
    active = listbox.get_attribute("aria-activedescendant")
    option = desk.page.locator(f"[id='{active}']")
    assert option.get_attribute("aria-posinset") == "2"
    assert option.get_attribute("aria-setsize") == str(COUNT + 1)
    assert option.get_attribute("aria-selected") == "false"
    desk.press("Space")
    assert option.get_attribute("aria-selected") == "true"
    assert ".jpg" in option.inner_text()


def test_motion_is_reduced_where_the_user_asks_for_it(service: Running, open_desk: OpenDesk) -> None:
    desk = open_desk(service, reduced_motion="reduce")
    desk.wait("document.querySelector('.status')")
    names = desk.page.evaluate(
        "[...document.querySelectorAll('*')].filter((node) => getComputedStyle(node).animationName !== 'none').length"
    )
    assert names == 0
