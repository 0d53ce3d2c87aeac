"""Working with finished pictures on the page: comparison, filters, order, selection, deletion and export."""

from __future__ import annotations

import io
import json
import zipfile

from PIL import Image

from tests.browser.conftest import COUNT, NEEDING, OTHERS, Desk, OpenDesk, jobs, show, translation
from tests.support import pictures
from tests.support.service import Running


def test_pictures_that_need_a_text_come_first(desk: Desk) -> None:
    assert desk.names() == NEEDING + OTHERS
    assert desk.count("Needs text") == len(NEEDING)
    assert "Needs text" in desk.text(".tile .status")


def test_the_result_is_compared_with_the_original(desk: Desk) -> None:
    show(desk, "1.jpg")
    desk.wait("document.querySelector('.compare-handle')")
    assert desk.page.locator(".compare-layer img").first.get_attribute("alt") == "1.jpg, original"
    handle = desk.page.get_by_role("slider", name="Share of the original")
    assert handle.get_attribute("aria-valuenow") == "50"
    handle.press("ArrowRight")
    assert handle.get_attribute("aria-valuenow") == "52"
    clip = desk.page.evaluate("document.querySelectorAll('.compare-layer')[1].style.clipPath")
    assert "52%" in clip
    desk.press("z")
    assert desk.page.get_by_role("button", name="100 %").get_attribute("aria-pressed") == "true"
    assert desk.page.evaluate("document.querySelector('.compare-layer img').getBoundingClientRect().width") == 96
    desk.press("z")
    shown = desk.text(".compare-label.after")
    desk.press("o")
    desk.wait(f"document.querySelector('.compare-label.after')?.textContent !== {json.dumps(shown)}")


def test_pictures_that_were_asked_for_in_an_interruption_are_shown_after_it(desk: Desk) -> None:
    show(desk, "1.jpg")
    desk.wait("document.querySelector('.compare-handle')")
    network = desk.context.new_cdp_session(desk.page)
    network.send("Network.enable")
    network.send("Network.setCacheDisabled", {"cacheDisabled": True})
    desk.context.set_offline(True)
    show(desk, "2.jpg")
    desk.wait("document.querySelector('#notices .notice')?.textContent.includes('reached')")
    desk.page.get_by_label("Search names and texts").fill("3.jpg")
    desk.wait("document.querySelectorAll('.tile').length === 1")
    desk.page.get_by_label("Search names and texts").fill("")
    desk.wait(f"document.querySelectorAll('.tile').length === {COUNT}")
    desk.page.wait_for_timeout(500)
    assert desk.text(".compare-note") == ""
    assert desk.page.locator(".thumb[data-state=missing]").count() == 0
    desk.context.set_offline(False)
    desk.wait("document.querySelector('.compare-handle')")
    desk.wait(f"document.querySelectorAll('.thumb[data-state=shown]').length === {COUNT}")
    assert desk.text("#notices") == ""


def test_the_smaller_file_is_recommended(desk: Desk, service: Running) -> None:
    show(desk, "6.jpg")
    image = jobs(service)["6.jpg"]["image"]
    smaller = "WebP" if image["converted_size"] < image["optimized_size"] else "Optimized"
    row = desk.page.locator(".sizes tr", has=desk.page.get_by_text("serve this one"))
    assert row.locator("th span").first.inner_text() == smaller


def test_filters_leave_the_matching_pictures(desk: Desk) -> None:
    for label, option, expected in [
        ("Language missing", "German missing", NEEDING),
        ("Language missing", "Any language", NEEDING + OTHERS),
        ("Project", "Other", ["8.jpg"]),
    ]:
        desk.page.get_by_label(label).select_option(option)
        desk.wait(f"document.querySelectorAll('.tile').length === {len(expected)}")
        assert desk.names() == expected
    offered = desk.page.get_by_label("Language missing").locator("option").all_inner_texts()
    assert offered == ["Any language", "English missing", "German missing"]


def test_kinds_and_search_combine(desk: Desk) -> None:
    desk.press("t")
    desk.wait(f"document.querySelectorAll('.tile').length === {len(NEEDING)}")
    desk.press("/")
    desk.page.keyboard.type("picture-8-de")
    desk.wait("document.querySelectorAll('.tile').length === 1")
    assert desk.names() == ["8.jpg"]
    desk.page.get_by_label("Search names and texts").fill("nothing like this")
    desk.wait("document.querySelectorAll('.tile').length === 0")
    assert "No picture passes the filters" in desk.text(".nothing")
    desk.press("Escape", "t")
    assert desk.page.get_by_label("Search names and texts").input_value() == "nothing like this"


def test_the_list_is_sorted(desk: Desk, service: Running) -> None:
    images = {name: job["image"] for name, job in jobs(service).items()}
    uploaded = sorted(images)

    def saved(name: str) -> int:
        return int(images[name]["original_size"] - min(images[name]["optimized_size"], images[name]["converted_size"]))

    expected = {
        "Name": uploaded,
        "Size": sorted(uploaded, key=lambda name: -images[name]["original_size"]),
        "Status": uploaded,
        "Bytes saved": sorted(uploaded, key=lambda name: -saved(name)),
        "Folder order": uploaded,
        "Date added": uploaded[::-1],
    }
    desk.page.locator(".menu summary").click()
    desk.page.get_by_label("Needs text first").uncheck()
    for order, names in expected.items():
        desk.page.get_by_role("radio", name=order, exact=True).check()
        desk.wait(f"document.querySelector('.tile[aria-posinset=\"1\"] .name').textContent === {json.dumps(names[0])}")
        desk.page.wait_for_timeout(500)
        assert desk.names() == names, order
    desk.page.get_by_label("Reversed").check()
    desk.wait("document.querySelector('.tile[aria-posinset=\"1\"] .name').textContent === '1.jpg'")
    # the choice is preserved
    desk.page.reload()
    desk.wait_for_count("All", COUNT)
    assert desk.names() == uploaded


def test_an_export_contains_every_picture(desk: Desk, service: Running) -> None:
    desk.press("e")
    desk.wait("document.querySelector('.needs-text li')")
    listed = desk.page.locator(".needs-text li").all_inner_texts()
    assert [text.split()[0] for text in listed] == NEEDING
    download_button = desk.page.get_by_role("button", name="Download ZIP")
    assert download_button.is_disabled(), "what happens to pictures without a text is decided first"
    desk.page.get_by_label("Export them without an alt text").check()
    with desk.page.expect_download() as begun:
        download_button.click()
    archive = zipfile.ZipFile(begun.value.path())
    exported = [name for name in archive.namelist() if not name.startswith("alt.")]
    assert len(exported) == COUNT
    for name in exported:
        assert Image.open(io.BytesIO(archive.read(name))).size == (96, 64)
    assert {"alt.csv", "alt.json"} <= set(archive.namelist())


def test_pictures_that_failed_are_not_among_those_that_need_a_text(empty: Running, open_desk: OpenDesk) -> None:
    for number in range(1, 5):
        empty.process("process", pictures.jpeg(96, 64, seed=number), f"{number}.jpg", languages=["en"])
    whole = pictures.jpeg(96, 64, seed=5)
    empty.process("process", whole[: len(whole) // 2], "broken.jpg", languages=["en"])
    desk = open_desk(empty)
    desk.wait_for_count("All", 5)
    desk.press("e")
    desk.wait("document.querySelector('.needs-text li')")
    assert desk.count("Needs text") == 1
    assert desk.text(".needs-text legend").startswith("1 picture needs a text")
    assert "broken.jpg" in desk.text("dialog .problem")
    desk.page.get_by_label("Leave them out").check()
    desk.wait("document.querySelector('dialog [role=status]').textContent.startsWith('3 pictures,')")
    with desk.page.expect_download() as begun:
        desk.page.get_by_role("button", name="Download ZIP").click()
    names = zipfile.ZipFile(begun.value.path()).namelist()
    assert sorted(names[-2:]) == ["alt.csv", "alt.json"]
    assert len(names) == 5


def test_a_selection_is_exported_alone(desk: Desk) -> None:
    show(desk, "1.jpg")
    desk.page.locator(".list").focus()
    desk.press("Space", "Shift+ArrowRight", "e")
    assert desk.text("dialog h2") == "Export 2 pictures"
    with desk.page.expect_download() as begun:
        desk.page.get_by_role("button", name="Download ZIP").click()
    names = zipfile.ZipFile(begun.value.path()).namelist()
    assert len(names) == 4


def test_an_export_is_saved_to_a_folder(desk: Desk) -> None:
    # the browser's private file system stands in for the folder that a user chooses
    desk.page.evaluate("window.showDirectoryPicker = () => navigator.storage.getDirectory()")
    for _ in range(2):
        desk.press("e")
        desk.page.get_by_label("Export them without an alt text").check()
        desk.page.get_by_role("button", name="Save to a folder…").click()
        desk.wait("!document.querySelector('dialog')")
    folders: dict[str, dict[str, int]] = desk.page.evaluate(
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
    assert len(folders[first]) == COUNT + 2
    assert min(folders[first].values()) > 0


def test_a_picture_is_copied(service: Running, open_desk: OpenDesk) -> None:
    desk = open_desk(service, permissions=["clipboard-read", "clipboard-write"])
    desk.wait("document.querySelector('[data-alt]')")
    show(desk, "7.jpg")
    text = translation(service, "7.jpg")["seo_alt_text"]
    for kind, beginning in {"img": "<img ", "picture": "<", "markdown": "![", "json": "[", "alt": text}.items():
        desk.page.get_by_label("Format").select_option(kind)
        desk.page.get_by_role("button", name="Copy", exact=True).click()
        desk.wait("[...document.querySelectorAll('button')].some((button) => button.textContent === 'Copied')")
        copied = desk.page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith(beginning)
        assert text in copied
        if kind == "json":
            assert json.loads(copied)[0]["original_filename"] == "7.jpg"
        if kind == "img":
            assert 'width="96" height="64"' in copied
        desk.wait("![...document.querySelectorAll('button')].some((button) => button.textContent === 'Copied')")


def test_a_deletion_is_confirmed(empty: Running, open_desk: OpenDesk) -> None:
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        empty.process("optimize", pictures.jpeg(48, 32), name)
    desk = open_desk(empty)
    desk.wait_for_count("All", 3)
    show(desk, "b.jpg")
    desk.page.locator(".list").focus()
    desk.press("Delete")
    assert desk.text("dialog h2") == "Delete “b.jpg”?"
    desk.press("Escape")
    assert len(jobs(empty)) == 3
    desk.press("Delete")
    desk.page.get_by_role("button", name="Delete", exact=True).click()
    desk.wait_for_count("All", 2)
    assert sorted(jobs(empty)) == ["a.jpg", "c.jpg"]
    assert desk.text("#detail-title") == "c.jpg"


def test_a_failed_picture_is_processed_again(empty: Running, open_desk: OpenDesk) -> None:
    failed = empty.process("process", pictures.jpeg(96, 64)[:1500], "cut.jpg", languages=["de"], project_name="Quay")
    assert failed["status"] == "failed"
    desk = open_desk(empty)
    desk.wait("document.querySelector('.problems')")
    desk.page.get_by_role("button", name="Process again").click()
    desk.wait(f"document.querySelector('.tile')?.dataset.id > {json.dumps(failed['job_id'])}")
    desk.wait_for_count("All", 1)
    (job,) = jobs(empty).values()
    assert job["job_id"] != failed["job_id"]
    assert job["image"]["details"]["languages"] == ["de"]
    assert job["image"]["details"]["project"]["name"] == "Quay"


def test_a_failed_optimization_is_processed_again_as_such(empty: Running, open_desk: OpenDesk) -> None:
    failed = empty.process("optimize", pictures.jpeg(96, 64)[:1500], "cut.jpg")
    desk = open_desk(empty)
    desk.page.get_by_role("button", name="Process again").click()
    desk.wait(f"document.querySelector('.tile')?.dataset.id > {json.dumps(failed['job_id'])}")
    desk.wait_for_count("All", 1)
    (job,) = jobs(empty).values()
    assert job["image"]["details"]["operation"] == "optimize"
