"""JPEG XL on the page: chosen for new pictures, shown beside the original where the browser can, and downloaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import OpenTab, jobs, open_option
from tests.support import pictures
from tests.support.service import Running


@pytest.mark.usefixtures("recent_chromium")
def test_a_photograph_becomes_a_jpeg_xl(empty_service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(empty_service, permissions=["clipboard-read", "clipboard-write"])
    open_option(tab, "Format")
    tab.page.get_by_label("JPEG XL").check()
    tab.drop({"boat.jpg": pictures.jpeg(96, 64)})
    tab.wait_for_count("Done", 1)
    assert jobs(empty_service)["boat.jpg"]["image"]["converted_format"] == "jxl"
    tab.page.get_by_role("button", name="JPEG XL", exact=True).click()
    tab.page.get_by_role("img", name="boat.jpg, JPEG XL").wait_for()
    assert tab.page.locator(".compare-note").count() == 0
    tab.page.get_by_role("button", name="Copy", exact=True).click()
    tab.page.get_by_role("button", name="Copied", exact=True).wait_for()
    assert '.jpg"' in tab.page.evaluate("navigator.clipboard.readText()"), "which every browser shows"
    tab.page.locator(".detail summary").first.click()
    with tab.page.expect_download() as begun:
        tab.page.get_by_label("Download JPEG XL").click()
    assert begun.value.suggested_filename.endswith(".jxl")
    assert Path(begun.value.path()).read_bytes()[4:8] == b"JXL "
    tab.page.route("**/converted", lambda route: route.fulfill(body=b"unknown to this browser"))
    tab.page.reload()
    tab.page.get_by_role("button", name="JPEG XL", exact=True).click()
    tab.page.get_by_text("This browser can't show the file “JPEG XL”. This is the original.").wait_for()
    tab.page.route("**/converted", lambda route: route.fulfill(status=404, json={"message": "It was removed."}))
    tab.page.reload()
    tab.page.get_by_role("button", name="JPEG XL", exact=True).click()
    tab.page.get_by_text("The service could not send the file “JPEG XL”. This is the original.").wait_for()
    with tab.page.expect_request("**/local/preview") as asked:
        tab.page.evaluate("location.hash = 'settings/quality_target'")
    assert (asked.value.post_data_json["variant"], "format" in asked.value.post_data_json) == ("optimized", False)
