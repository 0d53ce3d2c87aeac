"""The options of new pictures: the row that shows them, and what is sent of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import OpenTab, Tab, jobs, open_option, violations
from tests.support import pictures
from tests.support.service import Running

NAMES = ["Format", "Quality", "Size", "Widths", "Languages", "Project", "Role"]


def shown_options(tab: Tab) -> list[str]:
    tab.wait("document.querySelector('.option')")
    texts: list[str] = tab.page.locator(".option > span:last-child").all_inner_texts()
    return texts


def test_the_first_page_shows_the_options_above_the_drop_zone(empty_service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(empty_service)
    assert shown_options(tab) == ["AVIF", "Web quality", "original", "one", "English", "none", "Content"]
    bottom = "Math.max(...[...document.querySelectorAll('.option')].map((each) => each.getBoundingClientRect().bottom))"
    assert tab.page.evaluate(f"{bottom} < document.querySelector('.drop').getBoundingClientRect().top")


def test_a_drop_is_sent_with_the_options_that_are_shown(empty_service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(empty_service)
    open_option(tab, "Format")
    tab.page.get_by_label("WebP").check()
    tab.page.get_by_label("Keep only if smaller").check()
    open_option(tab, "Quality")
    tab.page.get_by_label("Small files").check()
    open_option(tab, "Size")
    tab.page.get_by_label("Longest side of the results").select_option("custom")
    tab.page.get_by_label("Longest side in pixels").fill("50")
    tab.press("Tab")
    open_option(tab, "Widths")
    tab.page.get_by_label("Also in these widths").fill("1.600")
    tab.page.get_by_text("Expected at most 8 whole numbers from 1 to 65535, separated by commas.").wait_for()
    tab.drop({"1.jpg": pictures.jpeg(64, 48)})
    assert "Correct the widths first" in tab.text(".refused li")
    tab.page.get_by_label("Also in these widths").fill("40, 16,")
    open_option(tab, "Languages")
    for name in ("French", "Japanese", "Arabic"):
        tab.page.get_by_label(name).check()
    assert shown_options(tab) == [
        "WebP, if smaller",
        "Small files",
        "50 px",
        "40, 16,",
        "English and 3 more",
        "none",
        "Content",
    ]
    tab.drop({"1.jpg": pictures.jpeg(64, 48)})
    tab.wait_for_count("Done", 1)
    details = jobs(empty_service)["1.jpg"]["image"]["details"]
    assert (details["quality_target"], details["only_smaller"], details["widths"]) == ("small", True, [16, 40])
    assert (details["max_width_px"], details["languages"]) == (50, ["en", "fr", "ja", "ar"])
    tab.press("n")
    assert shown_options(tab)[0] == "WebP, if smaller"
    tab.drop({"2.jpg": pictures.jpeg(64, 48, seed=2)})
    tab.wait_for_count("Done", 2)
    assert jobs(empty_service)["2.jpg"]["image"]["converted_format"] == "webp"


def test_without_a_choice_the_quality_is_that_of_the_settings(empty_service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(empty_service)
    tab.drop({"1.jpg": pictures.jpeg(64, 48)})
    tab.wait_for_count("Done", 1)
    job = jobs(empty_service)["1.jpg"]
    assert job["image"]["details"]["quality_target"] is None
    assert job["image"]["converted_format"] == "avif"


def test_formats_are_those_of_the_service(empty_service: Running, open_tab: OpenTab) -> None:
    """Also one that the page knows nothing of, and none that it has preserved and the service does not write."""
    tab = open_tab(empty_service)
    open_option(tab, "Format")
    tab.page.get_by_label("WebP").check()

    def other_formats(route: Any) -> None:
        response = route.fetch()
        body = response.json()
        body["data"]["formats"]["jp2"] = {
            "name": "JPEG 2000",
            "mime": "image/jp2",
            "extensions": ["jp2"],
            "available": True,
        }
        body["data"]["formats"]["heic"]["available"] = False
        body["data"]["targets"] = ["jp2", "avif"]
        route.fulfill(response=response, json=body)

    tab.page.route("**/local/overview", other_formats)
    tab.page.reload()
    assert shown_options(tab)[0] == "AVIF"
    open_option(tab, "Format")
    assert tab.page.locator(".option-control .choices label").all_inner_texts() == [
        "AVIF smallest, takes about twice as long",
        "JPEG 2000",
    ]
    assert tab.page.locator(".works li").nth(1).inner_text() == "AVIF or JPEG 2000 versions for your website."
    assert tab.page.locator(".drop .hint").inner_text().endswith("and JPEG 2000; HEIC after support is installed.")
    assert tab.page.locator(".file-input").get_attribute("accept").endswith("image/heic,.heic,.heif,image/jp2,.jp2")


def test_one_option_is_open_at_a_time_and_tab_goes_into_it(empty_service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(empty_service)
    open_option(tab, "Format")
    open_option(tab, "Languages")
    assert tab.page.locator(".option[aria-expanded=true]").count() == 1
    tab.press("Tab")
    assert tab.page.evaluate("document.activeElement.ariaLabel") == "Find a language"
    open_option(tab, "Languages")
    assert tab.page.locator(".option-control").count() == 0


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 360)])
@pytest.mark.parametrize("colours", ["none", "active"])
def test_every_option_is_accessible_and_in_view(
    empty_service: Running, open_tab: OpenTab, axe: str, scheme: str, width: int, colours: str
) -> None:
    tab = open_tab(empty_service, width=width, height=900, color_scheme=scheme, forced_colors=colours)
    found = {}
    for place in ("page", "dialog"):
        if place == "dialog":
            tab.drop({"1.jpg": pictures.jpeg(64, 48)})
            tab.wait_for_count("Done", 1)
            tab.press("n")
        for name in NAMES:
            open_option(tab, name)
            found[place, name] = violations(tab, axe)
            box = "document.querySelector('.option-control').getBoundingClientRect()"
            assert tab.page.evaluate(f"{box}.right <= {width}")
            assert tab.page.evaluate(f"{box}.bottom - {box}.top") <= 420
    assert {key: broken for key, broken in found.items() if broken} == {}
