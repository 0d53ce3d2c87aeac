"""Working with finished pictures on the page: comparison, filters, order, selection, deletion and export."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
from PIL import Image

from tests.browser.conftest import PICTURE_COUNT, WITH_TEXT, WITHOUT_TEXT, OpenTab, Tab, jobs, show, translation
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


def test_pictures_requested_while_offline_are_shown_once_online_again(tab: Tab) -> None:
    show(tab, "1.jpg")
    tab.wait("document.querySelector('.compare-handle')")
    network = tab.context.new_cdp_session(tab.page)
    network.send("Network.enable")
    network.send("Network.setCacheDisabled", {"cacheDisabled": True})
    tab.context.set_offline(True)
    show(tab, "2.jpg")
    tab.wait("document.querySelector('#notices .notice')?.textContent.includes('reached')")
    tab.page.get_by_label("Search names and texts").fill("3.jpg")
    tab.wait("document.querySelectorAll('.tile').length === 1")
    tab.page.get_by_label("Search names and texts").fill("")
    tab.wait(f"document.querySelectorAll('.tile').length === {PICTURE_COUNT}")
    tab.page.wait_for_timeout(500)
    assert tab.text(".compare-note") == ""
    assert tab.page.locator(".thumb[data-state=missing]").count() == 0
    tab.context.set_offline(False)
    tab.wait("document.querySelector('.compare-handle')")
    tab.wait(f"document.querySelectorAll('.thumb[data-state=shown]').length === {PICTURE_COUNT}")
    assert tab.text("#notices") == ""


def test_the_smaller_file_is_recommended(tab: Tab, service: Running) -> None:
    show(tab, "6.jpg")
    image = jobs(service)["6.jpg"]["image"]
    smaller = "WebP" if image["converted_size"] < image["optimized_size"] else "Optimized"
    row = tab.page.locator(".sizes tr", has=tab.page.get_by_text("serve this one"))
    assert row.locator("th span").first.inner_text() == smaller


def test_filters_show_only_the_matching_pictures_and_those_that_need_a_text_come_first(tab: Tab) -> None:
    assert tab.names() == WITHOUT_TEXT + WITH_TEXT
    assert tab.count("Needs text") == len(WITHOUT_TEXT)
    assert "Needs text" in tab.text(".tile .status")
    for label, option, expected in [
        ("Language missing", "German missing", WITHOUT_TEXT),
        ("Language missing", "Any language", WITHOUT_TEXT + WITH_TEXT),
        ("Project", "Other", ["8.jpg"]),
    ]:
        tab.page.get_by_label(label).select_option(option)
        tab.wait(f"document.querySelectorAll('.tile').length === {len(expected)}")
        assert tab.names() == expected
    offered = tab.page.get_by_label("Language missing").locator("option").all_inner_texts()
    assert offered == ["Any language", "English missing", "German missing"]


def test_the_filter_needs_text_and_the_search_combine(tab: Tab) -> None:
    tab.press("t")
    tab.wait(f"document.querySelectorAll('.tile').length === {len(WITHOUT_TEXT)}")
    tab.press("/")
    tab.page.keyboard.type("picture-8-de")
    tab.wait("document.querySelectorAll('.tile').length === 1")
    assert tab.names() == ["8.jpg"]
    tab.page.get_by_label("Search names and texts").fill("nothing like this")
    tab.wait("document.querySelectorAll('.tile').length === 0")
    assert "No picture passes the filters" in tab.text(".nothing")
    # Escape leaves the search field without emptying it
    tab.press("Escape", "t")
    assert tab.page.get_by_label("Search names and texts").input_value() == "nothing like this"


def test_the_list_is_sorted(tab: Tab, service: Running) -> None:
    images = {name: job["image"] for name, job in jobs(service).items()}
    by_name = sorted(images)  # this is also the order of the uploads

    def saved(name: str) -> int:
        return int(images[name]["original_size"] - min(images[name]["optimized_size"], images[name]["converted_size"]))

    expected = {
        "Name": by_name,
        "Size": sorted(by_name, key=lambda name: -images[name]["original_size"]),
        "Status": by_name,
        "Bytes saved": sorted(by_name, key=lambda name: -saved(name)),
        "Folder order": by_name,
        "Date added": by_name[::-1],
    }
    tab.page.locator(".menu summary").click()
    tab.page.get_by_label("Needs text first").uncheck()
    for order, names in expected.items():
        tab.page.get_by_role("radio", name=order, exact=True).check()
        tab.wait(f"document.querySelector('.tile[aria-posinset=\"1\"] .name').textContent === {json.dumps(names[0])}")
        tab.page.wait_for_timeout(500)
        assert tab.names() == names, order
    tab.page.get_by_label("Reversed").check()
    tab.wait("document.querySelector('.tile[aria-posinset=\"1\"] .name').textContent === '1.jpg'")
    # the choice is preserved
    tab.page.reload()
    tab.wait_for_count("All", PICTURE_COUNT)
    assert tab.names() == by_name


def test_an_export_contains_every_picture(tab: Tab, service: Running) -> None:
    tab.press("e")
    tab.wait("document.querySelector('.needs-text li')")
    listed = tab.page.locator(".needs-text li").all_inner_texts()
    assert [text.split()[0] for text in listed] == WITHOUT_TEXT
    download_button = tab.page.get_by_role("button", name="Download ZIP")
    assert download_button.is_disabled(), "what happens to pictures without a text is not chosen yet"
    tab.page.get_by_label("Export them without an alt text").check()
    with tab.page.expect_download() as begun:
        download_button.click()
    archive = zipfile.ZipFile(begun.value.path())
    exported = [name for name in archive.namelist() if not name.startswith("alt.")]
    assert len(exported) == PICTURE_COUNT
    for name in exported:
        assert Image.open(io.BytesIO(archive.read(name))).size == (96, 64)
    assert {"alt.csv", "alt.json"} <= set(archive.namelist())


def test_pictures_that_failed_are_not_among_those_that_need_a_text(empty_service: Running, open_tab: OpenTab) -> None:
    for number in range(1, 5):
        empty_service.process("process", pictures.jpeg(96, 64, seed=number), f"{number}.jpg", languages=["en"])
    whole = pictures.jpeg(96, 64, seed=5)
    empty_service.process("process", whole[: len(whole) // 2], "broken.jpg", languages=["en"])
    tab = open_tab(empty_service)
    tab.wait_for_count("All", 5)
    tab.press("e")
    tab.wait("document.querySelector('.needs-text li')")
    assert tab.count("Needs text") == 1
    assert tab.text(".needs-text legend").startswith("1 picture needs a text")
    assert "broken.jpg" in tab.text("dialog .problem")
    tab.page.get_by_label("Leave them out").check()
    tab.wait("document.querySelector('dialog [role=status]').textContent.startsWith('3 pictures,')")
    with tab.page.expect_download() as begun:
        tab.page.get_by_role("button", name="Download ZIP").click()
    names = zipfile.ZipFile(begun.value.path()).namelist()
    assert sorted(names[-2:]) == ["alt.csv", "alt.json"]
    assert len(names) == 5


def test_a_selection_is_exported_alone(tab: Tab) -> None:
    show(tab, "1.jpg")
    tab.page.locator(".list").focus()
    tab.press("Space", "Shift+ArrowRight", "e")
    assert tab.text("dialog h2") == "Export 2 pictures"
    with tab.page.expect_download() as begun:
        tab.page.get_by_role("button", name="Download ZIP").click()
    names = zipfile.ZipFile(begun.value.path()).namelist()
    assert len(names) == 4


def test_an_export_is_saved_to_a_folder(tab: Tab) -> None:
    # the browser's private file system stands in for the folder that a user chooses
    tab.page.evaluate("window.showDirectoryPicker = () => navigator.storage.getDirectory()")
    for _ in range(2):
        tab.press("e")
        tab.page.get_by_label("Export them without an alt text").check()
        tab.page.get_by_role("button", name="Save to a folder…").click()
        tab.wait("!document.querySelector('dialog')")
    folders: dict[str, dict[str, int]] = tab.page.evaluate(
        """async () => {
          const read = async (folder, sizes) => {
            for await (const [name, handle] of folder.entries()) {
              if (handle.kind === "directory") await read(handle, sizes);
              else {
                const file = await handle.getFile();
                sizes[name] = file.size;
                if (!name.startsWith("alt.")) (await createImageBitmap(file)).close();
              }
            }
            return sizes;
          };
          const folders = {};
          for await (const [name, handle] of (await navigator.storage.getDirectory()).entries()) {
            folders[name] = await read(handle, {});
          }
          return folders;
        }"""
    )
    first, second = sorted(folders)
    assert second == f"{first} 2", "nothing in the chosen folder is overwritten"
    assert folders[first] == folders[second]
    assert len(folders[first]) == PICTURE_COUNT + 2
    assert min(folders[first].values()) > 0


def test_the_code_that_embeds_a_picture_is_copied(service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(service, permissions=["clipboard-read", "clipboard-write"])
    tab.wait("document.querySelector('[data-alt]')")
    show(tab, "7.jpg")
    text = translation(service, "7.jpg")["seo_alt_text"]
    copied_label = "[...document.querySelectorAll('button')].some((button) => button.textContent === 'Copied')"
    for kind, beginning in {"img": "<img ", "picture": "<", "markdown": "![", "json": "[", "alt": text}.items():
        tab.page.get_by_label("Format").select_option(kind)
        confirmed = tab.watch(copied_label)
        tab.page.get_by_role("button", name="Copy", exact=True).click()
        tab.wait(confirmed)
        copied = tab.page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith(beginning)
        assert text in copied
        if kind == "json":
            assert json.loads(copied)[0]["original_filename"] == "7.jpg"
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


@pytest.mark.parametrize(
    ("operation", "form", "languages", "project"),
    [
        ("process", {"languages": ["de"], "project_name": "Quay"}, ["de"], "Quay"),
        ("optimize", {}, ["en"], "API Uploads"),
    ],
)
def test_a_failed_picture_is_processed_again(
    empty_service: Running, open_tab: OpenTab, operation: str, form: Any, languages: list[str], project: str
) -> None:
    failed = empty_service.process(operation, pictures.jpeg(96, 64)[:1500], "cut.jpg", **form)
    assert failed["status"] == "failed"
    tab = open_tab(empty_service)
    tab.wait("document.querySelector('.problems')")
    tab.page.get_by_role("button", name="Process again").click()
    tab.wait(f"document.querySelector('.tile')?.dataset.id > {json.dumps(failed['job_id'])}")
    tab.wait_for_count("All", 1)
    (job,) = jobs(empty_service).values()
    details = job["image"]["details"]
    assert (details["operation"], details["languages"], details["project"]["name"]) == (operation, languages, project)
