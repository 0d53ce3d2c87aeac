"""Which file of a picture to serve: the smaller format, what a file could not carry, and the widths of a set."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import OpenTab, show
from tests.support import finished, pictures
from tests.support.finished import Format, Result
from tests.support.service import Running

ORIGINAL, SMALLER, LARGER = (bytes(size) for size in (4000, 2000, 3000))


def test_the_list_names_the_smaller_format_and_the_detail_says_why(empty_service: Running, open_tab: OpenTab) -> None:
    """The converted file of one picture is the smaller one, those of the others are not."""
    rows = (("1.jpg", LARGER, Format.JPEG, SMALLER), ("2.jpg", SMALLER, Format.JPEG, LARGER))
    for name, optimized, file_format, converted in (*rows, ("3.webp", SMALLER, Format.WEBP, LARGER)):
        results = {"optimized": Result(optimized, file_format), "converted": Result(converted, Format.WEBP)}
        empty_service.run(finished.add_job(empty_service.services, ORIGINAL, name=name, **results))
    tab = open_tab(empty_service)
    tab.wait_for_count("All", 3)
    labels = tab.page.locator(".tile").evaluate_all("(tiles) => tiles.map((each) => each.ariaLabel)")
    assert sorted(labels) == ["1.jpg, −50 % WebP, Done", "2.jpg, −50 % JPEG, Done", "3.webp, −50 % WebP, Done"]
    assert tab.count("Converted is larger") == 2
    show(tab, "2.jpg")
    note = ": The converted file is not smaller than the optimized one, which is the one to serve."
    tab.wait(f"document.querySelector('.detail-files').innerText.includes({f'WebP{note}'!r})")
    show(tab, "3.webp")
    tab.wait(f"document.querySelector('.detail-files').innerText.includes({f'WebP converted{note}'!r})")
    show(tab, "1.jpg")
    tab.wait(f"!document.querySelector('.detail-files').innerText.includes({note!r})")


def chosen(chromium: Any, page: Path, width: int, ratio: float) -> str:
    """The name of the file that a browser shows of the first picture of a page, in a window of this width."""
    context = chromium.new_context(viewport={"width": width, "height": 400}, device_scale_factor=ratio)
    tab = context.new_page()
    tab.goto(page.as_uri())
    assert tab.locator("img").evaluate("(each) => each.decode().then(() => each.naturalWidth)") > 0
    name: str = tab.locator("img").evaluate("(each) => each.currentSrc")
    context.close()
    return name.rpartition("/")[2]


@pytest.mark.parametrize(
    ("operation", "content", "endings"),
    [
        (
            "process",
            pictures.png(320, 240),
            {(80, 1): "-80.webp", (80, 2): "-160.webp", (100, 1): "-160.webp", (900, 1): ".webp"},
        ),
        ("convert", pictures.png(320, 240), {(80, 1): "-80.webp", (900, 1): ".webp"}),
        # the optimized file is smaller than the converted one in full size and at 160 pixels
        ("process", pictures.jpeg(320, 240), {(80, 1): "-80.webp", (80, 2): ".jpg", (900, 1): ".jpg"}),
    ],
    ids=["png", "converted-only", "jpeg"],
)
def test_a_browser_chooses_the_file_that_fits_its_window(
    empty_service: Running,
    open_tab: OpenTab,
    chromium: Any,
    tmp_path: Path,
    operation: str,
    content: bytes,
    endings: dict[tuple[int, int], str],
) -> None:
    """The copied code, on a page beside the exported files; windows by width, and pixels of the screen for one."""
    job = empty_service.process(operation, content, "1.jpg", format="webp", widths="160,80,400")
    assert [each["width"] for each in job["image"]["variants"]] == [80, 160]
    wanted = {"images": [job["image"]["id"]], "variants": ["optimized", "converted"], "write_texts": False}
    archive = zipfile.ZipFile(io.BytesIO(empty_service.client.post("/exports", json=wanted).content))
    archive.extractall(tmp_path)
    tab = open_tab(empty_service, permissions=["clipboard-read", "clipboard-write"])
    tab.wait("document.querySelector('.tile')")
    show(tab, "1.jpg")
    tab.page.locator(".files summary").click()
    tab.page.get_by_label("Format").select_option("picture")
    tab.page.get_by_role("button", name="Copy", exact=True).click()
    tab.wait("[...document.querySelectorAll('.copy-menu button')].some((each) => each.textContent === 'Copied')")
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><body style='margin: 0'>" + tab.page.evaluate("navigator.clipboard.readText()"))
    name = next(each["seo_filename"] for each in [*job["image"]["translations"], {"seo_filename": "1"}])
    assert {window: chosen(chromium, page, *window).removeprefix(name) for window in endings} == endings
    with tab.page.expect_download() as begun:
        tab.page.get_by_role("button", name="Download 80 pixels wide").click()
    assert begun.value.suggested_filename == f"{name}-80.webp"
    assert begun.value.path().read_bytes() == archive.read(f"{name}-80.webp")
