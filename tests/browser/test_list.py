"""The list of pictures: its filters, search and order, the rows of the grid, and what is shown beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.job import StageName
from imgproc_local.domain.result import TextSource
from tests.browser.conftest import NumberedDescriber, OpenTab, Tab, choose_filter, wait_until
from tests.support import finished, pictures
from tests.support.service import Running, running

TAKEN = {"church.jpg": "2026-05-02T11:00:00", "cake.jpg": "2026-05-02T17:30:00"}


@pytest.fixture(scope="module")
def wedding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with pictures in two folders and projects; the texts of two were not looked at, and one has failed."""
    with running(tmp_path_factory.mktemp("data"), NumberedDescriber) as started:
        for name, project, folder, source in (
            ("cake.jpg", "Hochzeit Müller", "Feier", TextSource.VISION),
            ("church.jpg", "Hochzeit Müller", "Trauung/Kirche", TextSource.FACTS),
            ("quay.jpg", "Harbour", "", TextSource.PIXELS),
        ):
            texts = [finished.text(code, name[:-4], source=source) for code in ("en", "de")]
            info = ImageInfo(Format.JPEG, 320, 240, taken_at=TAKEN.get(name))
            add(started, name, texts=texts, project=project, folder=folder, info=info)
        add(started, "cut.jpg", errors={StageName.ANALYZE: "The file is cut off."})
        yield started


def add(service: Running, name: str, **options: object) -> None:
    seed = sum(name.encode())
    service.run(finished.add_job(service.services, pictures.jpeg(96, 64, seed=seed), name=name, **options))  # type: ignore[arg-type]


@pytest.fixture
def tab(wedding: Running, open_tab: OpenTab) -> Tab:
    opened = open_tab(wedding)
    opened.wait_for_count("All", 4)
    return opened


def wait_for_names(tab: Tab, *names: str) -> None:
    wait_until(lambda: tab.names() == list(names), f"the list shows {names}, not {tab.names()}")


def test_the_search_finds_names_folders_and_projects_and_the_counts_honour_it(tab: Tab) -> None:
    search = tab.page.get_by_role("searchbox", name="Search names, folders, projects and texts")
    for text, names in {
        "trauung": ["church.jpg"],
        "müller": ["church.jpg", "cake.jpg"],
        "Text in de": ["quay.jpg", "church.jpg", "cake.jpg"],
    }.items():
        search.fill(text)
        wait_until(lambda: sorted(tab.names()) == sorted(names), f"{text} finds {names}")  # noqa: B023
    search.fill("trauung")
    tab.wait_for_count("All", 1)
    assert (tab.count("Failed"), tab.count("Needs text"), tab.count("Not reviewed")) == (0, 0, 1)
    search.fill("")
    choose_filter(tab, "Project", "Hochzeit Müller")
    tab.wait_for_count("Not reviewed", 2)
    choose_filter(tab, "Folder", "Trauung/Kirche")
    wait_for_names(tab, "church.jpg")


def test_the_filter_button_says_what_is_chosen_and_clears_it(tab: Tab) -> None:
    choose_filter(tab, "Needs text")
    wait_for_names(tab, "quay.jpg")
    assert tab.text(".filters .menu button") == "Needs text 1"
    tab.page.get_by_role("button", name="Clear filters").click()
    tab.wait("document.querySelectorAll('.tile').length === 4")
    assert tab.text(".filters .menu button") == "Filter"
    assert tab.page.get_by_role("button", name="Clear filters").count() == 0


def test_where_no_picture_passes_the_filters_a_button_clears_them(tab: Tab) -> None:
    tab.page.get_by_role("searchbox", name="Search").fill("nothing")
    tab.wait("document.querySelector('.nothing button')")
    assert tab.text(".nothing").startswith("No picture passes the filters.")
    tab.page.locator(".nothing").get_by_role("button", name="Clear filters").click()
    tab.wait("document.querySelectorAll('.tile').length === 4")


def test_the_picture_beside_the_list_is_one_that_the_filter_shows(tab: Tab) -> None:
    assert tab.text("#detail-title") != "cut.jpg"
    choose_filter(tab, "Failed")
    tab.wait("document.querySelector('#detail-title').textContent === 'cut.jpg'")
    choose_filter(tab, "Not reviewed")
    tab.wait("document.querySelector('#detail-title').textContent !== 'cut.jpg'")


def test_pictures_are_in_the_order_in_which_they_were_taken(tab: Tab) -> None:
    tab.page.get_by_title("Layout and order").click()
    tab.page.get_by_label("Needs text first").uncheck()
    tab.page.get_by_label("Date taken").check()
    wait_until(lambda: tab.names()[:2] == ["church.jpg", "cake.jpg"], "the earlier one is first, others are last")


def test_selecting_does_not_move_the_list(tab: Tab) -> None:
    top = "document.querySelector('.list').getBoundingClientRect().top"
    before = tab.page.evaluate(top)
    tab.page.locator(".list").focus()
    tab.press("Control+a")
    tab.wait("document.querySelector('.selection-bar')")
    assert tab.text(".selection-bar strong") == "4 selected"
    assert tab.page.evaluate(top) == before
    tab.press("Escape")
    tab.wait("!document.querySelector('.selection-bar')")


@pytest.fixture
def crowd(empty_service: Running, open_tab: OpenTab) -> Tab:
    """A page with 60 finished pictures of several shapes."""
    for number in range(60):
        width, height = [(300, 200), (200, 300), (400, 200), (250, 250)][number % 4]
        texts = [finished.text("en", f"picture-{number}"), finished.text("de", f"bild-{number}")]
        add(empty_service, f"{number:02}.jpg", texts=texts, info=ImageInfo(Format.JPEG, width, height))
    opened = open_tab(empty_service)
    opened.wait_for_count("All", 60)
    return opened


def boxes(tab: Tab) -> dict[str, dict[str, float]]:
    """The rectangles of the pictures in the document, by name."""
    found: dict[str, dict[str, float]] = tab.page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.tile')].map((tile) =>"
        " [tile.querySelector('.name').textContent, tile.getBoundingClientRect().toJSON()]))"
    )
    return found


def test_rows_of_pictures_are_as_wide_as_the_list_and_show_them_whole(crowd: Tab) -> None:
    found = boxes(crowd)
    assert found["00.jpg"]["width"] / found["00.jpg"]["height"] == pytest.approx(1.5, abs=0.03)
    assert found["01.jpg"]["width"] / found["01.jpg"]["height"] == pytest.approx(2 / 3, abs=0.03)
    rows: dict[float, list[dict[str, float]]] = {}
    for box in found.values():
        rows.setdefault(box["top"], []).append(box)
    assert len({max(box["right"] for box in row) for row in rows.values()}) == 1
    assert len(rows) < 15, "only what is visible is in the document"
    tall = found["00.jpg"]["height"]
    crowd.page.get_by_title("Layout and order").click()
    crowd.page.get_by_label("Size of the pictures").fill("96")
    wait_until(lambda: boxes(crowd)["00.jpg"]["height"] < tall, "the rows are lower")


def test_arrow_keys_move_to_the_picture_above_or_below(crowd: Tab) -> None:
    crowd.page.locator(".list").focus()
    crowd.press("ArrowRight", "ArrowDown")
    current = "document.querySelector('.tile[data-current]')"
    crowd.wait(
        f"{current}.getBoundingClientRect().top > document.querySelector('.tile').getBoundingClientRect().bottom"
    )
    found, name = boxes(crowd), crowd.text(".tile[data-current] .name")
    above = found["01.jpg"]
    assert found[name]["left"] < above["right"]
    assert found[name]["right"] > above["left"]
    crowd.press("End")
    crowd.wait(f"{current}.querySelector('.name').textContent === '59.jpg'")


def test_the_list_shows_the_current_picture_after_a_deletion(crowd: Tab) -> None:
    crowd.page.locator(".list").focus()
    crowd.press("Space")
    for _ in range(7):
        crowd.press("Shift+ArrowDown")
    left = 60 - int(crowd.text(".selection-bar strong").split()[0])
    crowd.press("Delete")
    crowd.page.get_by_role("button", name="Delete", exact=True).click()
    crowd.wait("document.querySelector('#detail-title').textContent !== '00.jpg'")
    crowd.wait_for_count("All", left)
    shown = "document.querySelector('.tile[data-current]').getBoundingClientRect()"
    area = "document.querySelector('.list').getBoundingClientRect()"
    crowd.wait(f"{shown}.top >= {area}.top && {shown}.bottom <= {area}.bottom + 1")


def test_marks_are_shapes_with_names(tab: Tab) -> None:
    for name, state in {"cut.jpg": "Failed", "quay.jpg": "Needs text", "cake.jpg": "Done"}.items():
        mark = tab.page.locator(".tile", has=tab.page.get_by_text(name, exact=True)).locator(".status span")
        assert mark.inner_text() == state
        assert mark.evaluate("(text) => text.getBoundingClientRect().width") <= 1, "words on all pictures are noise"
        said = tab.page.get_by_role("option", name=f"{name}, ")
        assert (said.get_attribute("aria-label") or "").endswith(f", {state}"), "what is not seen is said"


def test_heads_of_the_columns_order_the_list_and_its_texts_are_in_the_language_of_the_filter(tab: Tab) -> None:
    tab.page.get_by_title("Layout and order").click()
    tab.page.get_by_label("Needs text first").uncheck()
    tab.page.get_by_role("button", name="List").click()
    tab.press("Escape")
    tab.page.locator(".list-heads").get_by_role("button", name="Name").click()
    wait_for_names(tab, "cake.jpg", "church.jpg", "cut.jpg", "quay.jpg")
    tab.page.locator(".list-heads").get_by_role("button", name="Name").click()
    wait_for_names(tab, "quay.jpg", "cut.jpg", "church.jpg", "cake.jpg")
    assert tab.text(".tile .preview") == "Text in en."
    choose_filter(tab, "Language missing", "German missing")
    wait_for_names(tab, "quay.jpg", "cut.jpg")
    assert tab.text(".tile .preview") == "Text in de."


@pytest.mark.parametrize(("width", "room"), [(360, 100), (1000, 90), (1440, 120), (2560, 300)])
def test_the_bar_has_one_line_and_room_for_the_search(
    wedding: Running, open_tab: OpenTab, width: int, room: int
) -> None:
    tab = open_tab(wedding, width=width)
    tab.wait("document.querySelector('.bar')")
    sizes = "(name) => document.querySelector(name).getBoundingClientRect().toJSON()"
    assert tab.page.evaluate(sizes, ".bar")["height"] < 56
    assert tab.page.evaluate(sizes, ".search")["width"] >= room
    shown = tab.page.locator(".bar button:visible")
    assert {shown.nth(place).evaluate("(each) => each.offsetTop") for place in range(shown.count())} == {7}


@pytest.mark.parametrize("width", [360, 1440])
def test_the_totals_and_all_acts_of_a_selection_are_seen_below_the_list(
    crowd: Tab, empty_service: Running, width: int
) -> None:
    crowd.page.set_viewport_size({"width": width, "height": 800})
    assert crowd.page.locator(".totals").inner_text() == "60 pictures"
    crowd.page.locator(".list").focus()
    crowd.press("End", "Space")
    foot = "document.querySelector('.foot').getBoundingClientRect()"
    crowd.wait(f"document.querySelector('.selection-bar') && {foot}.bottom <= 801")
    for name in ("Accept…", "Move…", "Export…", "Delete…", "Keyboard shortcuts"):
        box = crowd.page.locator(".foot").get_by_role("button", name=name).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    # the last picture, which was selected at the end of the list, is not below the foot
    crowd.wait(f"document.querySelector('.tile[data-current]').getBoundingClientRect().bottom <= {foot}.top")


def test_the_mark_of_a_narrow_picture_is_not_below_its_check(empty_service: Running, open_tab: OpenTab) -> None:
    for number in range(3):
        info = ImageInfo(Format.JPEG, 100, 300)
        texts = [finished.text("en", f"tower-{number}", source=TextSource.PIXELS)]
        add(empty_service, f"{number}.jpg", texts=texts, info=info)
    tab = open_tab(empty_service)
    tab.wait("document.querySelectorAll('.tile').length === 3")
    tab.page.get_by_title("Layout and order").click()
    tab.page.get_by_label("Size of the pictures").fill("96")
    tab.wait("document.querySelector('.tile').offsetWidth < 45")
    tab.press("Escape")
    first = tab.page.locator(".tile").first
    first.locator(".status").wait_for()
    check, mark = first.locator(".check").bounding_box(), first.locator(".status").bounding_box()
    assert check["y"] + check["height"] <= mark["y"]


def test_the_foot_counts_what_is_left_to_do_and_shows_only_that(tab: Tab) -> None:
    foot = tab.page.locator(".foot")
    foot.get_by_role("button", name="1 needs text").click()
    wait_for_names(tab, "quay.jpg")
    unreviewed = foot.get_by_role("button", name="2 not reviewed")
    unreviewed.click()
    wait_until(lambda: sorted(tab.names()) == ["cake.jpg", "church.jpg"], "the pictures that are not reviewed")
    assert unreviewed.get_attribute("aria-pressed") == "true"
    unreviewed.click()
    tab.wait("document.querySelectorAll('.tile').length === 4")
    assert unreviewed.get_attribute("aria-pressed") == "false"


@pytest.mark.parametrize("width", [360, 1440])
def test_the_list_has_equal_room_at_both_sides(crowd: Tab, width: int) -> None:
    crowd.page.set_viewport_size({"width": width, "height": 800})
    area = "document.querySelector('.list').getBoundingClientRect().toJSON()"

    def room() -> tuple[float, float]:
        edges, found = crowd.page.evaluate(area), boxes(crowd).values()
        return min(box["left"] for box in found) - edges["left"], edges["right"] - max(box["right"] for box in found)

    wait_until(lambda: room()[0] == pytest.approx(room()[1], abs=1) and room()[0] >= 4, "equal room")


def test_a_mark_is_shown_with_its_picture(tab: Tab) -> None:
    next_request = tab.hold("**/thumbnail*")
    tab.page.reload()
    mark = tab.page.locator(".tile .status[data-state=needs-text]")
    next_request()
    assert not mark.is_visible()
    tab.page.unroute("**/thumbnail*")
    tab.page.reload()
    mark.wait_for()


def test_a_caption_is_within_its_picture_and_has_a_name_where_there_is_room(crowd: Tab) -> None:
    crowd.page.locator(".list").focus()
    crowd.press("Space")
    place = "(each) => each.getBoundingClientRect().toJSON()"
    for tile, is_named in ((0, True), (1, False)):
        shown = crowd.page.locator(".tile").nth(tile)
        shown.hover()
        caption, thumb, name = (shown.locator(each).evaluate(place) for each in (".caption", ".thumb", ".name"))
        for side in ("left", "right", "bottom"):
            assert caption[side] == pytest.approx(thumb[side], abs=1)
        assert (name["top"] < caption["bottom"]) == is_named


def test_enter_goes_to_the_text_that_is_missing_where_the_others_are_accepted(
    empty_service: Running, open_tab: OpenTab
) -> None:
    for name in ("1.jpg", "2.jpg"):
        texts = [
            finished.text("en", "sea", source=TextSource.VISION),
            finished.text("de", "meer", source=TextSource.PIXELS),
        ]
        add(empty_service, name, texts=texts)
    for job in empty_service.client.get("/jobs").json()["data"]:
        path = f"/images/{job['image']['id']}/translations/en"
        assert empty_service.client.patch(path, json={"accept": True}).status_code == 200
    tab = open_tab(empty_service)
    tab.wait("document.querySelector('[data-alt=de]')")
    name = tab.text("#detail-title")
    tab.page.locator(".list").focus()
    tab.press("Enter")
    tab.wait("document.activeElement.dataset.alt === 'de'")
    assert tab.text("#detail-title") == name


def test_the_list_of_shortcuts_has_every_act_on_a_selection(tab: Tab) -> None:
    tab.press("?")
    keys = tab.page.locator(".shortcuts dt").all_inner_texts()
    assert {f"Shift {key}" for key in "ATWRLFM"} | {"s", "x", "f", "Ctrl Z"} <= set(keys)
