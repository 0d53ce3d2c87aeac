"""What pictures are for: the role of new ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import OpenTab, Tab, jobs
from tests.support import pictures
from tests.support.service import Running


def add(tab: Tab, name: str) -> None:
    chosen: Any = {"name": name, "mimeType": "image/jpeg", "buffer": pictures.jpeg(64, 48, seed=len(name))}
    tab.page.locator(".file-input").set_input_files([chosen])


@pytest.mark.parametrize(
    ("role", "field", "context"),
    [
        ("Content", "What the pictures are for", ""),
        ("Decoration (no alt text)", None, ""),
        ("Link", "Where the link leads", "The opening hours."),
        ("Button", "What the button does", "Searches the catalogue."),
    ],
)
def test_pictures_are_added_with_their_role_and_the_next_ones_without(
    empty_service: Running, open_tab: OpenTab, role: str, field: str | None, context: str
) -> None:
    tab = open_tab(empty_service)
    tab.page.get_by_label("Role on the page").select_option(role)
    labels = ("What the pictures are for", "Where the link leads", "What the button does")
    assert [label for label in labels if tab.page.get_by_label(label).count()] == [field][: field is not None]
    if field and context:
        tab.page.get_by_label(field).fill(context)
    add(tab, "1.jpg")
    tab.wait_for_count("Done", 1)
    expected = {"Content": "informative", "Decoration (no alt text)": "decorative"}.get(role, role.lower())
    assert jobs(empty_service)["1.jpg"]["image"]["details"]["role"] == expected
    tab.press("n")
    assert tab.page.get_by_label("Role on the page").input_value() == "informative"


def test_a_link_without_its_target_is_refused_with_the_reason(empty_service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(empty_service)
    tab.page.get_by_label("Role on the page").select_option("Link")
    add(tab, "1.jpg")
    tab.wait("document.querySelector('.refused li')")
    assert "where the link leads" in tab.text(".refused li")
