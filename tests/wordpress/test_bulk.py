"""The page Media → Imgproc Local: more than 300 pictures with progress, stop and resume, and failed requests."""

from __future__ import annotations

import re
import time

from tests.support.service import Running
from tests.wordpress.admin import Admin
from tests.wordpress.library import alt_texts, jobs_and_balance, small, states, wait_finished
from tests.wordpress.site import Site

PAGE = "upload.php?page=imgproc-local-bulk"
COUNT = 310
BULK_WAIT_S = 1200


def test_a_failed_request_is_shown_until_the_next_attempt(site: Site, admin: Admin) -> None:
    site.add_pictures(small(1))
    admin.open(PAGE)
    page = admin.page
    message, start = page.locator(".imgproc-local-pause"), page.get_by_role("button", name="Start")
    page.route(
        re.compile(r"(/|%2F)queue"),
        lambda route: route.fulfill(status=500, json={"code": "x", "message": "The database is full."}),
        times=1,
    )
    start.click()
    page.wait_for_function("! document.querySelector('#imgproc-local-start [type=submit]').disabled")
    assert message.is_visible()
    assert "The database is full." in message.inner_text()
    page.get_by_label("Failed").check()  # there are none
    start.click()
    message.wait_for(state="hidden")
    page.wait_for_function("! document.querySelector('#imgproc-local-start [type=submit]').disabled")


def test_more_than_300_pictures_with_stop_and_resume(site: Site, admin: Admin, service: Running) -> None:
    ids = site.add_pictures(small(COUNT))
    admin.open(PAGE)
    page = admin.page
    page.get_by_role("button", name="Start").click()
    page.wait_for_function("document.querySelector('progress').value > 5", timeout=BULK_WAIT_S * 1000)
    page.get_by_role("button", name="Stop").click()
    time.sleep(25)  # a background request may run as long
    finished = sum(state == "done" for state in states(site).values())
    assert 0 < finished < COUNT
    time.sleep(5)
    assert sum(state == "done" for state in states(site).values()) == finished

    admin.open(PAGE)
    page.get_by_role("button", name="Start").click()
    assert set(wait_finished(site, ids, BULK_WAIT_S).values()) == {"done"}
    assert jobs_and_balance(service) == (COUNT, 1_000_000 - 3 * COUNT)
    assert len(alt_texts(site)) == COUNT
    admin.open(PAGE)
