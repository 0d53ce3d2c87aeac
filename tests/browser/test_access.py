"""The page by keyboard alone, for assistive technology, in both themes, and from 360 pixels to 4K."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import NumberedDescriber, OpenTab, Tab, translation, violations, wait_until_stored
from tests.support import pictures
from tests.support.service import Running, running

VIEWS = ["pictures", "models", "settings", "access"]
PICTURE_COUNT = 6


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("data"), NumberedDescriber) as started:
        for number in range(1, PICTURE_COUNT + 1):
            started.dispatch("process", pictures.jpeg(96, 64, seed=number), f"{number}.jpg", languages=["en", "de"])
        cut = pictures.jpeg(96, 64)[:1500]
        started.final(started.dispatch("process", cut, "broken.jpg")["job_id"])
        yield started


def show_view(tab: Tab, view: str) -> None:
    tab.page.evaluate(f"location.hash = {json.dumps(view)}")
    tab.wait(f"document.querySelector('main').classList.contains('view-{view}')")
    tab.page.wait_for_timeout(400)


@pytest.mark.parametrize(
    ("scheme", "width", "options"),
    [
        ("light", 1440, {}),
        ("dark", 360, {}),
        ("dark", 3840, {"height": 2160}),
        ("light", 720, {"height": 450, "device_scale_factor": 2}),  # 1440 by 900 pixels at 200 %
        ("light", 1280, {"forced_colors": "active"}),
    ],
)
def test_axe_finds_no_violation_and_nothing_is_wider_than_the_window(
    service: Running,
    empty_service: Running,
    open_tab: OpenTab,
    axe: str,
    scheme: str,
    width: int,
    options: dict[str, Any],
) -> None:
    first_run = open_tab(empty_service, width=width, color_scheme=scheme, **options)
    first_run.wait("document.querySelector('.no-pictures') && document.querySelector('.welcome')")
    found = {"first run": violations(first_run, axe)}
    tab = open_tab(service, width=width, color_scheme=scheme, **{"height": 900, **options})
    tab.wait_for_count("All", PICTURE_COUNT + 1)
    tab_width = "document.documentElement.scrollWidth"
    for view in VIEWS:
        show_view(tab, view)
        found[view] = violations(tab, axe)
        assert tab.page.evaluate(tab_width) <= width, view
    show_view(tab, "pictures")
    assert tab.page.evaluate("document.querySelectorAll('.tile')[1].getBoundingClientRect().right") <= width
    tab.page.get_by_title("Filter", exact=True).click()
    found["filters"] = violations(tab, axe)
    tab.page.get_by_title("Layout and order").click()
    found["layout and order"] = violations(tab, axe)
    tab.page.get_by_role("button", name="List", exact=True).click()
    tab.press("Escape")
    found["list"] = violations(tab, axe)
    tab.press("Control+a")
    found["selection"] = violations(tab, axe)
    tab.press("Escape")
    for key, name in {"n": "add", "e": "export", "?": "help"}.items():
        tab.press(key)
        tab.page.wait_for_timeout(500)
        found[name] = violations(tab, axe)
        tab.press("Escape")
    tab.page.locator(".tile").first.click()
    tab.wait("document.querySelector('[data-alt]')")
    found["detail"] = violations(tab, axe)
    assert tab.page.evaluate(tab_width) <= width
    tab.page.locator("[data-alt=en]").fill(f"A picture at {width} pixels.")
    tab.press("Control+Enter")
    tab.page.locator(".announcement button").wait_for()
    found["announcement"] = violations(tab, axe)
    if width == 360:  # the browser's back button returns to the list
        tab.page.go_back()
        tab.wait("document.querySelector('.list').checkVisibility()")
        assert not tab.page.evaluate("document.querySelector('.pictures-detail').checkVisibility()")
    assert {name: broken for name, broken in found.items() if broken} == {}


def test_pictures_are_named_and_exported_by_keyboard_alone(empty_service: Running, open_tab: OpenTab) -> None:
    for number in range(1, 6):
        empty_service.process("process", pictures.jpeg(64, 48, seed=number), f"{number}.jpg", languages=["en", "de"])
    tab = open_tab(empty_service)
    tab.wait("document.querySelector('[data-alt]')")
    assert tab.names()[0] == "4.jpg"
    # Enter goes to the text that a person has to write; Enter in a text accepts it and goes on
    tab.press("Enter")
    tab.wait("document.activeElement.dataset.alt === 'en'")
    tab.press("Control+a")
    tab.page.keyboard.type("A quay.")
    tab.press("Enter", "Control+a")
    tab.wait("document.activeElement.dataset.alt === 'de'")
    tab.page.keyboard.type("Ein Kai.")
    tab.press("Enter")
    tab.wait("document.querySelector('#detail-title').textContent === '1.jpg'")
    tab.wait_for_count("Needs text", 0)
    # the texts of the next pictures are accepted without a change
    tab.press("Escape", "Enter")
    tab.wait("document.querySelector('#detail-title').textContent === '2.jpg'")
    tab.press("j", "k", "j")
    tab.wait("document.querySelector('#detail-title').textContent === '3.jpg'")
    for code, text in (("en", "A quay."), ("de", "Ein Kai.")):
        wait_until_stored(empty_service, "4.jpg", text, code)
        wait_until_stored(empty_service, "1.jpg", "person", code, field="source")
        assert translation(empty_service, "2.jpg", code)["source"] == "vision"
    # the export, from the shortcut to the button
    tab.press("e")
    tab.wait("document.querySelector('dialog [role=status]').textContent.includes('5 files')")
    for _ in range(30):
        if tab.page.evaluate("document.activeElement.textContent") == "Download ZIP":
            break
        tab.press("Tab")
    with tab.page.expect_download():
        tab.press("Enter")


def test_the_list_is_one_tab_stop_with_a_named_active_option(service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(service)
    tab.wait("document.querySelector('.tile')")
    listbox = tab.page.get_by_role("listbox", name="Pictures")
    listbox.focus()
    tab.press("Home", "ArrowRight")
    active = listbox.get_attribute("aria-activedescendant")
    option = tab.page.locator(f"[id='{active}']")
    assert option.get_attribute("aria-posinset") == "2"
    assert option.get_attribute("aria-setsize") == str(PICTURE_COUNT + 1)
    assert option.get_attribute("aria-selected") == "false"
    tab.press("Space")
    assert option.get_attribute("aria-selected") == "true"
    assert ".jpg" in option.inner_text()
