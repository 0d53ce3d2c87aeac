"""Editing texts on the page: saving, accepting, regenerating, undo and redo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from imgproc_local.domain.result import TextSource, Translation
from tests.browser.conftest import (
    NumberedDescriber,
    OpenTab,
    Tab,
    alt_text,
    jobs,
    show,
    translation,
    wait_for_text,
    wait_until,
    wait_until_stored,
)
from tests.support import pictures
from tests.support.service import Running, running


def test_a_text_is_edited_undone_and_redone(tab: Tab, service: Running) -> None:
    show(tab, "1.jpg")
    before = alt_text(tab)
    tab.page.locator("[data-alt=en]").fill("A harbour at dusk.")
    assert "18 of 125" in tab.text(".gauge")
    tab.press("Control+Enter")
    tab.wait("[...document.querySelectorAll('.text .tag')].some((tag) => tag.textContent === 'edited')")
    assert translation(service, "1.jpg")["seo_alt_text"] == "A harbour at dusk."
    assert translation(service, "1.jpg")["source"] == "person"
    tab.press("Escape", "Control+z")
    wait_for_text(tab, before)
    wait_until_stored(service, "1.jpg", before)
    tab.press("Control+Shift+z")
    wait_for_text(tab, "A harbour at dusk.")
    tab.page.get_by_role("button", name="Undo English").click()
    wait_for_text(tab, before)
    wait_until_stored(service, "1.jpg", "vision", field="source")
    # the confirmation of a saved text offers the undo too
    tab.page.locator("[data-alt=en]").fill("A crane on the quay.")
    tab.press("Control+Enter")
    tab.page.get_by_role("status").filter(has_text="Saved.").get_by_role("button", name="Undo").click()
    wait_for_text(tab, before)
    wait_until_stored(service, "1.jpg", before)
    tab.page.get_by_role("status").filter(has_text="Undone.").wait_for()


def test_a_text_is_stored_when_the_user_goes_to_another_picture(tab: Tab, service: Running) -> None:
    show(tab, "2.jpg")
    tab.page.locator("[data-alt=de]").fill("Ein Hafen.")
    tab.page.get_by_label("File name").last.fill("Am Großen  Hafen!")
    show(tab, "3.jpg")
    wait_until_stored(service, "2.jpg", "Ein Hafen.", "de")
    wait_until_stored(service, "2.jpg", "am-grossen-hafen", "de", field="seo_filename")
    show(tab, "2.jpg")
    tab.page.locator("[data-alt=de]").focus()
    # until the answer arrives, the page shows what was typed
    wait_until(lambda: tab.page.get_by_label("File name").last.input_value() == "am-grossen-hafen", "the stored name")
    assert alt_text(tab, "de") == "Ein Hafen."


def test_a_text_is_stored_when_the_user_is_about_to_leave_the_page(tab: Tab, service: Running) -> None:
    show(tab, "3.jpg")
    questions: list[str] = []

    def stay(dialog: Any) -> None:
        questions.append(dialog.type)
        dialog.dismiss()

    tab.page.on("dialog", stay)
    tab.page.locator("[data-alt=en]").click()  # a browser asks only a user who did something on the page
    tab.page.locator("[data-alt=en]").fill("Nets dry on the quay")
    tab.page.evaluate("setTimeout(() => location.reload())")
    tab.wait("document.querySelector('.text-head .tag.good')")
    assert questions == ["beforeunload"]
    assert translation(service, "3.jpg")["seo_alt_text"] == "Nets dry on the quay"


def test_what_is_not_accepted_remains_with_the_reason_and_can_be_copied(tab: Tab, service: Running) -> None:
    show(tab, "4.jpg")
    for keys in ("Control+Enter", "Enter"):  # a text that a person has to write, unchanged
        tab.page.locator("[data-alt=de]").press(keys)
        tab.wait("document.querySelector('.text .problem')")
        assert translation(service, "4.jpg", "de")["needs_text"]
    show(tab, "3.jpg")
    stored, refused = alt_text(tab), "x" * 251
    tab.page.locator("[data-alt=en]").fill(refused)
    tab.press("Enter")
    tab.wait("document.querySelector('.text .problem')")
    assert tab.text(".text .problem").startswith("Alt text must have 1 to 250 characters")
    assert alt_text(tab) == refused
    tab.press("Escape")
    assert alt_text(tab) == stored
    tab.page.locator("[data-alt=en]").fill(refused)
    show(tab, "2.jpg")
    tab.wait("document.querySelector('.notice')")
    assert "The text of 3.jpg in English was not saved" in tab.text(".notice")
    assert refused in tab.text(".notice"), "the user can copy what was typed"
    assert translation(service, "3.jpg")["seo_alt_text"] == stored


def test_an_undo_waits_for_the_answer_to_the_change_before_it(tab: Tab, service: Running) -> None:
    show(tab, "1.jpg")
    before = translation(service, "1.jpg")
    next_request = tab.hold("**/translations")
    tab.page.locator("[data-alt=en]").fill("On its way.")
    tab.press("Control+Enter", "Escape", "Control+z")
    request = next_request()
    tab.page.wait_for_timeout(100)  # an undo that did not wait would be sent meanwhile
    assert alt_text(tab) == "On its way."
    request.continue_()
    wait_for_text(tab, before["seo_alt_text"])
    wait_until_stored(service, "1.jpg", before["seo_alt_text"])
    assert translation(service, "1.jpg") == before


def test_a_change_elsewhere_is_shown(tab: Tab, service: Running) -> None:
    show(tab, "7.jpg")
    image_id = jobs(service)["7.jpg"]["image"]["id"]
    before = alt_text(tab)
    changed = service.client.patch(f"/images/{image_id}/translations/en", json={"seo_alt_text": "Changed elsewhere."})
    assert changed.status_code == 200
    wait_for_text(tab, "Changed elsewhere.")
    assert service.client.post(f"/images/{image_id}/translations/en/undo").status_code == 200
    wait_for_text(tab, before)


def test_a_text_of_a_person_is_regenerated_only_after_a_confirmation(tab: Tab, service: Running) -> None:
    show(tab, "6.jpg")
    own = "Boats in the morning."
    tab.page.locator("[data-alt=en]").fill(own)
    tab.press("Control+Enter")
    wait_until_stored(service, "6.jpg", own)
    title = "Replace a text that a person wrote?"
    tab.page.get_by_role("button", name="Regenerate English").click()
    assert tab.text("dialog h2") == title
    assert tab.text("dialog .lost") == own, "the user sees what would be lost"
    assert "No model is in use" in tab.text("dialog p")
    tab.page.get_by_role("button", name="Cancel").click()
    tab.press("Escape", "r")
    tab.wait("document.querySelector('dialog[open]')")
    assert tab.text("dialog h2") == title
    tab.press("Escape")
    tab.wait("!document.querySelector('dialog')")
    assert translation(service, "6.jpg")["seo_alt_text"] == own
    german = translation(service, "6.jpg", "de")["seo_alt_text"]
    tab.press("r")
    tab.page.locator("dialog").get_by_role("button", name="Replace").click()
    for code, before in (("en", own), ("de", german)):
        tab.wait(f"document.querySelector('[data-alt={code}]').value !== {json.dumps(before)}")
    tab.press("Control+z")
    wait_for_text(tab, own)
    wait_for_text(tab, german, "de")


class EmbeddedDescriber(NumberedDescriber):
    """Finds texts that a person wrote into the file."""

    def describe(self, image: Any, languages: Any, hints: Any, check_stop: Any) -> tuple[Translation, ...]:
        texts = super().describe(image, languages, hints, check_stop)
        return tuple(replace(text, source=TextSource.EMBEDDED) for text in texts)


def test_a_text_of_the_file_is_regenerated_only_after_a_confirmation(tmp_path: Path, open_tab: OpenTab) -> None:
    with running(tmp_path, EmbeddedDescriber) as service:
        service.process("analyze", pictures.jpeg(96, 64), "1.jpg", languages=["en"])
        tab = open_tab(service)
        show(tab, "1.jpg")
        tab.page.get_by_role("button", name="Regenerate English").click()
        assert tab.text("dialog .lost") == "Text 1 in en."
        tab.page.locator("dialog").get_by_role("button", name="Replace").click()
        wait_for_text(tab, "Text 2 in en.")


def test_a_text_that_was_accepted_since_the_page_showed_it_is_not_replaced(tab: Tab, service: Running) -> None:
    show(tab, "5.jpg")
    address = f"/images/{jobs(service)['5.jpg']['image']['id']}/translations/en"

    def accept_elsewhere(route: Any) -> None:
        service.client.patch(address, json={"seo_alt_text": "Written elsewhere."})
        route.continue_()

    tab.page.route("**/regenerate", accept_elsewhere)
    tab.page.get_by_role("button", name="Regenerate English").click()
    tab.wait("document.querySelector('.notice')")
    assert "person wrote" in tab.text(".notice")
    assert translation(service, "5.jpg")["seo_alt_text"] == "Written elsewhere."


def test_the_page_says_why_a_worse_text_did_not_replace_the_one_in_force(
    empty_service: Running, open_tab: OpenTab
) -> None:
    for number in range(1, 4):  # the fourth text that is written needs a person
        empty_service.process("analyze", pictures.jpeg(96, 64, seed=number), f"{number}.jpg", languages=["en"])
    tab = open_tab(empty_service)
    show(tab, "1.jpg")
    before = alt_text(tab)
    tab.page.get_by_role("button", name="Regenerate English").click()
    tab.page.get_by_role("alert").filter(has_text="the text in force was kept").wait_for()
    assert alt_text(tab) == before


def test_enter_saves_a_text_once_and_the_next_correction_too(tab: Tab, service: Running) -> None:
    sent: list[str] = []
    tab.page.on("request", lambda request: sent.append(request.url) if request.method == "PATCH" else None)
    show(tab, "5.jpg")
    for words in ("A first version.", "A corrected version."):
        tab.page.locator("[data-alt=en]").fill(words)
        tab.press("Enter")
        wait_until_stored(service, "5.jpg", words)
        tab.page.locator("[data-alt=en]").focus()
    assert len(sent) == 2
    assert "changed elsewhere" not in tab.text(".detail")


def test_accept_is_reached_by_the_mouse_although_the_text_is_saved_meanwhile(tab: Tab, service: Running) -> None:
    show(tab, "4.jpg")
    tab.page.locator("[data-alt=en]").fill("A pier at noon.")
    accept = tab.page.get_by_role("button", name="Accept English").bounding_box()
    assert accept is not None
    tab.page.mouse.move(accept["x"] + accept["width"] / 2, accept["y"] + accept["height"] / 2)
    tab.page.mouse.down()
    tab.page.wait_for_timeout(300)
    tab.page.mouse.up()
    wait_until_stored(service, "4.jpg", "A pier at noon.")
    tab.wait("document.activeElement.dataset.alt === 'de'")
