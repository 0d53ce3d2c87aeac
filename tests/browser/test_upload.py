"""Adding pictures to the page: the first run, a drop of many files, their order, and a reload in the middle."""

from __future__ import annotations

from pathlib import Path

from imgproc_local.codecs.picture.other_decoders import libjxl
from tests.browser.conftest import OpenTab, jobs, open_option
from tests.support import pictures
from tests.support.service import GatedDescriber, Running

REFUSED = {
    "DSC_0001.NEF": (b"II*\0" + bytes(60), "camera's raw file"),
    "empty.jpg": (b"", "empty"),
    "notes.png": (b"These are no pictures.", "text"),
    "cut.png": (pictures.png()[:200], "cut off"),
    "film.gif": (b"RIFF\x10\0\0\0AVI LIST", "RIFF"),
    "large.jpg": (bytes(1024 * 1024 + 1), "larger than 1 MB"),
}
"""Files that are not accepted, with a part of the reason."""

ACCEPTED = {f"IMG_{number}.jpg": pictures.jpeg(64, 48, seed=number) for number in range(1, 25)}


def test_a_drop_of_30_files_lists_6_refused_ones_with_their_reasons(empty_service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(empty_service)
    mixed = {**{name: content for name, (content, _) in REFUSED.items()}, **dict(reversed(ACCEPTED.items()))}
    tab.drop(mixed)
    tab.wait_for_count("All", len(ACCEPTED))
    tab.wait("!document.querySelector('.upload-status')")
    refused = tab.page.locator(".refused li").all_inner_texts()
    assert len(refused) == len(REFUSED)
    announced = f"{len(ACCEPTED)} pictures sent, {len(REFUSED)} files not added."
    tab.wait(f"[...document.querySelectorAll('.announcement span')].some((each) => each.textContent === '{announced}')")
    for name, (_, reason) in REFUSED.items():
        assert any(text.startswith(name) and reason in text for text in refused), (name, refused)
    jobs = empty_service.client.get("/jobs", params={"limit": 100}).json()["data"]
    uploaded = [job["image"]["original_filename"] for job in reversed(jobs)]
    assert uploaded == list(ACCEPTED), "the files are uploaded in the order of the folder: numbers by value"
    for job in jobs:
        empty_service.final(job["job_id"])
    tab.wait(f"document.querySelector('.totals').textContent.includes('{len(ACCEPTED)} pictures')")
    tab.page.get_by_role("button", name="Close", exact=True).click()
    assert tab.text(".refused") == ""


def test_a_dropped_folder_is_added_in_its_order(empty_service: Running, open_tab: OpenTab, tmp_path: Path) -> None:
    folder = tmp_path / "Harbour"
    (folder / "Day 2").mkdir(parents=True)
    for place, name in enumerate(("10.jpg", "9.jpg", "Day 2/1.jpg")):
        (folder / name).write_bytes(pictures.jpeg(64, 48, seed=place))
    (folder / "raw.NEF").write_bytes(bytes(100))
    (folder / "next.jxl").write_bytes(libjxl().jpeg_to_jxl(pictures.jpeg(64, 48, seed=5)))
    (folder / "small.avif").write_bytes(pictures.avif())
    for name in ("notes.txt", "Day 2/more.TXT", "film.mov"):
        (folder / name).write_text("not a picture")
    for name in (".hidden.jpg", "Thumbs.db"):
        (folder / name).write_bytes(bytes(100))
    tab = open_tab(empty_service)
    devtools = tab.page.context.new_cdp_session(tab.page)
    dragged = {"items": [], "files": [str(folder)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        if kind == "drop":  # another element comes below the pointer, as when the list is loaded meanwhile
            tab.page.evaluate("document.querySelector('.top').style.cssText = 'position: fixed; inset: 0'")
        devtools.send("Input.dispatchDragEvent", {"type": kind, "x": 400, "y": 400, "data": dragged})
    tab.wait_for_count("Done", 5)
    assert list(reversed(jobs(empty_service))) == ["9.jpg", "10.jpg", "next.jxl", "small.avif", "1.jpg"]
    refused = tab.page.locator(".refused li").all_inner_texts()
    assert refused[0] == "3 other files were left out: 2 .txt, 1 .mov."
    assert [text.split()[0] for text in refused[1:]] == ["Harbour/raw.NEF"]
    folders = {name: job["image"]["details"]["folder"] for name, job in jobs(empty_service).items()}
    assert folders.pop("1.jpg") == "Harbour/Day 2"
    assert set(folders.values()) == {"Harbour"}


def test_pictures_are_chosen_with_options_pasted_and_added_again_only_on_request(
    empty_service: Running, open_tab: OpenTab
) -> None:
    tab = open_tab(empty_service, permissions=["clipboard-read", "clipboard-write"])
    open_option(tab, "Project")
    tab.page.get_by_label("Project", exact=True).fill("Harbour")
    open_option(tab, "Languages")
    tab.page.get_by_label("Find a language").fill("german")
    tab.page.get_by_label("German").check()
    open_option(tab, "Size")
    tab.page.get_by_label("Longest side of the results").select_option("1280")
    tab.page.locator(".file-input").set_input_files(
        [{"name": "quay.jpg", "mimeType": "image/jpeg", "buffer": pictures.jpeg(64, 48)}]
    )
    tab.wait_for_count("All", 1)
    (job,) = empty_service.client.get("/jobs", params={"include": "details"}).json()["data"]
    details = job["image"]["details"]
    assert details["project"]["name"] == "Harbour"
    assert details["languages"] == ["en", "de"]
    assert (details["max_width_px"], details["max_height_px"]) == (1280, 1280)
    assert empty_service.final(job["job_id"])["image"]["converted_format"] == "avif"
    tab.drop({"quay.jpg": pictures.jpeg(64, 48)})
    tab.wait("document.querySelector('.refused li')")
    assert "in the list already" in tab.text(".refused li")
    tab.page.get_by_role("button", name="Add duplicates too").click()
    tab.wait_for_count("All", 2)
    tab.page.evaluate(
        """async () => {
          const { canvas } = new OffscreenCanvas(64, 48).getContext("2d");
          const picture = await canvas.convertToBlob({ type: "image/png" });
          await navigator.clipboard.write([new ClipboardItem({ "image/png": picture })]);
        }"""
    )
    tab.press("Control+v")
    tab.wait_for_count("All", 3)
    newest = empty_service.client.get("/jobs", params={"include": "details"}).json()["data"][0]
    assert newest["image"]["details"]["format"] == "png"


def test_what_browsers_can_not_show_is_accepted_and_its_result_shown_alone(
    empty_service: Running, open_tab: OpenTab
) -> None:
    tab = open_tab(empty_service)
    tab.drop({"scan.tif": pictures.encoded(pictures.photo(64, 48), "TIFF")})
    tab.wait_for_count("Done", 1)
    # until the result is loaded, another note says that there is nothing to show
    tab.wait("document.querySelector('.compare-note')?.textContent.includes(\"can't show the original\")")
    names = []
    tab.page.locator(".files summary").click()
    for button in tab.page.locator(".sizes button").all():
        with tab.page.expect_download() as begun:
            button.click()
        assert begun.value.path().stat().st_size > 0
        names.append(begun.value.suggested_filename)
    assert names == ["scan.tif", "picture-1-en.jpg", "picture-1-en.avif"]


def test_a_reload_in_the_middle_of_the_work_loses_sight_of_nothing(
    gated: Running, describer: GatedDescriber, open_tab: OpenTab
) -> None:
    describer.open.clear()
    tab = open_tab(gated)
    tab.drop(dict(list(ACCEPTED.items())[:6]))
    tab.wait_for_count("All", 6)
    tab.wait("!document.querySelector('.upload-status')")
    before = tab.names()
    tab.page.reload()
    tab.wait_for_count("In progress", 6)
    assert tab.names() == before
    tab.wait("document.querySelector('.totals')?.textContent.includes('0 of 6')")
    describer.open.set()
    tab.wait_for_count("Done", 6)
    tab.page.reload()
    tab.wait_for_count("Done", 6)
    assert tab.names() == before


def test_the_same_picture_is_not_added_twice_whatever_its_name(empty_service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(empty_service)
    same, other = pictures.jpeg(64, 48, seed=1), pictures.jpeg(64, 48, seed=2)
    tab.drop({"1.jpg": same, "2.jpg": same, "3.jpg": other})
    tab.wait_for_count("Done", 2)
    tab.wait("document.querySelectorAll('.refused li').length === 1")
    assert "2.jpg The same picture is in the list already, as “1.jpg”." in tab.text(".refused li")
    tab.drop({"renamed.jpg": other})
    tab.wait("document.querySelectorAll('.refused li').length === 2")
    tab.drop({"3.jpg": pictures.jpeg(64, 48, seed=3)})
    tab.wait_for_count("Done", 3)
    assert sorted(tab.names()) == ["1.jpg", "3.jpg", "3.jpg"], "another picture may have the same name"


def test_what_a_reload_kept_from_being_sent_is_listed(empty_service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(empty_service)
    tab.page.on("dialog", lambda dialog: dialog.accept())
    busy = {"status": 503, "headers": {"Retry-After": "600"}, "json": {"message": "The disk is full."}}
    tab.page.route("**/api/v1/images/process", lambda route: route.fulfill(**busy))
    tab.drop(dict(list(ACCEPTED.items())[:3]))
    tab.wait(
        "document.querySelector('.upload-status')?.textContent.includes('The disk is full. The page tries it again')"
    )
    tab.page.unroute("**/api/v1/images/process")
    tab.page.reload()
    tab.wait("document.querySelectorAll('.refused li').length === 3")
    assert tab.text(".refused li") == "IMG_1.jpg It was not sent before the page was reloaded."
    tab.page.get_by_role("button", name="Add these again…").click()
    tab.wait("document.querySelector('dialog')?.ariaLabel === 'Add pictures'")
