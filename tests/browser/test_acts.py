"""Acts on the selected pictures: one request, one undo, and what a person wrote is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.browser.conftest import (
    LOOKS,
    OpenTab,
    Tab,
    jobs,
    show,
    translation,
    violations,
    wait_until,
    wait_until_stored,
)
from tests.support import pictures
from tests.support.service import Running

COUNT = 6
NAMES = [f"{number}.jpg" for number in range(1, COUNT + 1)]
OWN = "Written by a person."


@pytest.fixture
def desk(empty_service: Running, open_tab: OpenTab) -> Tab:
    """Six pictures in two languages. The fourth needs texts, and a person wrote the German text of the second."""
    for number, name in enumerate(NAMES, 1):
        empty_service.process("process", pictures.jpeg(96, 64, seed=number), name, languages=["en", "de"])
    image_id = jobs(empty_service)["2.jpg"]["image"]["id"]
    changed = empty_service.client.patch(f"/images/{image_id}/translations/de", json={"seo_alt_text": OWN})
    assert changed.status_code == 200
    tab = open_tab(empty_service)
    tab.wait(f"document.querySelectorAll('.tile').length === {COUNT}")
    tab.wait("document.querySelector('[data-alt]')")
    return tab


def select_all(tab: Tab) -> None:
    tab.page.locator(".list").focus()
    tab.press("Control+a")


def requests_to(tab: Tab, path: str) -> list[Any]:
    """The requests to a path of the API from now on."""
    seen: list[Any] = []
    tab.page.on("request", lambda request: seen.append(request) if request.url.endswith(path) else None)
    return seen


def alt_texts(service: Running, code: str) -> list[str]:
    listed = jobs(service)
    return [
        text["seo_alt_text"]
        for name in NAMES
        for text in listed[name]["image"]["translations"]
        if text["language_code"] == code
    ]


def are_being_written(service: Running) -> bool:
    """Whether texts are still being written anew."""
    details = [job["image"]["details"] for job in jobs(service).values()]
    return any(state["regenerating"] for each in details for state in each["texts"].values())


def undo(tab: Tab) -> None:
    tab.page.get_by_role("status").get_by_role("button", name="Undo").click()


def test_one_text_for_many_pictures_is_one_request_and_one_undo(desk: Tab, empty_service: Running) -> None:
    before = alt_texts(empty_service, "de")
    sent = requests_to(desk, "/translations")
    undone = requests_to(desk, "/translations/undo")
    select_all(desk)
    desk.press("Shift+T")
    desk.page.locator("dialog").get_by_label("Language").select_option("de")
    desk.page.get_by_label("Alt text", exact=True).fill("Ein Hafen.")
    assert desk.text("dialog [role=status]") == "Changes 5 texts. 1 that a person wrote is kept."
    desk.press("Enter")
    wait_until(lambda: alt_texts(empty_service, "de").count("Ein Hafen.") == COUNT - 1, "the text of five pictures")
    assert alt_texts(empty_service, "de")[1] == OWN
    desk.page.get_by_role("status").filter(has_text="5 texts changed.").wait_for()
    assert len(sent) == 1
    undo(desk)
    wait_until(lambda: alt_texts(empty_service, "de") == before, "the texts before")
    desk.press("Control+Shift+z")
    assert len(undone) == 1
    wait_until(lambda: alt_texts(empty_service, "de").count("Ein Hafen.") == COUNT - 1, "the text again")


def test_a_text_that_a_person_wrote_is_replaced_only_if_that_is_ticked(desk: Tab, empty_service: Running) -> None:
    select_all(desk)
    desk.press("Shift+T")
    desk.page.locator("dialog").get_by_label("Language").select_option("de")
    desk.page.get_by_label("Alt text", exact=True).fill("Ein Hafen.")
    desk.page.get_by_label("Also replace 1 text that a person wrote").check()
    assert desk.text("dialog [role=status]") == "Changes 6 texts."
    desk.page.get_by_role("button", name="Change", exact=True).click()
    wait_until(lambda: alt_texts(empty_service, "de") == ["Ein Hafen."] * COUNT, "the text of all")


def test_the_list_shows_the_text_before_the_service_has_answered(desk: Tab) -> None:
    next_request = desk.hold("**/translations")
    show(desk, "4.jpg")
    select_all(desk)
    desk.press("Shift+T")
    desk.page.get_by_label("Alt text", exact=True).fill("A harbour.")
    desk.press("Enter")
    desk.wait("document.querySelector('[data-alt=en]').value === 'A harbour.'")
    next_request().continue_()


def test_texts_that_were_not_changed_are_told_in_one_sentence(desk: Tab, empty_service: Running) -> None:
    def refuse_two(route: Any) -> None:
        response = route.fetch()
        body = response.json()
        for result in body["data"][:2]:
            result.update(status=404, problem="The picture was deleted.")
        route.fulfill(response=response, body=json.dumps(body))

    desk.page.route("**/translations", refuse_two)
    select_all(desk)
    desk.press("Shift+T")
    desk.page.get_by_label("Alt text", exact=True).fill("A harbour.")
    desk.press("Enter")
    desk.wait("document.querySelector('.notice')")
    assert "4 of 6 changed. 2 were not: The picture was deleted." in desk.text(".notice")


def test_accepting_says_where_the_texts_are_from_and_leaves_those_that_need_a_person(
    desk: Tab, empty_service: Running
) -> None:
    select_all(desk)
    desk.press("Shift+A")
    assert desk.text("dialog [role=status]") == "Accepts 9 texts: 9 written by the model."
    assert "1 picture still needs a text from you." in desk.text("dialog")
    desk.press("Enter")
    for name in ("1.jpg", "6.jpg"):
        wait_until_stored(empty_service, name, "person", field="source")
    assert translation(empty_service, "4.jpg")["needs_text"]
    desk.page.get_by_role("status").filter(has_text="9 texts accepted.").wait_for()
    undo(desk)
    wait_until_stored(empty_service, "1.jpg", "vision", field="source")
    assert translation(empty_service, "2.jpg", "de")["seo_alt_text"] == OWN


def test_regenerating_keeps_what_a_person_wrote_and_is_one_undo(desk: Tab, empty_service: Running) -> None:
    before = alt_texts(empty_service, "en")
    select_all(desk)
    desk.press("Shift+R")
    assert desk.text("dialog [role=status]") == "Writes 11 texts. 1 that a person wrote is kept."
    desk.page.get_by_role("button", name="Regenerate", exact=True).click()
    wait_until(lambda: alt_texts(empty_service, "en") != before and not are_being_written(empty_service), "all texts")
    assert alt_texts(empty_service, "de")[1] == OWN
    for number in range(1, COUNT + 1):  # an undo is refused until the page has heard that all are written
        show(desk, f"{number}.jpg")
        desk.wait("!document.querySelector('.detail').textContent.includes('being written')")
    desk.press("Control+z")
    wait_until(lambda: alt_texts(empty_service, "en") == before, "the texts before")


def test_a_language_is_added_to_finished_pictures(desk: Tab, empty_service: Running) -> None:
    select_all(desk)
    desk.press("Shift+L")
    desk.page.locator("dialog").get_by_label("Language").first.select_option("fr")
    assert desk.text("dialog [role=status]") == "Writes a text in French for 6 pictures."
    desk.press("Enter")
    wait_until(lambda: len(alt_texts(empty_service, "fr")) == COUNT, "a French text of each picture")


def test_words_are_changed_for_all_and_undone(desk: Tab, empty_service: Running) -> None:
    def words() -> list[Any]:
        return [job["image"]["details"]["words"] for job in jobs(empty_service).values()]

    before = words()
    select_all(desk)
    desk.press("Shift+W")
    desk.page.get_by_label("Caption", exact=True).fill("Hamburg, in May")
    desk.page.get_by_label("Keywords, with commas").fill("harbour, ships")
    assert desk.text("dialog [role=status]").startswith("Changes the caption and the keywords of 6 pictures.")
    desk.press("Enter")
    wait_until(lambda: all((each or {}).get("caption") == "Hamburg, in May" for each in words()), "the caption")
    assert all(each["keywords"] == ["harbour", "ships"] for each in words())
    desk.press("Control+z")
    wait_until(lambda: words() == before, "the words before")


def test_pictures_are_moved_to_a_project_and_back(desk: Tab, empty_service: Running) -> None:
    def projects() -> set[str]:
        return {job["image"]["details"]["project"]["name"] for job in jobs(empty_service).values()}

    before = projects()
    select_all(desk)
    desk.press("Shift+M")
    desk.page.get_by_label("Project").last.fill("Wedding")
    desk.press("Enter")
    wait_until(lambda: projects() == {"Wedding"}, "the project")
    undo(desk)
    wait_until(lambda: projects() == before, "the project before")


def test_files_are_made_anew_with_the_texts_kept(desk: Tab, empty_service: Running) -> None:
    def made() -> list[tuple[str, str | None]]:
        images = [job["image"] for job in jobs(empty_service).values()]
        return [(image["converted_format"], image["details"]["quality_target"]) for image in images]

    show(desk, "1.jpg")
    select_all(desk)
    texts = alt_texts(empty_service, "en")
    desk.press("Shift+F")
    desk.page.get_by_label("Format beside the original's").select_option("avif")
    desk.page.get_by_label("Quality").select_option("small")
    desk.page.get_by_role("button", name="Make anew").click()
    wait_until(lambda: made() == [("avif", "small")] * COUNT, "AVIF files")
    assert alt_texts(empty_service, "en") == texts
    desk.press("Control+z")
    wait_until(lambda: made() == [("webp", None)] * COUNT, "WebP files again")


def test_the_bar_of_the_selection_selects_all_and_clears(desk: Tab) -> None:
    desk.page.locator(".list").focus()
    desk.press("Home", "Space")
    bar = desk.page.get_by_role("group", name="Selected pictures")
    assert "1 selected" in bar.inner_text()
    bar.get_by_role("button", name="Select all 6 shown").click()
    assert "6 selected" in bar.inner_text()
    bar.get_by_role("button", name="Move…").click()
    assert desk.text("dialog h2") == "Move 6 pictures"
    desk.press("Escape")
    bar.get_by_role("button", name="Clear the selection").click()
    desk.wait("!document.querySelector('.selection-bar')")


def test_every_act_can_be_reached_at_every_width(service: Running, open_tab: OpenTab) -> None:
    acts = ["Accept…", "Alt text…", "Caption…", "Regenerate…", "Language…", "Format…", "Move…", "Export…", "Delete…"]
    for width in (360, 700, 1280, 2400):
        tab = open_tab(service, width=width)
        tab.wait("document.querySelector('.tile')")
        select_all(tab)
        for act in acts:
            button = tab.page.locator(".selection-bar").get_by_role("button", name=act, exact=True).last
            box = button.bounding_box()
            assert box is not None, f"{act} at {width} px"
            assert 0 <= box["x"] <= width - box["width"], f"{act} at {width} px"


@LOOKS
def test_axe_finds_no_violation_in_the_dialogs_of_acts(
    service: Running,
    open_tab: OpenTab,
    axe: str,
    width: int,
    options: dict[str, str],
) -> None:
    tab = open_tab(service, width=width, reduced_motion="reduce", **options)
    tab.wait("document.querySelector('.tile')")
    select_all(tab)
    found = {"bar": violations(tab, axe)}
    for key in (*(f"Shift+{letter}" for letter in "ATWRLFM"), "e"):
        tab.press(key)
        tab.wait("document.querySelector('dialog[open]')")
        if key == "e":
            tab.wait("document.querySelector('.needs-text')")
            tab.page.get_by_text("More choices").click()
        found[tab.text("dialog h2")] = violations(tab, axe)
        assert tab.page.evaluate(
            "document.querySelector('dialog').scrollWidth <= document.querySelector('dialog').clientWidth"
        ), key
        tab.press("Escape")
    assert len(found) == 9
    assert {name: rules for name, rules in found.items() if rules} == {}
