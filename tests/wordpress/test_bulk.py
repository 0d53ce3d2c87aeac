"""The page Media → Imgproc Local: many pictures with progress, stop and resume, and failed requests."""

from __future__ import annotations

import re
import time

from tests.support.service import Running
from tests.wordpress.admin import Admin
from tests.wordpress.library import alt_texts, jobs_and_balance, small, states, wait_finished
from tests.wordpress.site import Site

PAGE = "upload.php?page=imgproc-local-bulk"
COUNT = 110
BULK_WAIT_S = 1200


def test_many_pictures_with_a_failed_request_a_stop_and_a_resume(site: Site, admin: Admin, service: Running) -> None:
    ids = site.add_pictures(small(COUNT))
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
    assert "The database is full." in message.inner_text()

    start.click()
    page.wait_for_function("document.querySelector('progress').value > 5", timeout=BULK_WAIT_S * 1000)
    assert not message.is_visible()
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
