"""Working with finished pictures on the page: texts, comparison, filters, order, selection, deletion and export."""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image

from tests.browser.conftest import WAIT_S, Desk, NumberedDescriber, OpenDesk
from tests.support import pictures
from tests.support.service import Running, running

COUNT = 8
NEEDING = ["4.jpg", "8.jpg"]
"""The describer leaves every fourth picture without a text."""
OTHERS = ["1.jpg", "2.jpg", "3.jpg", "5.jpg", "6.jpg", "7.jpg"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with finished pictures in two languages, the last of them in a project of its own."""
    with running(tmp_path_factory.mktemp("data"), NumberedDescriber) as started:
        for number in range(1, COUNT + 1):
            project = "Other" if number == COUNT else "Shop"
            form = {"languages": ["en", "de"], "project_name": project}
            started.process("process", pictures.jpeg(96, 64, seed=number), f"{number}.jpg", **form)
        yield started


@pytest.fixture
def desk(service: Running, open_desk: OpenDesk) -> Desk:
    opened = open_desk(service)
    opened.wait_for_count("All", len(jobs(service)))
    opened.wait("document.querySelector('[data-alt]')")
    return opened


def jobs(service: Running) -> dict[str, dict[str, Any]]:
    """The jobs with their details, by the name of the picture."""
    listed = service.client.get("/jobs", params={"limit": 100, "include": "removed,details"}).json()["data"]
    return {job["image"]["original_filename"]: job for job in listed}


def translation(service: Running, name: str, code: str = "en") -> dict[str, Any]:
    texts = jobs(service)[name]["image"]["translations"]
    return next(text for text in texts if text["language_code"] == code)


def show(desk: Desk, name: str) -> None:
    """Choose a picture in the list."""
    desk.page.locator(".tile", has=desk.page.get_by_text(name, exact=True)).click()
    desk.wait(f"document.querySelector('#detail-title').textContent === {json.dumps(name)}")


def alt_text(desk: Desk, code: str = "en") -> str:
    return str(desk.page.locator(f"[data-alt={code}]").input_value())


def wait_for_text(desk: Desk, text: str, code: str = "en") -> None:
    desk.wait(f"document.querySelector('[data-alt={code}]').value === {json.dumps(text)}")


def wait_until_stored(service: Running, name: str, text: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while translation(service, name)["seo_alt_text"] != text:
        assert time.monotonic() < deadline, translation(service, name)
        time.sleep(0.02)


def test_pictures_that_need_a_text_come_first(desk: Desk) -> None:
    assert desk.names() == NEEDING + OTHERS
    assert desk.count("Needs text") == len(NEEDING)
    assert "Needs text" in desk.text(".tile .status")


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
    assert "250" in desk.text(".text .problem")
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
    desk.page.wait_for_timeout(500)  # the page, too, has received that the last change is stored
    desk.press("Escape")
    desk.press(*["Control+z"] * 4)
    for name, text in stored.items():
        wait_until_stored(service, name, text)


def test_remarks_appear_while_a_text_is_written(desk: Desk) -> None:
    show(desk, "3.jpg")
    stored = alt_text(desk)
    desk.page.locator("[data-alt=en]").fill("Image of a harbour.")
    desk.wait("document.querySelector('.remarks li')")
    desk.page.locator("[data-alt=en]").fill(stored)
    desk.wait("!document.querySelector('.remarks li')")


def test_a_text_is_written_anew(desk: Desk, service: Running) -> None:
    show(desk, "5.jpg")
    before = alt_text(desk)
    desk.page.get_by_role("button", name="Write English anew").click()
    desk.wait(f"document.querySelector('[data-alt=en]').value !== {json.dumps(before)}")
    assert translation(service, "5.jpg")["seo_alt_text"] == alt_text(desk) != before
    desk.page.get_by_role("button", name="Undo English").click()
    wait_for_text(desk, before)


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


def test_the_smaller_file_is_recommended(desk: Desk, service: Running) -> None:
    show(desk, "6.jpg")
    image = jobs(service)["6.jpg"]["image"]
    smaller = "WebP" if image["converted_size"] < image["optimized_size"] else "Optimized"
    row = desk.page.locator(".sizes tr", has=desk.page.get_by_text("serve this one"))
    assert row.locator("th span").first.inner_text() == smaller


def test_filters_leave_the_matching_pictures(desk: Desk) -> None:
    for label, option, expected in [
        ("Language missing", "German missing", NEEDING),
        ("Language missing", "French missing", NEEDING + OTHERS),
        ("Project", "Other", ["8.jpg"]),
    ]:
        desk.page.get_by_label(label).select_option(option)
        desk.wait(f"document.querySelectorAll('.tile').length === {len(expected)}")
        assert desk.names() == expected


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


def test_a_change_elsewhere_is_shown(desk: Desk, service: Running) -> None:
    show(desk, "7.jpg")
    image_id = jobs(service)["7.jpg"]["image"]["id"]
    before = alt_text(desk)
    changed = service.client.patch(f"/images/{image_id}/translations/en", json={"seo_alt_text": "Changed elsewhere."})
    assert changed.status_code == 200
    wait_for_text(desk, "Changed elsewhere.")
    assert service.client.post(f"/images/{image_id}/translations/en/undo").status_code == 200
    wait_for_text(desk, before)
