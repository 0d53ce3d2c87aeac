"""The same text in two tabs: nothing that a person wrote is replaced unseen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import (
    OpenTab,
    Tab,
    alt_text,
    jobs,
    show,
    translation,
    wait_for_text,
    wait_until_stored,
)
from tests.support import pictures
from tests.support.service import Running


@pytest.fixture
def tab(empty_service: Running, open_tab: OpenTab) -> Tab:
    """The page with a draft that another tab has overtaken: "Mine." was typed before "Theirs." was stored."""
    for number in (1, 2):
        empty_service.process("analyze", pictures.jpeg(96, 64, seed=number), f"{number}.jpg", languages=["en", "de"])
    opened, other = open_tab(empty_service), open_tab(empty_service)
    for each in (opened, other):
        show(each, "1.jpg")
    opened.page.locator("[data-alt=en]").fill("Mine.")
    other.page.locator("[data-alt=en]").fill("Theirs.")
    other.press("Control+Enter")
    wait_until_stored(empty_service, "1.jpg", "Theirs.")
    return opened


def conflict(tab: Tab) -> Any:
    return tab.page.get_by_role("alert").filter(has_text="changed elsewhere")


@pytest.mark.parametrize(("button", "text"), [("Take this one", "Theirs."), ("Keep mine", "Mine.")])
def test_a_draft_that_was_overtaken_is_not_saved_before_a_decision(
    tab: Tab, empty_service: Running, button: str, text: str
) -> None:
    answers: list[Any] = []
    tab.page.on("response", lambda answer: answers.append(answer) if answer.request.method == "PATCH" else None)
    for keys in ("Enter", "Enter", "Tab"):
        tab.page.locator("[data-alt=en]").press(keys)
        conflict(tab).wait_for()
        assert alt_text(tab) == "Mine."
    assert len(answers) == 1, "what was refused is not sent again"
    assert translation(empty_service, "1.jpg")["seo_alt_text"] == "Theirs."
    assert "Theirs." in conflict(tab).inner_text()
    tab.page.get_by_role("button", name=button).click()
    conflict(tab).wait_for(state="detached")
    wait_for_text(tab, text)
    wait_until_stored(empty_service, "1.jpg", text)
    image_id = jobs(empty_service)["1.jpg"]["image"]["id"]
    if text == "Mine.":
        undone = empty_service.client.post(f"/images/{image_id}/translations/en/undo").json()["data"]
        assert undone["seo_alt_text"] == "Theirs.", "the other text is a version"


def test_a_draft_that_was_overtaken_can_be_copied_after_the_picture_was_left(tab: Tab, empty_service: Running) -> None:
    show(tab, "2.jpg")
    tab.wait("document.querySelector('.notice')?.textContent.includes('It was: Mine.')")
    assert translation(empty_service, "1.jpg")["seo_alt_text"] == "Theirs."


def test_changes_of_one_tab_in_quick_succession_are_no_conflict(empty_service: Running, open_tab: OpenTab) -> None:
    empty_service.process("analyze", pictures.jpeg(96, 64), "1.jpg", languages=["en"])
    tab = open_tab(empty_service)
    show(tab, "1.jpg")
    next_request = tab.hold("**/translations**")
    for number in range(3):
        tab.page.locator("[data-alt=en]").fill(f"Text {number}.")
        tab.press("Control+Enter")
    for _ in range(3):
        next_request().continue_()
    wait_until_stored(empty_service, "1.jpg", "Text 2.")
    tab.wait("document.querySelector('.text .tag').textContent === 'edited'")
    assert conflict(tab).count() == 0
