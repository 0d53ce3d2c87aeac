"""Texts that a person has to write: why, what is known, and where the page lists them."""

from __future__ import annotations

import pytest

from imgproc_local.domain.result import NeedsTextReason, TextSource, Translation
from tests.browser.conftest import OpenTab, Tab, alt_text, choose_filter, show, translation, wait_until_stored
from tests.support import finished, pictures
from tests.support.service import Running

KNOWN = "Vermerk auf Englisch: “Boats at noon”."
REASONS = {
    NeedsTextReason.NOTHING_KNOWN: "Nothing is known but kind and date. Write in German what the picture shows.",
    NeedsTextReason.OTHER_LANGUAGE: "What is known is in another language. Write the text in German.",
    NeedsTextReason.PLACE_OR_DATE_ONLY: "Only a place or a date is known. Write in German what the picture shows.",
    NeedsTextReason.UNREAD_TEXT: "The picture shows text that could not be read. Write in German what it says.",
}


def add(service: Running, name: str, reason: NeedsTextReason | None) -> None:
    """Store a picture whose German text needs a person for `reason`, and whose English one does not."""
    texts = [
        Translation("en", "boats", "Boats at noon.", TextSource.EMBEDDED),
        Translation("de", "boats", KNOWN, TextSource.FACTS, reason),
    ]
    service.run(finished.add_job(service.services, pictures.jpeg(320, 240), name=name, texts=texts))


def german(tab: Tab) -> str:
    """The words of the German text on the page, without those of its fields."""
    return " ".join(tab.page.locator(".text", has=tab.page.locator("[data-alt=de]")).locator("p").all_inner_texts())


@pytest.mark.parametrize("reason", REASONS)
def test_the_page_says_why_a_text_is_needed_and_keeps_what_is_known_in_view(
    empty_service: Running, open_tab: OpenTab, reason: NeedsTextReason
) -> None:
    add(empty_service, "1.jpg", reason)
    tab = open_tab(empty_service)
    show(tab, "1.jpg")
    field = tab.page.locator("[data-alt=de]")
    assert (alt_text(tab, "en"), alt_text(tab, "de")) == ("Boats at noon.", "")
    described = field.get_attribute("aria-describedby") or ""
    assert tab.page.locator(f"#{described.split()[0].replace(':', chr(92) + ':')}").inner_text() == REASONS[reason]
    assert german(tab) == f"{REASONS[reason]} {KNOWN}"
    field.fill("Boote am Mittag.")
    assert tab.page.get_by_text(KNOWN).is_visible(), "the words can be translated while they are in view"
    tab.press("Control+Enter")
    wait_until_stored(empty_service, "1.jpg", "Boote am Mittag.", "de")
    tab.wait("!document.querySelector('.reason')")


def test_what_is_known_is_only_accepted_by_a_decision(empty_service: Running, open_tab: OpenTab) -> None:
    add(empty_service, "1.jpg", NeedsTextReason.OTHER_LANGUAGE)
    add(empty_service, "2.jpg", NeedsTextReason.NOTHING_KNOWN)
    tab = open_tab(empty_service)
    start = tab.page.get_by_role("button", name="Start from this text, German")
    show(tab, "2.jpg")
    assert start.count() == 0, "a kind and a date are no beginning"
    show(tab, "1.jpg")
    start.click()
    assert alt_text(tab, "de") == KNOWN
    assert tab.page.evaluate("document.activeElement.dataset.alt") == "de"
    tab.page.get_by_label("File name").last.fill("boote")  # leaves the field
    tab.page.locator("[data-alt=de]").click()
    wait_until_stored(empty_service, "1.jpg", "boote", "de", field="seo_filename")
    assert translation(empty_service, "1.jpg", "de")["needs_text"]
    assert alt_text(tab, "de") == KNOWN
    tab.press("Control+Enter")
    wait_until_stored(empty_service, "1.jpg", "person", "de", field="source")
    assert translation(empty_service, "1.jpg", "de")["seo_alt_text"] == KNOWN


def test_pictures_that_need_a_text_come_first_and_are_listed_as_missing_in_its_language(
    empty_service: Running, open_tab: OpenTab
) -> None:
    for number, reason in enumerate([None, *REASONS, None], start=1):
        add(empty_service, f"{number}.jpg", reason)
    tab = open_tab(empty_service)
    tab.wait_for_count("Needs text", len(REASONS))
    assert tab.names() == ["2.jpg", "3.jpg", "4.jpg", "5.jpg", "1.jpg", "6.jpg"]
    for language, names in (("German missing", ["2.jpg", "3.jpg", "4.jpg", "5.jpg"]), ("English missing", [])):
        choose_filter(tab, "Language missing", language)
        tab.wait(f"document.querySelectorAll('.tile').length === {len(names)}")
        assert tab.names() == names
