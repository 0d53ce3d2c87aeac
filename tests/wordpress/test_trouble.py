"""Trouble amid many pictures: it is reported to the administrator, nothing is sent twice, and all is done later."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.faults.server_process import ServerProcess, command_line
from tests.support import pictures
from tests.support.service import Running, running
from tests.wordpress.admin import Admin, Uploader
from tests.wordpress.conftest import SiteDescriber
from tests.wordpress.library import (
    alt_texts,
    configure,
    jobs_and_balance,
    let_time_pass,
    queue,
    small,
    states,
    status,
    wait_finished,
    wait_until,
)
from tests.wordpress.site import Site, free_port

PRICE = 3
"""Credits for one picture: analyze in one language, optimize, convert."""
LONG_S = 400
LEASE_S = 150
"""The lock of a killed worker expires after 80 s, and WP-Cron comes a minute after the queue was begun."""
KILL_WORKER = """
Imgproc_Local_Queue::add_many( $args['ids'] );
Imgproc_Local_Queue::lock();
posix_kill( getmypid(), 9 );
"""


def done(site: Site) -> int:
    return sum(state == "done" for state in states(site).values())


def notice(admin: Admin, *words: str) -> str:
    """The notices on the media library, which must contain all words, in any case."""
    admin.open("upload.php?mode=list")
    text = admin.notices()
    assert all(word.lower() in text.lower() for word in words), f"{words} are not in the notices: {text!r}"
    return text


def paused(site: Site) -> bool:
    return bool(status(site)["pause"])


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_a_service_that_ends_amid_many_pictures(site: Site, admin: Admin, tmp_path: Path, end: str) -> None:
    folder, port, count = tmp_path / "data", free_port(), 24
    folder.mkdir(mode=0o700)
    made = command_line("keys", "create", "--name", "site", "--rate-limit", "0", "--json", data_dir=folder)
    key = json.loads(made.stdout)["key"]
    server = ServerProcess(folder, port)
    try:
        root = server.wait_ready()
        configure(site, root, key)
        ids = site.add_pictures(small(count))
        queue(site, ids)
        wait_until(site, lambda: done(site) >= 5, "begun")
        getattr(server, end)()
        wait_until(site, lambda: paused(site), "paused")
        unfinished = count - done(site)
        assert unfinished > 0
        notice(admin, "imgproc", "can’t be reached")
        assert "failed" not in states(site).values()

        server = ServerProcess(folder, port)
        server.wait_ready()
        assert set(wait_finished(site, ids, LONG_S).values()) == {"done"}
        with httpx.Client(base_url=f"{root}/api/v1", headers={"X-API-Key": key}) as client:
            assert client.get("/jobs", params={"limit": 1}).headers["X-Total-Count"] == str(count)
            assert client.get("/credits/balance").json()["data"]["balance"] == 1_000_000 - PRICE * count
        admin.open("upload.php?mode=list")
        assert "can’t be reached" not in admin.notices()
    finally:
        if server.process.poll() is None:
            server.kill()


@pytest.mark.parametrize("obstacle", ["queue", "minute", "credits", "key"])
def test_what_is_missing_is_said_and_waited_for(
    site: Site, admin: Admin, tmp_path: Path, describer: SiteDescriber, obstacle: str
) -> None:
    """A full queue, a rate limit per minute, missing credits, a wrong key: `obstacle` is the word in the notice."""
    count, others = (30 if obstacle == "minute" else 6), 0
    settings = {"queue": {"queue_limit": 2}, "credits": {"first_balance": PRICE * 3 + 1}}.get(obstacle, {})
    with running(tmp_path / "data", lambda: describer, **settings) as service:
        key = {"minute": service.make_key(rate_limit=60), "key": "imgp_wrong"}.get(obstacle, service.key)
        configure(site, service.root, key)
        if obstacle == "queue":
            describer.open.clear()
            for others in (1, 2):  # the jobs of another program
                service.dispatch("analyze", pictures.jpeg(seed=others))
        balance = jobs_and_balance(service)[1]
        ids = site.add_pictures(small(count))
        queue(site, ids)
        wait_until(site, lambda: paused(site), "paused")
        notice(admin, "imgproc", obstacle)
        assert "failed" not in states(site).values()

        describer.open.set()
        configure(site, service.root, service.key if obstacle == "key" else key)
        if obstacle == "credits":
            wait_until(site, lambda: done(site) == 3, "finished as far as the credits last")
            account = service.run(service.services.store.keys.account_id())
            service.run(service.services.store.credits.grant(account, 1000))
            balance += 1000
            let_time_pass(site, LONG_S)
        assert set(wait_finished(site, ids, LONG_S).values()) == {"done"}
        assert jobs_and_balance(service) == (count + others, balance - PRICE * count)


def test_a_picture_that_is_damaged_or_ends_php_fails_alone_and_is_named(
    site: Site, admin: Admin, service: Running
) -> None:
    """The request that applies the result of the second picture ends, as when its memory is exhausted."""
    failing = {"broken.jpg": pictures.broken_jpeg(), "deadly.jpg": pictures.jpeg(640, 480, seed=5)}
    ids = site.add_pictures(failing | small(3))
    (site.base / "die-on").write_text("deadly")
    try:
        queue(site, ids)
        found = wait_finished(site, [ids[0], *ids[2:]])
        assert list(found.values()) == ["failed", "done", "done", "done"]

        def next_attempt_fails() -> bool:
            let_time_pass(site, LONG_S)
            site.php("Imgproc_Local_Worker::start();")  # as the visit of an administrator does
            time.sleep(3)
            return states(site)[ids[1]] == "failed"

        wait_until(site, next_attempt_fails, "failed", cron=False)
    finally:
        (site.base / "die-on").unlink()
    assert {number: state for number, state in states(site).items() if number != ids[1]} == found
    # the page Media → Imgproc Local leads to them
    admin.open("upload.php?page=imgproc-local-bulk")
    admin.page.get_by_role("link", name="List the images that failed").click()
    listed = admin.page.inner_text("#the-list")
    assert "broken" in listed
    assert "deadly" in listed
    jobs, _ = jobs_and_balance(service)
    time.sleep(10)
    assert jobs_and_balance(service)[0] == jobs <= len(ids) + 2, "what has failed is not sent again"


def test_a_killed_worker_stops_the_queue_for_a_short_time_only(site: Site, service: Running) -> None:
    ids = site.add_pictures(small(3))
    with pytest.raises(AssertionError):  # PHP was killed
        site.php(KILL_WORKER, ids=ids)
    assert set(wait_finished(site, ids, LEASE_S).values()) == {"done"}
    assert jobs_and_balance(service)[0] == 3


def test_everything_works_without_wp_cron(site: Site, uploader: Uploader, service: Running) -> None:
    config = site.folder / "wp-config.php"
    text = config.read_text()
    config.write_text(text.replace("<?php", "<?php\ndefine( 'DISABLE_WP_CRON', true );", 1))
    try:
        ids = [uploader.upload(name, content)[0] for name, content in small(3).items()]
        assert set(wait_finished(site, ids, cron=False).values()) == {"done"}
    finally:
        config.write_text(text)


def test_two_workers_at_once_send_nothing_twice(site: Site, service: Running) -> None:
    ids = site.add_pictures(small(12))
    queue(site, ids)
    with ThreadPoolExecutor(6) as pool:
        visits = pool.map(lambda _: httpx.get(f"{site.url}/wp-cron.php?doing_wp_cron", timeout=60), range(6))
        assert {answer.status_code for answer in visits} == {200}
    wait_finished(site, ids)
    assert jobs_and_balance(service) == (12, 1_000_000 - PRICE * 12)
    assert set(alt_texts(site)) == set(ids)
