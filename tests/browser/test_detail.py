"""One picture and its words on the page: their places and widths."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from imgproc_local.domain.result import NeedsTextReason, TextSource, Translation
from imgproc_local.storage.inspection import DATABASE_FILE
from tests.browser.conftest import OpenTab, Tab, show, violations
from tests.support import finished, pictures
from tests.support.finished import Format, Result
from tests.support.service import Running

CODES = ("en", "de", "fr", "ja", "ar")


def add(service: Running, name: str = "1.jpg", **options: Any) -> None:
    """Store a picture with texts in five languages."""
    texts = [Translation(code, f"boats-{code}", f"Boats at noon, {code}.", TextSource.VISION) for code in CODES]
    original = pictures.jpeg(320, 240)
    optimized = Result(pictures.jpeg(320, 240, seed=2), Format.JPEG)
    service.run(
        finished.add_job(service.services, original, name=name, **{"optimized": optimized, "texts": texts} | options)
    )


def box(tab: Tab, selector: str) -> dict[str, float]:
    found: dict[str, float] | None = tab.page.locator(selector).first.bounding_box()
    assert found is not None, selector
    return found


@pytest.mark.parametrize(("width", "height"), [(1440, 700), (1100, 600), (1000, 700), (360, 600)])
def test_the_picture_stays_in_view_while_the_words_are_scrolled(
    empty_service: Running, open_tab: OpenTab, width: int, height: int
) -> None:
    add(empty_service)
    tab = open_tab(empty_service, width, height)
    tab.page.locator(".tile").click()
    tab.wait("document.querySelector('[data-alt=ar]')")
    before = box(tab, ".compare")
    tab.page.get_by_role("button", name="Delete…").last.scroll_into_view_if_needed()
    tab.page.locator("[data-alt=ar]").focus()
    tab.wait("document.querySelector('.text:last-of-type .main')")
    words = box(tab, "[data-alt=ar]")
    assert box(tab, ".compare")["y"] >= 0
    assert box(tab, ".compare")["y"] <= before["y"]
    assert tab.page.evaluate("document.documentElement.scrollHeight") == height
    beside = words["x"] >= before["x"] + before["width"]
    assert beside == (width >= 1100)
    if not beside:
        assert words["y"] >= box(tab, ".compare")["y"] + before["height"], "the picture does not cover the words"


def test_the_width_is_shared_by_lines_that_are_moved_and_remain_where_they_are(
    empty_service: Running, open_tab: OpenTab
) -> None:
    add(empty_service)
    tab = open_tab(empty_service, 1440, 800)
    show(tab, "1.jpg")
    for name, selector in (("Width of the list", ".pictures-list"), ("Width of the picture", ".detail-picture")):
        line = tab.page.get_by_role("separator", name=name)
        usual = box(tab, selector)["width"]
        line.press("ArrowLeft")
        assert box(tab, selector)["width"] < usual
        line.press("Enter")
        assert box(tab, selector)["width"] == pytest.approx(usual)
        line.press("Home")
        assert line.get_attribute("aria-valuenow") == line.get_attribute("aria-valuemin")
        at = box(tab, f"{selector} ~ .splitter")
        tab.page.mouse.move(at["x"], at["y"] + 300)
        tab.page.mouse.down()
        tab.page.mouse.move(at["x"] + 100, at["y"] + 300)
        tab.page.mouse.up()
        moved = box(tab, selector)["width"]
        tab.page.reload()
        tab.wait("document.querySelector('[data-alt]')")
        assert box(tab, selector)["width"] == pytest.approx(moved, abs=1)
        line.dblclick()
        assert box(tab, selector)["width"] == pytest.approx(usual, abs=1)


def test_the_sizes_and_the_likeness_of_the_compared_result_are_one_line_that_opens(
    empty_service: Running, open_tab: OpenTab
) -> None:
    original, small = pictures.jpeg(320, 240, quality=95), pictures.webp(320, 240)
    add(
        empty_service,
        optimized=Result(original[: len(original) // 2], Format.JPEG),
        converted=Result(small, Format.WEBP),
    )
    with closing(sqlite3.connect(empty_service.services.config.data_dir / DATABASE_FILE)) as rows:
        rows.execute("UPDATE stages SET score = CASE name WHEN 'optimize' THEN 86.23 ELSE 64.9 END")
        rows.commit()
    tab = open_tab(empty_service)
    show(tab, "1.jpg")
    for label, likeness in (("Optimized", "looks the same · 86.2"), ("WebP", "differs a little · 64.9")):
        tab.page.get_by_role("button", name=label, exact=True).click()
        line = tab.text(".files summary")
        assert line.endswith(likeness)
        assert " → " in line
        assert ("JPEG" in line) == (label == "Optimized")
    assert not tab.page.locator(".sizes").is_visible()
    tab.page.locator(".files summary").click()
    assert tab.page.locator(".sizes tbody th").all_inner_texts()[0] == "Original"
    assert "320 × 240 px" in tab.text(".files p.hint")


def test_two_results_of_one_format_have_honest_names(empty_service: Running, open_tab: OpenTab) -> None:
    results = [Result(pictures.webp(320, 240), Format.WEBP), Result(pictures.webp(160, 120), Format.WEBP)]
    add(empty_service, "1.webp", format=Format.WEBP, optimized=results[0], converted=results[1])
    tab = open_tab(empty_service)
    show(tab, "1.webp")
    names = tab.page.get_by_role("group", name="Compare the original with").get_by_role("button").all_inner_texts()
    assert names == ["WebP optimized", "WebP converted"]
    assert "·" not in tab.text(".files summary"), "no score was measured"


def opened(tab: Tab) -> list[str]:
    codes: list[str] = tab.page.evaluate(
        "[...document.querySelectorAll('.text[data-open] [data-alt]')].map((field) => field.dataset.alt)"
    )
    return codes


def test_one_language_is_open_and_all_are_reached_by_keys(empty_service: Running, open_tab: OpenTab) -> None:
    add(empty_service)
    tab = open_tab(empty_service, 1440, 900)
    show(tab, "1.jpg")
    assert opened(tab) == ["en"]
    assert tab.page.locator(".text").get_by_role("button", name="Accept").count() == 1
    assert tab.page.locator(".text .tag").all_inner_texts() == ["not reviewed"] * len(CODES)
    tab.page.locator("[data-alt=en]").focus()
    for code in CODES[1:]:
        # the first key may move the caret to the end of the text
        tab.page.evaluate("document.activeElement.setSelectionRange(999, 999)")
        tab.press("ArrowDown")
        tab.wait(f"document.activeElement.dataset.alt === '{code}'")
        assert opened(tab) == [code]
    tab.page.evaluate("document.activeElement.setSelectionRange(0, 0)")
    tab.press("ArrowUp")
    tab.wait("document.activeElement.dataset.alt === 'ja'")
    tab.press("Shift+Tab")
    tab.wait("document.activeElement.dataset.alt === 'fr'")
    for _ in range(12):
        if opened(tab) == ["ja"]:
            break
        tab.press("Tab")
    assert opened(tab) == ["ja"], "behind the fields and buttons of the open text is the next one"
    tab.page.locator(".text", has=tab.page.locator("[data-alt=de]")).get_by_role("heading").click()
    tab.wait("document.activeElement.dataset.alt === 'de'")


@pytest.mark.parametrize(("width", "height"), [(1440, 500), (360, 560)])
def test_a_refused_text_and_the_reason_are_in_view(
    empty_service: Running, open_tab: OpenTab, width: int, height: int
) -> None:
    add(empty_service)
    tab = open_tab(empty_service, width, height)
    tab.page.locator(".tile").click()
    tab.page.locator("[data-alt=ja]").fill("港" * 290)
    tab.press("Enter")
    tab.wait("document.querySelector('.text .problem')")
    bottom = box(tab, ".compare")["y"] + box(tab, ".compare")["height"] if width < 1100 else 0
    field, reason = box(tab, "[data-alt=ja]"), box(tab, ".text .problem")
    assert field["y"] >= bottom
    assert field["y"] + field["height"] <= reason["y"]
    assert reason["y"] + reason["height"] <= height
    assert tab.page.evaluate("document.activeElement.dataset.alt") == "ja"
    assert tab.page.locator("[data-alt=ja]").get_attribute("aria-invalid") == "true"


def test_a_long_description_can_be_added_to_any_picture(empty_service: Running, open_tab: OpenTab) -> None:
    add(empty_service)
    tab = open_tab(empty_service)
    show(tab, "1.jpg")
    tab.page.get_by_role("button", name="Add long description, English").click()
    tab.wait("document.activeElement.ariaLabel === 'Long description, English'")


@pytest.mark.parametrize(
    ("width", "options"),
    [(1440, {"color_scheme": "light"}), (360, {"color_scheme": "dark"}), (1440, {"forced_colors": "active"})],
)
def test_axe_finds_no_violation_in_the_states_of_a_picture(
    empty_service: Running, open_tab: OpenTab, axe: str, width: int, options: dict[str, str]
) -> None:
    result = Result(pictures.webp(320, 240), Format.WEBP)
    needed = Translation("ar", "boats", "قوارب", TextSource.FACTS, NeedsTextReason.OTHER_LANGUAGE)
    texts = [Translation("en", "boats", "Boats at noon.", TextSource.VISION), needed]
    add(empty_service, converted=result, texts=texts)
    tab = open_tab(empty_service, width, 800, **options)
    tab.page.locator(".tile").click()
    tab.wait("document.querySelector('.compare-handle')")
    found = {"a text is needed": violations(tab, axe)}
    tab.page.locator(".files summary").click()
    tab.press("z")
    tab.page.locator("[data-alt=en]").fill("x" * 251)
    tab.press("Enter")
    tab.wait("document.querySelector('.text .problem')")
    found["a text is refused, the picture zoomed, the files shown"] = violations(tab, axe)
    tab.press("Escape")
    tab.page.get_by_role("button", name="Mark as decorative").click()
    tab.wait("document.querySelector('.role-note')")
    found["decorative"] = violations(tab, axe)
    assert {name: broken for name, broken in found.items() if broken} == {}
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
