"""Choosing many pictures: with the mouse, by keyboard, and on a touch screen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import PICTURE_COUNT, WITHOUT_TEXT, OpenTab, Tab, choose_filter, wait_until
from tests.support.service import Running


def selected(tab: Tab) -> list[int]:
    """The places of the selected pictures in the list, from 1."""
    places: list[int] = tab.page.evaluate(
        "[...document.querySelectorAll('.tile[aria-selected=true]')].map((tile) => Number(tile.ariaPosInSet)).sort()"
    )
    return places


def wait_for_selected(tab: Tab, *places: int) -> None:
    wait_until(lambda: selected(tab) == list(places), f"{places} are selected, not {selected(tab)}")


def tile(tab: Tab, place: int) -> Any:
    return tab.page.locator(f".tile[aria-posinset='{place}']")


def draw(tab: Tab, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Press the button of the mouse at one place, move it to another, and release it."""
    mouse = tab.page.mouse
    mouse.move(*start)
    mouse.down()
    mouse.move(*end, steps=5)
    mouse.up()


def middle(tab: Tab, place: int) -> tuple[float, float]:
    box = tile(tab, place).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_clicks_select_with_control_and_shift(tab: Tab) -> None:
    tile(tab, 2).click()
    assert selected(tab) == []
    tile(tab, 4).click(modifiers=["Shift"])
    wait_for_selected(tab, 2, 3, 4)
    tile(tab, 3).click(modifiers=["Control"])
    wait_for_selected(tab, 2, 4)
    tile(tab, 1).locator(".check").click(force=True)
    wait_for_selected(tab, 1, 2, 4)


def test_a_rectangle_selects_the_pictures_that_it_touches(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 1280, "height": 1000})
    area = tab.page.locator(".list").bounding_box()
    last = tile(tab, PICTURE_COUNT).bounding_box()
    below = (area["x"] + 5, last["y"] + last["height"] + 60)
    draw(tab, below, middle(tab, PICTURE_COUNT))
    assert PICTURE_COUNT in selected(tab)
    assert tab.page.locator(".band").count() == 0
    tab.press("Escape")
    wait_for_selected(tab)
    # from a check, what was selected remains
    tile(tab, 4).click(modifiers=["Control"])
    check = tile(tab, 1).locator(".check").bounding_box()
    draw(tab, (check["x"] + 15, check["y"] + 15), middle(tab, 2))
    wait_for_selected(tab, 1, 2, 4)
    draw(tab, below, (below[0] + 10, below[1] + 10))
    wait_for_selected(tab)


def test_all_that_the_filter_shows_are_selected_wherever_the_focus_is(tab: Tab) -> None:
    choose_filter(tab, "Needs text")
    tab.wait(f"document.querySelectorAll('.tile').length === {len(WITHOUT_TEXT)}")
    tab.press("Control+a")
    tab.wait("document.querySelector('.selection-bar')")
    assert selected(tab) == [1, 2]


@pytest.fixture
def touch(service: Running, open_tab: OpenTab) -> Tab:
    opened = open_tab(service, width=390, height=800, has_touch=True, is_mobile=True)
    opened.wait(f"document.querySelectorAll('.tile').length === {PICTURE_COUNT}")
    return opened


def test_on_a_touch_screen_a_long_press_begins_a_selection(touch: Tab) -> None:
    x, y = middle(touch, 2)
    devtools = touch.page.context.new_cdp_session(touch.page)
    devtools.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    wait_for_selected(touch, 2)
    devtools.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    tile(touch, 4).tap()
    wait_for_selected(touch, 2, 4)
    assert touch.page.evaluate("document.querySelector('.list').checkVisibility()"), "no picture was opened"


def test_shortcuts_of_one_letter_can_be_switched_off(tab: Tab) -> None:
    tab.press("?")
    choice = tab.page.get_by_label("Shortcuts of a single letter or sign")
    choice.uncheck()
    tab.press("Escape")
    tab.wait("!document.querySelector('dialog')")
    tab.press("e", "n", "?", "/")
    assert tab.page.locator("dialog").count() == 0
    assert tab.page.evaluate("document.activeElement.type") != "search"
    tab.page.reload()
    tab.wait("document.querySelector('.tile')")
    tab.page.get_by_role("button", name="Keyboard shortcuts").click()
    assert not choice.is_checked()
    choice.check()
    tab.press("Escape", "n")
    tab.wait("document.querySelector('dialog')?.ariaLabel === 'Add pictures'")
