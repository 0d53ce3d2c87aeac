"""The view of the settings: changes at once, undo, what is fixed, the comparison of qualities."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from imgproc_local import config
from imgproc_local.config import load
from imgproc_local.web import settings as endpoints
from tests.browser.conftest import NumberedDescriber, OpenTab, Tab, violations, wait_until
from tests.support import pictures
from tests.support.service import Running, running

PREVIEW_BYTES = 40_000


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings file, which does not exist yet."""
    path = tmp_path / "config" / "config.toml"
    monkeypatch.setattr(config, "default_config_path", lambda: path)
    return path


@pytest.fixture
def service(file: Path, tmp_path: Path) -> Iterator[Running]:
    """A service with two pictures, and a variable that fixes a setting."""
    loaded = load({"data_dir": tmp_path / "data", "port": 0}, {"IMGPROC_NAME_PEOPLE": "none"})
    with running(tmp_path, NumberedDescriber, loaded=loaded) as started:
        for number in (1, 2):
            started.process("process", pictures.jpeg(640, 480, seed=number), f"{number}.jpg")
        yield started


def show_settings(tab: Tab, name: str = "") -> None:
    tab.page.evaluate(f"location.hash = {json.dumps(f'settings/{name}' if name else 'settings')}")
    tab.wait("document.querySelector('.view-settings .card')")


def compare(tab: Tab) -> None:
    """Open the comparison of qualities in the view of the settings."""
    tab.page.get_by_text("Compare with one of your pictures").click()


def replace_previews(tab: Tab) -> list[dict[str, Any]]:
    """Answer requests for previews with a file of `PREVIEW_BYTES`. Returns what was asked for, a list that grows."""
    asked: list[dict[str, Any]] = []

    def answer(route: Any) -> None:
        asked.append(route.request.post_data_json)
        body = pictures.jpeg(64, 48).ljust(PREVIEW_BYTES, b"\0")
        route.fulfill(body=body, content_type="image/jpeg", headers={"X-Score": f"{asked[-1]['quality_target']}.2"})

    tab.page.route("**/local/preview", answer)
    return asked


def test_a_change_is_saved_at_once_and_undone(service: Running, file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(service)
    show_settings(tab)
    tab.page.get_by_label("Place", exact=True).select_option("none")
    tab.wait("document.querySelector('.announcement span')?.textContent === 'Saved.'")
    assert 'keep_location = "none"' in file.read_text()
    assert "No place is named" in tab.text("#setting-keep_location")
    tab.page.get_by_role("status").get_by_role("button", name="Undo").click()
    wait_until(lambda: "keep_location" not in file.read_text(), "the change is undone")
    tab.wait("document.querySelector('#setting-keep_location select').value === 'city'")
    tab.page.get_by_role("switch", name="Placeholder texts").click()
    wait_until(lambda: "pixel_texts = false" in file.read_text(), "the switch is stored")


def test_all_cards_are_in_view_on_a_usual_screen(service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(service, width=1440, height=900)
    show_settings(tab)
    tab.wait("document.querySelector('.comparison')")
    tops = tab.page.locator(".card h3").evaluate_all("(all) => all.map((each) => each.getBoundingClientRect().bottom)")
    assert len(tops) == 6
    assert tab.page.get_by_role("region", name="Files and names").count() == 1
    assert max(tops) < 900


def test_a_setting_that_needs_a_start_says_so(
    service: Running, file: Path, open_tab: OpenTab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "LIVE", ())
    monkeypatch.setattr(endpoints, "LIVE", ())
    tab = open_tab(service)
    show_settings(tab)
    tab.page.get_by_label("Time per picture").select_option("best")
    tab.wait("document.querySelector('.announcement')?.textContent.includes('started again')")
    assert 'effort = "best"' in file.read_text()
    assert "Takes effect when the service is started again" in tab.text("#setting-effort")


def test_what_a_variable_fixes_is_disabled_with_the_reason(service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(service)
    show_settings(tab)
    assert tab.page.get_by_label("People").is_disabled()
    assert "Fixed by the variable IMGPROC_NAME_PEOPLE" in tab.text("#setting-name_people")
    assert tab.page.get_by_label("Place", exact=True).is_enabled()


@pytest.mark.parametrize("marked", ["setting-keep_location", "setting-quality_target", "all-max_pixels"])
def test_a_link_to_a_setting_shows_and_marks_it(service: Running, open_tab: OpenTab, marked: str) -> None:
    tab = open_tab(service, height=500)
    show_settings(tab, marked.partition("-")[2])
    tab.wait(f"document.activeElement.id === {json.dumps(marked)}")
    box = "document.querySelector('[data-linked=true]').getBoundingClientRect()"
    tab.wait(f"{box}.top > 0 && {box}.bottom < 500")
    assert tab.page.locator("[data-linked=true]").get_attribute("id") == marked
    tab.wait(f"document.querySelectorAll('.compare').length === {int(marked == 'setting-quality_target')}")


def test_the_quality_is_chosen_by_steps_and_by_a_number(service: Running, file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(service)
    show_settings(tab)
    tab.page.get_by_role("button", name="Small files").click()
    wait_until(lambda: file.exists() and 'quality_target = "small"' in file.read_text(), "the step is stored")
    tab.wait("document.querySelector('.likeness input').value === '75'")
    tab.page.get_by_label("Likeness").press("ArrowRight")
    wait_until(lambda: "quality_target = 76" in file.read_text(), "the number is stored")
    tab.wait("document.querySelector('#setting-quality_target .row-label').textContent === 'Quality 76'")
    assert tab.page.locator("#setting-quality_target [aria-pressed=true]").count() == 0


def test_the_comparison_follows_the_slider_and_the_latest_wins(service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(service)
    asked = replace_previews(tab)
    show_settings(tab)
    tab.wait("document.querySelector('.comparison')")
    tab.page.wait_for_timeout(500)
    assert asked == [], "nothing is made before it is wanted"
    compare(tab)
    tab.wait("document.querySelector('.comparison [role=status]')?.textContent.includes('likeness 85.2')")
    assert "39 kB at 560 × 420 pixels" in tab.text(".comparison [role=status]")
    assert (asked[0]["variant"], asked[0]["format"]) == ("converted", "avif")
    assert asked[0]["max_height_px"] == 420, "as large as it is shown"
    slider = tab.page.get_by_label("Likeness")
    for _ in range(10):
        slider.press("ArrowLeft")
    tab.wait("document.querySelector('.comparison [role=status]')?.textContent.includes('likeness 75.2')")
    assert len(asked) < 8, "not every step asks for a picture"
    assert tab.page.locator(".comparison img").count() == 2
    other = tab.page.locator(".comparison option:not(:checked)").inner_text()
    with tab.page.expect_request("**/local/preview") as request:
        tab.page.get_by_label("Picture to compare").select_option(label=other)
    assert request.value.post_data_json["image_id"] != asked[0]["image_id"]
    split = tab.page.get_by_label("Share of the original")
    before = tab.page.locator(".comparison .compare-handle").get_attribute("style")
    split.press("Home")
    tab.wait(f"document.querySelector('.comparison .compare-handle').getAttribute('style') !== {json.dumps(before)}")


def test_the_last_result_is_shown_while_the_next_one_is_made(service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(service)
    replace_previews(tab)
    show_settings(tab)
    compare(tab)
    tab.wait("document.querySelectorAll('.comparison img').length === 2")
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    tab.page.route("**/local/preview", hold)
    with tab.page.expect_request("**/local/preview"):
        tab.page.get_by_label("Likeness").press("ArrowLeft")
    tab.wait("document.querySelector('.comparison [role=status]').textContent.endsWith('likeness 85.2 – Making it…')")
    assert tab.page.locator(".comparison img").count() == 2
    held[0].abort()


def test_the_service_makes_the_file_that_is_compared(service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(service)
    show_settings(tab)
    compare(tab)
    status = "document.querySelector('.comparison [role=status]')?.textContent"
    tab.wait(f"/kB at 560 × 420 pixels, likeness [89]\\d/.test({status})")
    widths = tab.page.locator(".comparison img").evaluate_all("(all) => all.map((each) => each.naturalWidth)")
    assert widths == [640, 560]


def test_the_page_starts_new_pictures_with_what_is_chosen_here(service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(service)
    show_settings(tab)
    tab.page.get_by_label("WebP").check()
    tab.page.locator(".card summary", has_text="English").click()
    tab.page.get_by_label("German").check()
    tab.page.evaluate("location.hash = 'pictures'")
    tab.wait("document.querySelector('.tile')")
    tab.press("n")
    tab.wait("document.querySelector('dialog .option')")
    shown = tab.page.locator("dialog .option > span:last-child").all_inner_texts()
    assert shown[0] == "WebP"
    assert shown[4] == "English, German"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 360)])
@pytest.mark.parametrize("colours", ["none", "active"])
def test_the_settings_are_accessible_and_fit(
    service: Running, open_tab: OpenTab, axe: str, scheme: str, width: int, colours: str
) -> None:
    tab = open_tab(service, width=width, height=900, color_scheme=scheme, forced_colors=colours)
    replace_previews(tab)
    show_settings(tab, "max_pixels")
    compare(tab)
    tab.wait("document.querySelectorAll('.comparison img').length === 2")
    switch = tab.page.get_by_role("switch", name="Placeholder texts")
    own_drawing = switch.evaluate("(each) => getComputedStyle(each).appearance === 'none'")
    assert own_drawing == (colours == "none"), "the system draws it where it forces its colours"
    assert violations(tab, axe) == []
    right = "Math.max(...[...document.querySelectorAll('.panel *')].map((each) => each.getBoundingClientRect().right))"
    assert tab.page.evaluate(right) <= width
