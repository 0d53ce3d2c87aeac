"""The comparison on the page: zoom, full screen, and files that a browser can't show."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import OpenTab, Tab, show
from tests.support import finished, pictures
from tests.support.finished import Format, Result
from tests.support.service import Running

SIZE = (1600, 1200)
DETAIL_PICTURE = "document.querySelector('.detail-picture')"


def add(service: Running, name: str, **options: Any) -> None:
    result = Result(pictures.jpeg(*SIZE, seed=2), Format.JPEG)
    service.run(finished.add_job(service.services, pictures.jpeg(*SIZE), name=name, optimized=result, **options))


@pytest.fixture
def tab(empty_service: Running, open_tab: OpenTab) -> Tab:
    """The page with two pictures of `SIZE`, of which the first is shown."""
    for name in ("1.jpg", "2.jpg"):
        add(empty_service, name)
    opened = open_tab(empty_service, 1440, 900)
    show(opened, "1.jpg")
    opened.wait("document.querySelector('.compare-handle')")
    return opened


def place(tab: Tab, selector: str = ".compare-layer img") -> tuple[float, float, float]:
    """The left and upper edge and the width of an element, in pixels of the page."""
    box = tab.page.locator(selector).first.bounding_box()
    assert box is not None
    return box["x"], box["y"], box["width"]


def percent(tab: Tab) -> int:
    return int(tab.page.locator("[aria-keyshortcuts=z]").inner_text().removesuffix(" %"))


def test_the_wheel_zooms_about_the_pointer_from_fitted_to_400_percent(tab: Tab) -> None:
    fitted = percent(tab)
    assert 10 < fitted < 60
    left, top, width = place(tab)
    x, y = left + 0.3 * width, top + 0.4 * width * SIZE[1] / SIZE[0]
    tab.page.mouse.move(x, y)
    tab.page.mouse.wheel(0, -600)
    tab.wait(f"parseInt(document.querySelector('[aria-keyshortcuts=z]').textContent) > {fitted}")
    left, top, width = place(tab)
    assert (x - left) / width == pytest.approx(0.3, abs=0.01)
    assert (y - top) / (width * SIZE[1] / SIZE[0]) == pytest.approx(0.4, abs=0.01)
    for _ in range(5):
        tab.page.mouse.wheel(0, -600)
    tab.wait("document.querySelector('[aria-keyshortcuts=z]').textContent === '400 %'")
    assert tab.page.get_by_role("button", name="Zoom in").is_disabled()
    for _ in range(8):
        tab.page.mouse.wheel(0, 600)
    tab.wait(f"document.querySelector('[aria-keyshortcuts=z]').textContent === '{fitted} %'")
    assert tab.page.get_by_role("button", name="Zoom out").is_disabled()


def test_a_zoomed_picture_is_dragged_and_fills_the_stage(tab: Tab) -> None:
    tab.press("z")
    tab.wait("document.querySelector('.compare.zoomed')")
    assert (percent(tab), place(tab)[2]) == (100, SIZE[0])
    stage_left, stage_top, stage_width = place(tab, ".compare")
    left, top, _ = place(tab)
    x, y = stage_left + 100, stage_top + 100
    tab.page.mouse.move(x, y)
    tab.page.mouse.down()
    tab.page.mouse.move(x + 60, y + 30, steps=4)
    tab.wait(f"document.querySelector('.compare-layer img').getBoundingClientRect().left === {left + 60}")
    assert place(tab)[1] == top + 30
    for step in range(1, 6):
        tab.page.mouse.move(x + 60 + 300 * step, y + 30)
    tab.page.mouse.up()
    tab.wait(f"document.querySelector('.compare-layer img').getBoundingClientRect().left === {stage_left}")
    tab.page.get_by_role("button", name="Zoom in").click()
    assert percent(tab) == 150
    tab.page.get_by_role("group", name="Comparison at 150 %").press("ArrowRight")
    tab.press("z")
    tab.wait("!document.querySelector('.compare.zoomed')")
    assert place(tab)[2] <= stage_width


def test_two_fingers_zoom(tab: Tab) -> None:
    left, top, width = place(tab, ".compare")
    middle = (left + width / 2, top + 200)
    touches = tab.context.new_cdp_session(tab.page)

    def touch(kind: str, spread: float) -> None:
        points = [{"x": middle[0] + side * spread, "y": middle[1], "id": side} for side in (-1, 1)]
        touches.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points if kind != "touchEnd" else []})

    fitted = percent(tab)
    touch("touchStart", 40)
    touch("touchMove", 60)
    touch("touchMove", 120)
    touch("touchEnd", 0)
    tab.wait(f"parseInt(document.querySelector('[aria-keyshortcuts=z]').textContent) > {2 * fitted}")
    assert percent(tab) == pytest.approx(3 * fitted, abs=2), "the fingers are three times as far apart"


def test_full_screen_has_the_keys_of_the_list_and_returns_the_focus(tab: Tab) -> None:
    tab.page.locator(".list").focus()
    tab.press("f")
    tab.wait(f"document.fullscreenElement === {DETAIL_PICTURE} && document.activeElement === {DETAIL_PICTURE}")
    tab.press("ArrowRight")
    tab.wait("document.querySelector('#detail-title').textContent === '2.jpg'")
    assert tab.page.evaluate(f"document.fullscreenElement === {DETAIL_PICTURE}")
    tab.press("f")
    tab.wait("document.fullscreenElement === null")
    tab.wait("document.activeElement.matches('.list')")


def test_a_file_that_browsers_do_not_show_is_compared_by_its_preview(empty_service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(empty_service)
    tab.drop({"1.tiff": pictures.encoded(pictures.photo(96, 64), "TIFF")})
    tab.wait("document.querySelector('.compare-handle')")
    assert tab.text(".compare-note") == "This browser can't show the original, but a small preview of it."
    assert tab.page.locator(".compare-layer img").first.get_attribute("alt") == "1.tiff, original"
