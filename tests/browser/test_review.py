"""Reviewing texts on the page: accepting with one key, states, roles, and what stays in view."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from playwright.sync_api import Route

from imgproc_local.domain.result import NeedsTextReason, Review, TextSource, Translation
from tests.browser.conftest import OpenTab, Tab, alt_text, jobs, show, wait_until, wait_until_stored
from tests.support import finished, pictures
from tests.support.service import Running

TITLE = "document.querySelector('#detail-title')?.textContent"


def written(code: str, source: TextSource = TextSource.VISION, review: Review | None = None) -> Translation:
    return Translation(code, f"boats-{code}", f"Boats at noon, {code}.", source, review=review)


MACHINE = [written("en"), written("de", TextSource.FACTS)]


def add(service: Running, name: str, texts: Sequence[Translation] = MACHINE) -> None:
    service.run(finished.add_job(service.services, pictures.jpeg(160, 120), name=name, texts=texts))


def reviews(service: Running, name: str) -> list[str | None]:
    return [text["review"] for text in jobs(service)[name]["image"]["translations"]]


def show_only_unreviewed(tab: Tab) -> None:
    tab.page.evaluate(
        "import('/static/store.js').then(({ filters, NO_FILTERS }) => "
        "filters.set({ ...NO_FILTERS, show: 'unreviewed' }))"
    )


def test_one_key_accepts_a_picture_and_goes_to_the_next_that_the_filter_shows(
    empty_service: Running, open_tab: OpenTab
) -> None:
    names = [f"{number}.jpg" for number in range(1, 6)]
    for name in names:
        add(empty_service, name, [written("en", review=Review.ACCEPTED)] if name == "3.jpg" else MACHINE)
    tab = open_tab(empty_service)
    tab.wait("document.querySelectorAll('.tile').length === 5")
    show_only_unreviewed(tab)
    tab.wait("document.querySelectorAll('.tile').length === 4")
    show(tab, "2.jpg")
    tab.page.locator(".list").focus()
    for name in ("4.jpg", "5.jpg", "1.jpg"):  # after the last picture, the one that was left out
        tab.press("Enter")
        tab.wait(f"{TITLE} === '{name}'")
    for name in ("2.jpg", "4.jpg", "5.jpg"):
        wait_until(lambda name=name: reviews(empty_service, name) == ["accepted"] * 2, f"{name} accepted")
    assert reviews(empty_service, "1.jpg") == [None, None]
    tab.wait("document.querySelectorAll('.tile').length === 1")


def test_the_button_for_all_languages_does_what_the_key_does_in_the_list(
    empty_service: Running, open_tab: OpenTab
) -> None:
    add(empty_service, "1.jpg")
    add(empty_service, "2.jpg", [written("en"), written("de", review=Review.EDITED)])
    tab = open_tab(empty_service)
    show(tab, "1.jpg")
    in_list, in_text = (tab.page.locator(f"{place} kbd") for place in (".accept-all", ".text[data-open]"))
    assert (in_list.is_visible(), in_text.is_visible()) == (True, False)
    tab.page.locator("[data-alt=de]").focus()
    assert (in_list.is_visible(), in_text.is_visible()) == (False, True)
    tab.page.get_by_role("button", name="Accept all 2 languages").click()
    tab.wait(f"{TITLE} === '2.jpg'")
    wait_until(lambda: reviews(empty_service, "1.jpg") == ["accepted"] * 2, "both texts accepted")
    assert tab.page.locator(".accept-all").count() == 0, "one text is left"
    assert in_text.is_visible()


def test_a_key_skips_to_the_next_picture_that_is_to_be_reviewed(empty_service: Running, open_tab: OpenTab) -> None:
    for name in ("1.jpg", "2.jpg", "3.jpg"):
        add(empty_service, name, [written("en", review=Review.EDITED)] if name == "2.jpg" else MACHINE)
    tab = open_tab(empty_service)
    show(tab, "1.jpg")
    for name in ("3.jpg", "1.jpg"):
        tab.press("s")
        tab.wait(f"{TITLE} === '{name}'")
    assert reviews(empty_service, "1.jpg") == [None, None]


def test_a_key_right_after_a_click_is_not_undone_by_the_address_of_the_clicked_picture(
    empty_service: Running, open_tab: OpenTab
) -> None:
    for name in ("1.jpg", "2.jpg", "3.jpg"):
        add(empty_service, name)
    tab = open_tab(empty_service)
    tab.wait("document.querySelectorAll('.tile').length === 3")
    tab.page.evaluate(
        """() => new Promise((resolve) => {
          document.querySelectorAll('.tile')[1].click();
          Promise.resolve().then(() => {
            document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 's', bubbles: true, cancelable: true }));
          });
          setTimeout(resolve, 300);
        })"""
    )
    assert tab.page.evaluate(TITLE) == "3.jpg"


def test_what_can_be_accepted_is_accepted_beside_a_text_that_a_person_has_to_write(
    empty_service: Running, open_tab: OpenTab
) -> None:
    needed = Translation("de", "boats", "Photograph.", TextSource.PIXELS, NeedsTextReason.NOTHING_KNOWN)
    add(empty_service, "1.jpg", [written("en"), needed])
    add(empty_service, "2.jpg")
    tab = open_tab(empty_service)
    show(tab, "1.jpg")
    tab.press("Enter")
    tab.wait(f"{TITLE} === '2.jpg'")
    wait_until(lambda: reviews(empty_service, "1.jpg") == ["accepted", None], "the English text accepted")
    show(tab, "1.jpg")
    tab.page.locator(".list").focus()
    tab.press("Enter")
    tab.wait("document.activeElement.dataset.alt === 'de'")


def test_the_state_of_a_text_says_what_a_person_did(empty_service: Running, open_tab: OpenTab) -> None:
    texts = [
        replace(written("en"), model="tiny@0123456789ab"),
        written("de", TextSource.FACTS),
        written("fr", TextSource.EMBEDDED),
        written("ja", TextSource.PERSON, Review.ACCEPTED),
        written("ar", TextSource.PERSON, Review.EDITED),
    ]
    add(empty_service, "1.jpg", texts)
    tab = open_tab(empty_service)
    show(tab, "1.jpg")
    states = ["not reviewed", "not reviewed", "from the file", "accepted", "edited"]
    assert tab.page.locator(".text .tag").all_inner_texts() == states
    for code, source in (("en", "written by the vision model tiny"), ("de", "from words in the file"), ("fr", "")):
        tab.page.locator(f"[data-alt={code}]").focus()
        tab.wait(f"(document.querySelector('.text-head .hint')?.textContent ?? '') === '{source}'")


@pytest.mark.parametrize("role", ["link", "button"])
def test_the_role_of_a_picture_is_named_and_says_why_its_text_is_not_regenerated(
    empty_service: Running, open_tab: OpenTab, role: str
) -> None:
    form = {"languages": ["en"], "role": role, "context": "The opening hours."}
    empty_service.process("process", pictures.jpeg(96, 64), "1.jpg", **form)
    tab = open_tab(empty_service)
    show(tab, "1.jpg")
    assert tab.text(".role-note").startswith(f"This picture is a {role}.")
    button = tab.page.get_by_role("button", name="Regenerate English")
    assert button.is_disabled()
    assert button.get_attribute("aria-describedby") == "role-note"


def test_a_decorative_picture_is_unmarked(empty_service: Running, open_tab: OpenTab) -> None:
    add(empty_service, "1.jpg")
    empty_service.process("process", pictures.jpeg(96, 64), "2.jpg", languages=["en"], role="decorative")
    tab = open_tab(empty_service)
    show(tab, "1.jpg")
    held: list[Route] = []
    tab.page.route("**/api/v1/translations", lambda route: held.append(route), times=1)  # noqa: PLW0108 - Playwright marks it
    tab.page.get_by_role("button", name="Mark as decorative").click()
    wait_until(lambda: tab.page.wait_for_timeout(20) or held, "the mark")
    tab.page.get_by_role("button", name="Not decorative").click()
    held[0].continue_()  # only now is the mark stored
    for code in ("en", "de"):
        wait_until_stored(empty_service, "1.jpg", f"Boats at noon, {code}.", code)
    tab.wait("!document.querySelector('.role-note')")
    show(tab, "2.jpg")
    tab.page.get_by_role("button", name="Not decorative").click()
    tab.wait("document.activeElement.dataset.alt === 'en'")
    tab.page.locator("[data-alt=en]").fill("Boats.")
    tab.press("Control+Enter")
    wait_until_stored(empty_service, "2.jpg", "Boats.")
    assert alt_text(tab) == "Boats."


def test_the_reason_why_a_text_is_not_regenerated_leaves_with_its_picture(
    empty_service: Running, open_tab: OpenTab
) -> None:
    for name in ("1.jpg", "2.jpg"):
        reason = NeedsTextReason.NOTHING_KNOWN
        add(empty_service, name, [Translation("en", "photo", "Photograph.", TextSource.PIXELS, reason)])
    tab = open_tab(empty_service)
    show(tab, "1.jpg")
    tab.press("r")
    tab.wait("document.querySelector('.notice')?.textContent.includes('nothing to write this text from')")
    tab.press("j")
    tab.wait("!document.querySelector('.notice')")
