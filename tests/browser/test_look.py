"""The look of all views: one measure, three sizes of type, motion that can be switched off, forced colours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import NumberedDescriber, OpenTab, Tab
from tests.support import pictures
from tests.support.service import Running, running

PAGES = ["models", "settings", "access"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("data"), NumberedDescriber) as started:
        for number in range(1, 5):
            started.process("process", pictures.jpeg(96, 64, seed=number), f"{number}.jpg")
        yield started


def show_view(tab: Tab, view: str) -> None:
    tab.page.evaluate(f"location.hash = {json.dumps(view)}")
    tab.wait(f"document.querySelector('main').classList.contains('view-{view}')")
    tab.page.wait_for_timeout(400)


def style_of(tab: Tab, selector: str, name: str, pseudo: str = "") -> Any:
    """The computed value of a style of the first element that `selector` matches, once there is one."""
    tab.wait(f"document.querySelector({json.dumps(selector)})")
    found = f"getComputedStyle(document.querySelector({json.dumps(selector)}), {json.dumps(pseudo)})"
    return tab.page.evaluate(f"{found}[{json.dumps(name)}]")


@pytest.mark.parametrize("view", PAGES)
def test_a_page_of_text_has_one_measure_and_three_sizes_of_type(service: Running, open_tab: OpenTab, view: str) -> None:
    tab = open_tab(service, width=2560, height=1440)
    show_view(tab, view)
    box = "document.querySelector('.panel').getBoundingClientRect()"
    assert tab.page.evaluate(f"[{box}.width, Math.round({box}.left + {box}.right)]") == [992, 2560]
    sizes = tab.page.evaluate(
        "[...new Set([...document.querySelectorAll('.panel *')].filter((each) => each.checkVisibility()"
        " && [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== '')"
        " && each.closest('code') === null).map((each) => getComputedStyle(each).fontSize))].sort()"
    )
    assert set(sizes) <= {"13px", "14px", "20px"}


def test_every_view_is_named_in_full_in_the_header_at_360_pixels(service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(service, width=360, height=740)
    assert tab.page.evaluate("document.querySelector('.top').getBoundingClientRect().height") < 50
    cut = "({ left, right }) => left < 0 || right > 360"
    boxes = "[...document.querySelectorAll('.views a')].map((link) => link.getBoundingClientRect())"
    assert tab.page.evaluate(f"{boxes}.filter({cut}).length") == 0


def test_transitions_take_120_ms_unless_motion_is_reduced(service: Running, open_tab: OpenTab) -> None:
    for preference, expected in (("no-preference", "0.12s"), ("reduce", "0s")):
        tab = open_tab(service, reduced_motion=preference)
        show_view(tab, "models")
        assert set(style_of(tab, ".panel button", "transitionDuration").split(", ")) == {expected}
        assert set(style_of(tab, ".panel", "transitionDuration").split(", ")) == {expected}


def test_forced_colours_tell_current_pressed_and_finished_apart(service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(service, forced_colors="active")
    tab.wait("document.querySelector('.tile .status[data-state=done]')")
    for chosen, other in (
        (".views a[aria-current]", ".views a:not([aria-current])"),
        (".segments [aria-pressed=true]", ".segments [aria-pressed=false]"),
    ):
        assert style_of(tab, chosen, "backgroundColor") != style_of(tab, other, "backgroundColor"), chosen
    done = style_of(tab, ".status[data-state=done]", "backgroundColor", "::before")
    assert done != style_of(tab, "body", "backgroundColor")
    assert style_of(tab, ".tile[data-current]", "outlineStyle") == "solid"
