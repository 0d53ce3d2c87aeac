"""What pictures are for: the role of new ones, suggestions, marking as decorative, long descriptions."""

from __future__ import annotations

from typing import Any

import pytest

from imgproc_local.domain.result import RoleSuggestion, SuggestedRole, TextSource, Translation
from tests.browser.conftest import (
    OpenTab,
    Tab,
    alt_text,
    jobs,
    open_option,
    show,
    translation,
    wait_for_text,
    wait_until_stored,
)
from tests.support import finished, pictures
from tests.support.service import Running

TEXTS = [
    Translation("en", "sales", "Sales by year.", TextSource.VISION, long_description="Sales rose each year."),
    Translation("de", "umsatz", "Umsatz je Jahr.", TextSource.VISION),
]


def shown(service: Running, open_tab: OpenTab, suggested: SuggestedRole | None) -> Tab:
    """The page with one picture, `1.jpg`, for which a role is suggested."""
    suggestion = suggested and RoleSuggestion(suggested, "Nothing changes from left to right.")
    original = pictures.jpeg(320, 240)
    service.run(finished.add_job(service.services, original, name="1.jpg", texts=TEXTS, suggestion=suggestion))
    tab = open_tab(service)
    show(tab, "1.jpg")
    return tab


def add(tab: Tab, name: str) -> None:
    chosen: Any = {"name": name, "mimeType": "image/jpeg", "buffer": pictures.jpeg(64, 48, seed=len(name))}
    tab.page.locator(".file-input").set_input_files([chosen])


@pytest.mark.parametrize(
    ("role", "field", "context"),
    [
        ("Content", "What the pictures are for", ""),
        ("Decoration no alt text", None, ""),
        ("Link", "Where the link leads", "The opening hours."),
        ("Button", "What the button does", "Searches the catalogue."),
    ],
)
def test_pictures_are_added_with_their_role_and_the_next_ones_without(
    empty_service: Running, open_tab: OpenTab, role: str, field: str | None, context: str
) -> None:
    tab = open_tab(empty_service)
    open_option(tab, "Role")
    tab.page.get_by_label(role, exact=True).check()
    labels = ("What the pictures are for", "Where the link leads", "What the button does")
    assert [label for label in labels if tab.page.get_by_label(label).count()] == [field][: field is not None]
    if field and context:
        tab.page.get_by_label(field).fill(context)
    add(tab, "1.jpg")
    tab.wait_for_count("Done", 1)
    expected = {"Content": "informative", "Decoration no alt text": "decorative"}.get(role, role.lower())
    assert jobs(empty_service)["1.jpg"]["image"]["details"]["role"] == expected
    tab.press("n")
    open_option(tab, "Role")
    assert tab.page.get_by_label("Content").is_checked()
    assert tab.page.get_by_label("What the pictures are for").input_value() == ""


def test_a_link_without_its_target_is_not_sent_and_its_role_remains(empty_service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(empty_service)
    open_option(tab, "Role")
    tab.page.get_by_label("Link", exact=True).check()
    add(tab, "1.jpg")
    tab.wait("document.querySelector('.refused li')")
    assert "Write where the link leads first" in tab.text(".refused li")
    assert jobs(empty_service) == {}
    tab.page.get_by_label("Where the link leads").fill("The opening hours.")
    add(tab, "1.jpg")
    tab.wait_for_count("Done", 1)
    assert jobs(empty_service)["1.jpg"]["image"]["details"]["role"] == "link"


@pytest.mark.parametrize(
    ("suggested", "words"),
    [
        (SuggestedRole.DECORATIVE, "This seems to be decoration. Nothing changes from left to right."),
        (SuggestedRole.TEXT, "This seems to be an image of text. Nothing changes from left to right."),
        (SuggestedRole.CHART, "This seems to be a chart, a diagram or a map. Nothing changes from left to right."),
        (SuggestedRole.LOGO, "This seems to be a logo. Nothing changes from left to right."),
        (SuggestedRole.INFORMATIVE, ""),
        (None, ""),
    ],
)
def test_a_suggestion_is_shown_with_its_reason_and_changes_nothing(
    empty_service: Running, open_tab: OpenTab, suggested: SuggestedRole | None, words: str
) -> None:
    tab = shown(empty_service, open_tab, suggested)
    assert tab.text(".role-note") == words
    assert alt_text(tab) == "Sales by year."


def test_a_picture_is_marked_as_decorative_in_all_languages_and_back(empty_service: Running, open_tab: OpenTab) -> None:
    tab = shown(empty_service, open_tab, SuggestedRole.DECORATIVE)
    for undo in (
        lambda: tab.page.get_by_role("status").get_by_role("button", name="Undo").click(),
        lambda: tab.press("Control+z"),
    ):
        tab.page.get_by_role("button", name="Mark as decorative").click()
        for code in ("en", "de"):
            wait_until_stored(empty_service, "1.jpg", "", code)
        tab.wait("document.querySelector('p.role-note')?.textContent.startsWith('Decorative')")
        tags = "[...document.querySelectorAll('.text-head .tag')].map((tag) => tag.innerText)"
        tab.wait(f"{tags}.join() === 'decorative,decorative'")
        undo()
        for text in TEXTS:
            wait_for_text(tab, text.seo_alt_text, text.language_code)
            wait_until_stored(empty_service, "1.jpg", "vision", text.language_code, field="source")


def test_an_emptied_text_is_not_taken_for_decorative(empty_service: Running, open_tab: OpenTab) -> None:
    tab = shown(empty_service, open_tab, None)
    tab.page.locator("[data-alt=en]").fill("")
    tab.press("Enter")
    tab.wait("document.querySelector('.text .problem')")
    assert "press “Mark as decorative”" in tab.text(".text .problem")
    assert translation(empty_service, "1.jpg")["seo_alt_text"] == "Sales by year."


def test_a_long_description_is_shown_edited_added_and_undone(empty_service: Running, open_tab: OpenTab) -> None:
    tab = shown(empty_service, open_tab, SuggestedRole.CHART)
    english = tab.page.get_by_label("Long description, English")
    assert english.input_value() == "Sales rose each year."
    english.fill("Sales rose\nfrom 2 to 5 million.")
    tab.page.locator("[data-alt=de]").focus()
    tab.page.get_by_role("button", name="Add long description, German").click()
    german = tab.page.get_by_label("Long description, German")
    tab.wait("document.activeElement.ariaLabel === 'Long description, German'")
    wait_until_stored(empty_service, "1.jpg", "Sales rose from 2 to 5 million.", field="long_description")
    assert translation(empty_service, "1.jpg")["source"] == "vision", "the alt text was not accepted with it"
    german.fill("Der Umsatz stieg.")
    tab.press("Tab")
    wait_until_stored(empty_service, "1.jpg", "Der Umsatz stieg.", "de", field="long_description")
    tab.press("Escape", "Control+z")
    wait_until_stored(empty_service, "1.jpg", "", "de", field="long_description")
    tab.press("Control+z")
    wait_until_stored(empty_service, "1.jpg", "Sales rose each year.", field="long_description")
    tab.page.locator("[data-alt=en]").focus()
    tab.wait("document.querySelector('textarea.long').value === 'Sales rose each year.'")
