"""Editing texts on the page: saving, accepting, regenerating, undo and redo."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.browser.conftest import Desk, alt_text, jobs, show, translation, wait_for_text, wait_until_stored
from tests.support.service import Running


def test_a_text_is_edited_undone_and_redone(desk: Desk, service: Running) -> None:
    show(desk, "1.jpg")
    before = alt_text(desk)
    desk.page.locator("[data-alt=en]").fill("A harbour at dusk.")
    assert "18 of 125" in desk.text(".gauge")
    desk.press("Control+Enter")
    desk.wait("[...document.querySelectorAll('.text .tag')].some((tag) => tag.textContent === 'accepted by you')")
    assert translation(service, "1.jpg")["seo_alt_text"] == "A harbour at dusk."
    assert translation(service, "1.jpg")["source"] == "person"
    desk.press("Escape", "Control+z")
    wait_for_text(desk, before)
    assert translation(service, "1.jpg")["seo_alt_text"] == before
    desk.press("Control+Shift+z")
    wait_for_text(desk, "A harbour at dusk.")
    desk.page.get_by_role("button", name="Undo English").click()
    wait_for_text(desk, before)
    assert translation(service, "1.jpg")["source"] == "vision"


def test_a_text_is_stored_when_the_user_goes_to_another_picture(desk: Desk, service: Running) -> None:
    show(desk, "2.jpg")
    desk.page.locator("[data-alt=de]").fill("Ein Hafen.")
    desk.page.get_by_label("File name").first.fill("Ein  Häfen")
    show(desk, "3.jpg")
    desk.wait("true")
    show(desk, "2.jpg")
    wait_for_text(desk, "Ein Hafen.", "de")
    assert translation(service, "2.jpg", "de")["seo_alt_text"] == "Ein Hafen."
    assert translation(service, "2.jpg")["seo_filename"] == "ein-hafen"


def test_a_file_name_is_shown_as_it_is_stored(desk: Desk, service: Running) -> None:
    show(desk, "2.jpg")
    desk.page.get_by_label("File name").last.fill("Am Großen  Hafen!")
    desk.press("Control+Enter")
    desk.wait("[...document.querySelectorAll('.filename input')].at(-1).value === 'am-grossen-hafen'")
    assert translation(service, "2.jpg", "de")["seo_filename"] == "am-grossen-hafen"


def test_a_text_that_a_person_has_to_write_is_not_accepted_unchanged(desk: Desk, service: Running) -> None:
    show(desk, "4.jpg")
    for keys in ("Control+Enter", "Enter"):
        desk.page.locator("[data-alt=de]").press(keys)
        desk.wait("document.querySelector('.text .problem')")
        assert translation(service, "4.jpg", "de")["needs_text"]


def test_a_text_that_the_service_refuses_remains_with_the_reason(desk: Desk, service: Running) -> None:
    show(desk, "3.jpg")
    desk.page.locator("[data-alt=en]").fill("x" * 251)
    desk.press("Enter")
    desk.wait("document.querySelector('.text .problem')")
    assert desk.text(".text .problem").startswith("Alt text must have 1 to 250 characters")
    assert alt_text(desk) == "x" * 251
    assert translation(service, "3.jpg")["seo_alt_text"] != "x" * 251
    desk.press("Escape")
    assert alt_text(desk) == translation(service, "3.jpg")["seo_alt_text"]


def test_a_text_that_is_refused_after_the_user_left_it_is_reported(desk: Desk, service: Running) -> None:
    show(desk, "3.jpg")
    refused = "y" * 251
    desk.page.locator("[data-alt=en]").fill(refused)
    show(desk, "2.jpg")
    desk.wait("document.querySelector('.notice')")
    assert "The text of 3.jpg in English was not saved" in desk.text(".notice")
    assert refused in desk.text(".notice"), "the user can copy what was typed"
    assert translation(service, "3.jpg")["seo_alt_text"] != refused


def test_quick_undos_follow_the_order_of_the_changes(desk: Desk, service: Running) -> None:
    stored = {name: translation(service, name)["seo_alt_text"] for name in ("6.jpg", "7.jpg")}
    for name in stored:
        show(desk, name)
        for text in ("First.", "Second."):
            desk.page.locator("[data-alt=en]").fill(f"{text} {name}")
            desk.press("Control+Enter")
            wait_until_stored(service, name, f"{text} {name}")
    desk.press("Escape")
    desk.press(*["Control+z"] * 4)
    for name, text in stored.items():
        wait_until_stored(service, name, text)


def test_an_undo_waits_for_the_answer_to_the_change_before_it(desk: Desk, service: Running) -> None:
    show(desk, "1.jpg")
    before = translation(service, "1.jpg")
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    desk.page.route("**/translations/en", hold)
    desk.page.locator("[data-alt=en]").fill("On its way.")
    desk.press("Control+Enter", "Escape", "Control+z")
    desk.page.wait_for_timeout(100)
    assert alt_text(desk) == "On its way."
    assert "saving" in desk.text(".text .tag")
    (change,) = held
    change.continue_()
    wait_for_text(desk, before["seo_alt_text"])
    wait_until_stored(service, "1.jpg", before["seo_alt_text"])
    assert translation(service, "1.jpg") == before
    desk.press("Control+Shift+z")
    wait_until_stored(service, "1.jpg", "On its way.")
    desk.press("Control+z")
    wait_until_stored(service, "1.jpg", before["seo_alt_text"])


def test_an_undo_is_not_repeated_when_its_answer_is_lost(desk: Desk, service: Running) -> None:
    show(desk, "1.jpg")
    for text in ("First.", "Second."):
        desk.page.locator("[data-alt=en]").fill(text)
        desk.press("Control+Enter")
        wait_until_stored(service, "1.jpg", text)

    def lose(route: Any) -> None:
        route.fetch()
        route.abort()

    desk.page.route("**/translations/en/undo", lose)
    desk.press("Escape", "Control+z")
    wait_for_text(desk, "First.")
    assert translation(service, "1.jpg")["seo_alt_text"] == "First."
    desk.page.unroute("**/translations/en/undo")
    desk.press("Control+z")
    desk.wait("document.querySelector('[data-alt=en]').value !== 'First.'")
    assert translation(service, "1.jpg")["source"] == "vision"


def test_enter_in_the_list_accepts_the_words_that_were_typed_last(desk: Desk, service: Running) -> None:
    show(desk, "6.jpg")
    desk.page.locator("[data-alt=en]").fill("Typed last.")
    desk.page.locator(".list").press("Enter")
    desk.wait("document.querySelector('#detail-title').textContent === '7.jpg'")
    show(desk, "6.jpg")
    desk.wait("document.querySelectorAll('.text .tag.good').length === 2")
    assert translation(service, "6.jpg")["seo_alt_text"] == "Typed last."
    desk.press("Control+z", "Control+z")
    wait_until_stored(service, "6.jpg", "Text 6 in en.")


def test_one_undo_is_for_all_texts_that_one_key_has_changed(desk: Desk, service: Running) -> None:
    show(desk, "5.jpg")
    before = jobs(service)["5.jpg"]["image"]["translations"]
    desk.page.locator(".list").press("Enter")
    desk.press("Control+z")
    desk.wait("document.querySelector('#detail-title').textContent === '5.jpg'")
    desk.wait("document.querySelectorAll('.text .tag').length === 2")
    assert jobs(service)["5.jpg"]["image"]["translations"] == before
    desk.press("r")
    for code in ("en", "de"):
        desk.wait(f"!document.querySelector('[data-alt={code}]').value.startsWith('Text 5 in')")
    desk.press("Control+z")
    for text in before:
        wait_for_text(desk, text["seo_alt_text"], text["language_code"])
    assert jobs(service)["5.jpg"]["image"]["translations"] == before


def test_remarks_appear_while_a_text_is_written(desk: Desk) -> None:
    show(desk, "3.jpg")
    stored = alt_text(desk)
    desk.page.locator("[data-alt=en]").fill("Image of a harbour.")
    desk.wait("document.querySelector('.remarks li')")
    desk.page.locator("[data-alt=en]").fill(stored)
    desk.wait("!document.querySelector('.remarks li')")


def test_a_text_is_regenerated(desk: Desk, service: Running) -> None:
    show(desk, "5.jpg")
    before = alt_text(desk)
    desk.page.get_by_role("button", name="Regenerate English").click()
    desk.wait(f"document.querySelector('[data-alt=en]').value !== {json.dumps(before)}")
    assert translation(service, "5.jpg")["seo_alt_text"] == alt_text(desk) != before
    desk.page.get_by_role("button", name="Undo English").click()
    wait_for_text(desk, before)


def test_an_answer_that_arrives_after_a_newer_event_does_not_replace_it(desk: Desk, service: Running) -> None:
    show(desk, "5.jpg")
    before = alt_text(desk)

    def answer_late(route: Any) -> None:
        answer = route.fetch()
        while translation(service, "5.jpg")["seo_alt_text"] == before:
            time.sleep(0.02)
        time.sleep(0.5)  # the event arrives
        route.fulfill(response=answer)

    desk.page.route("**/translations/en/regenerate", answer_late)
    desk.page.get_by_role("button", name="Regenerate English").click()
    desk.wait(f"document.querySelector('[data-alt=en]').value !== {json.dumps(before)}")
    desk.page.wait_for_timeout(300)
    assert alt_text(desk) == translation(service, "5.jpg")["seo_alt_text"]
    desk.page.get_by_role("button", name="Undo English").click()
    wait_for_text(desk, before)


def test_a_change_elsewhere_is_shown(desk: Desk, service: Running) -> None:
    show(desk, "7.jpg")
    image_id = jobs(service)["7.jpg"]["image"]["id"]
    before = alt_text(desk)
    changed = service.client.patch(f"/images/{image_id}/translations/en", json={"seo_alt_text": "Changed elsewhere."})
    assert changed.status_code == 200
    wait_for_text(desk, "Changed elsewhere.")
    assert service.client.post(f"/images/{image_id}/translations/en/undo").status_code == 200
    wait_for_text(desk, before)
