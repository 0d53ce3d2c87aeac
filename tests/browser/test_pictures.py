"""Working with finished pictures on the page: comparison, filters, order, selection, deletion and export."""

from __future__ import annotations

import io
import json
import zipfile

from PIL import Image

from tests.browser.conftest import (
    PICTURE_COUNT,
    WITH_TEXT,
    WITHOUT_TEXT,
    OpenTab,
    Tab,
    choose_filter,
    jobs,
    show,
    translation,
)
from tests.support import pictures
from tests.support.service import Running


def test_the_result_is_compared_with_the_original(tab: Tab) -> None:
    show(tab, "1.jpg")
    tab.wait("document.querySelector('.compare-handle')")
    assert tab.page.locator(".compare-layer img").first.get_attribute("alt") == "1.jpg, original"
    handle = tab.page.get_by_role("slider", name="Share of the original")
    assert handle.input_value() == "50"
    handle.press("ArrowRight")
    assert handle.input_value() == "52"
    clip = tab.page.evaluate("document.querySelectorAll('.compare-layer')[1].style.clipPath")
    assert "52%" in clip
    tab.press("z")
    assert tab.page.get_by_role("button", name="100 %").get_attribute("aria-pressed") == "true"
    assert tab.page.evaluate("document.querySelector('.compare-layer img').getBoundingClientRect().width") == 96
    tab.press("z")
    shown = tab.text(".compare-label.after")
    tab.press("o")
    tab.wait(f"document.querySelector('.compare-label.after')?.textContent !== {json.dumps(shown)}")


def test_filters_show_only_the_matching_pictures_and_those_that_need_a_text_come_first(tab: Tab) -> None:
    assert tab.names() == WITHOUT_TEXT + WITH_TEXT
    assert tab.count("Needs text") == len(WITHOUT_TEXT)
    assert "Needs text" in tab.text(".tile .status")
    for label, option, expected in [
        ("Language missing", "German missing", WITHOUT_TEXT),
        ("Language missing", "Any language", WITHOUT_TEXT + WITH_TEXT),
        ("Project", "Other", ["8.jpg"]),
    ]:
        choose_filter(tab, label, option)
        tab.wait(f"document.querySelectorAll('.tile').length === {len(expected)}")
        assert tab.names() == expected
    offered = tab.page.get_by_label("Language missing").locator("option").all_text_contents()
    assert offered == ["Any language", "English missing", "German missing"]


def test_an_export_contains_every_picture_or_those_that_are_selected(tab: Tab, service: Running) -> None:
    tab.press("e")
    tab.wait("document.querySelector('.needs-text li')")
    listed = tab.page.locator(".needs-text li").all_inner_texts()
    assert [text.split()[0] for text in listed] == WITHOUT_TEXT
    download_button = tab.page.get_by_role("button", name="Download ZIP")
    assert download_button.is_disabled(), "what happens to pictures without a text is not chosen yet"
    tab.page.get_by_label("Export them with the texts they have").check()
    with tab.page.expect_download() as begun:
        download_button.click()
    archive = zipfile.ZipFile(begun.value.path())
    exported = [name for name in archive.namelist() if not name.startswith("alt.")]
    assert len(exported) == PICTURE_COUNT
    for name in exported:
        assert Image.open(io.BytesIO(archive.read(name))).size == (96, 64)
    assert {"alt.csv", "alt.json"} <= set(archive.namelist())
    tab.page.reload()
    tab.wait("document.querySelector('[data-alt]')")
    show(tab, "1.jpg")
    tab.page.locator(".list").focus()
    tab.press("Space", "Shift+ArrowRight", "e")
    assert tab.text("dialog h2") == "Export 2 pictures"
    with tab.page.expect_download() as begun:
        tab.page.get_by_role("button", name="Download ZIP").click()
    assert len(zipfile.ZipFile(begun.value.path()).namelist()) == 4


def test_the_code_that_embeds_a_picture_is_copied(service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(service, permissions=["clipboard-read", "clipboard-write"])
    tab.wait("document.querySelector('[data-alt]')")
    show(tab, "7.jpg")
    text = translation(service, "7.jpg")["seo_alt_text"]
    copied_label = "[...document.querySelectorAll('button')].some((button) => button.textContent === 'Copied')"
    for kind, beginning in {"img": "<img ", "picture": "<", "markdown": "![", "alt": text}.items():
        tab.page.get_by_label("Format").select_option(kind)
        confirmed = tab.watch(copied_label)
        tab.page.get_by_role("button", name="Copy", exact=True).click()
        tab.wait(confirmed)
        copied = tab.page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith(beginning)
        assert text in copied
        if kind == "img":
            assert 'width="96" height="64"' in copied
        tab.wait(f"!{copied_label}")


def test_a_deletion_asks_for_confirmation(empty_service: Running, open_tab: OpenTab) -> None:
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        empty_service.process("optimize", pictures.jpeg(48, 32), name)
    tab = open_tab(empty_service)
    tab.wait_for_count("All", 3)
    show(tab, "b.jpg")
    tab.page.locator(".list").focus()
    tab.press("Delete")
    assert tab.text("dialog h2") == "Delete “b.jpg”?"
    tab.press("Escape")
    assert len(jobs(empty_service)) == 3
    tab.press("Delete")
    tab.page.get_by_role("button", name="Delete", exact=True).click()
    tab.wait_for_count("All", 2)
    assert sorted(jobs(empty_service)) == ["a.jpg", "c.jpg"]
    assert tab.text("#detail-title") == "c.jpg"


def test_a_failed_picture_is_processed_again(empty_service: Running, open_tab: OpenTab) -> None:
    form = {"languages": ["de"], "project_name": "Quay", "quality_target": "small", "folder": "Quay/Evening"}
    failed = empty_service.process("process", pictures.jpeg(96, 64)[:1500], "cut.jpg", **form)
    assert failed["status"] == "failed"
    tab = open_tab(empty_service)
    tab.wait("document.querySelector('.problems')")
    tab.page.get_by_role("button", name="Process again").click()
    tab.wait(f"document.querySelector('.tile')?.dataset.id > {json.dumps(failed['job_id'])}")
    tab.wait_for_count("All", 1)
    (job,) = jobs(empty_service).values()
    details = job["image"]["details"]
    assert (details["operation"], details["languages"], details["project"]["name"]) == ("process", ["de"], "Quay")
    assert (details["quality_target"], details["folder"]) == ("small", "Quay/Evening")
