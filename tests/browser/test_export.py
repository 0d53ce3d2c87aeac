"""The dialog that exports pictures: what it asks, says and preserves."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest

from tests.browser.conftest import WITH_TEXT, WITHOUT_TEXT, OpenTab, Tab
from tests.support import pictures
from tests.support.service import Running


def open_export(tab: Tab) -> None:
    tab.press("e")
    tab.wait("document.querySelector('.export [role=status]').textContent.includes('alt.csv')")


def open_more(tab: Tab) -> None:
    """Show the choices that few need."""
    tab.page.get_by_text("More choices").click()


def test_the_pictures_that_need_a_text_are_listed_with_the_reason(tab: Tab) -> None:
    open_export(tab)
    listed = tab.page.locator(".needs-text li").all_inner_texts()
    assert [text.split()[0] for text in listed] == WITHOUT_TEXT
    for text in listed:
        assert text.endswith("English, German: nothing is known of it")


def test_pictures_without_a_text_are_exported_with_what_they_have_or_left_out(tab: Tab) -> None:
    for choice, names in [("Export them with the texts they have", 8), ("Leave them out", len(WITH_TEXT))]:
        open_export(tab)
        tab.page.get_by_label(choice).check()
        with tab.page.expect_download() as begun:
            tab.page.get_by_role("button", name="Download ZIP").click()
        archive = zipfile.ZipFile(io.BytesIO(begun.value.path().read_bytes()))
        assert len([name for name in archive.namelist() if not name.startswith("alt.")]) == names


def test_what_was_chosen_is_chosen_again_after_a_reload(tab: Tab) -> None:
    open_export(tab)
    tab.page.get_by_role("checkbox", name="Original as it was").check()
    open_more(tab)
    tab.page.get_by_label("Language of the file names").select_option("de")
    tab.page.get_by_label("Write the alt texts into the files").uncheck()
    tab.page.get_by_label("Leave them out").check()
    tab.page.reload()
    tab.wait("document.querySelector('[data-alt]')")
    open_export(tab)
    open_more(tab)
    assert tab.page.get_by_role("checkbox", name="Original as it was").is_checked()
    assert tab.page.get_by_label("Language of the file names").input_value() == "de"
    assert not tab.page.get_by_label("Write the alt texts into the files").is_checked()
    assert tab.page.get_by_label("Leave them out").is_checked()


def test_at_most_five_pictures_that_need_a_text_take_room(tab: Tab) -> None:
    def with_many(route: Any) -> None:
        response = route.fetch()
        body = response.json()
        body["data"]["needs_text"] = [body["data"]["needs_text"][0] | {"image_id": str(number)} for number in range(40)]
        route.fulfill(response=response, json=body)

    tab.page.route("**/exports", with_many)
    open_export(tab)
    heights = "[...document.querySelectorAll('.needs-text :is(ul, li:first-child)')].map((each) => each.offsetHeight)"
    whole, row = tab.page.evaluate(heights)
    assert whole <= 5 * row + 1
    assert tab.page.locator("dialog").evaluate("(each) => each.offsetHeight") < 720


@pytest.fixture
def nested(empty_service: Running, open_tab: OpenTab) -> Tab:
    """Two pictures of one name in two folders."""
    for number, folder in enumerate(("Trip/Day one", "Trip/Day two")):
        content = pictures.jpeg(96, 64, seed=number)
        empty_service.process("process", content, "IMG_1.jpg", languages=["en"], folder=folder)
    tab = open_tab(empty_service)
    tab.wait("document.querySelectorAll('.tile').length === 2")
    return tab


def downloaded(tab: Tab) -> zipfile.ZipFile:
    with tab.page.expect_download() as begun:
        tab.page.get_by_role("button", name="Download ZIP").click()
    return zipfile.ZipFile(io.BytesIO(begun.value.path().read_bytes()))


def test_folders_are_kept_unless_they_are_not_wanted(nested: Tab) -> None:
    for keeps, depth in ((True, 2), (False, 0)):
        open_export(nested)
        nested.page.get_by_label("Keep the folders of the originals").set_checked(keeps)
        names = [name for name in downloaded(nested).namelist() if not name.startswith("alt.")]
        assert [name.count("/") for name in names] == [depth, depth]


def test_files_are_named_by_a_pattern_that_shows_examples(nested: Tab) -> None:
    open_export(nested)
    nested.page.get_by_label("Names of the files").select_option(label="As the original")
    nested.wait("document.querySelector('.export').textContent.includes('Such as Trip/Day')")
    nested.page.get_by_label("Names of the files").select_option(label="Another pattern…")
    nested.page.get_by_label("Pattern of the names").fill("{place}")
    nested.wait("document.querySelector('.export .problem')")
    assert nested.page.get_by_role("button", name="Download ZIP").is_disabled()
    nested.page.get_by_label("Pattern of the names").fill("holiday-{n}")
    nested.wait("document.querySelector('.export').textContent.includes('holiday-1')")
    names = [name.split("/")[-1] for name in downloaded(nested).namelist()]
    assert sorted(name.split(".")[0] for name in names if not name.startswith("alt.")) == ["holiday-1", "holiday-2"]


def test_a_table_for_shopify_is_added(nested: Tab) -> None:
    open_export(nested)
    open_more(nested)
    nested.page.get_by_label("Add a table for Shopify").check()
    assert "shopify.csv" in downloaded(nested).namelist()
