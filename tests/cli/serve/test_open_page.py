"""How `serve` opens the page in a browser: no other user of the machine may learn the link that signs it in."""

from __future__ import annotations

import re
import stat
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import httpx
import pytest

from imgproc_local.storage import sessions
from imgproc_local.system.folder_lock import FolderLock, Owner
from tests.cli.conftest import Program, use_link

TIMEOUT_S = 30


def opened(record: Path, count: int) -> str:
    """The last argument that the browser was started with, once it was started `count` times."""
    deadline = time.monotonic() + TIMEOUT_S
    while not record.exists() or len(record.read_text().splitlines()) < count:
        assert time.monotonic() < deadline, "no browser was started"
        time.sleep(0.02)
    return record.read_text().splitlines()[-1]


@pytest.mark.skipif(sys.platform == "win32", reason="the browser is a shell script")
def test_the_link_is_in_a_private_file_until_it_was_opened(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`program` has `tmp_path` as the home folder."""
    record, script = tmp_path / "opened", tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$@" >> {record}\n')
    script.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(script))

    def link_of(url: str) -> str:
        assert "token" not in url, "other users can read the arguments of a command"
        page = Path(url2pathname(urlsplit(url).path))
        assert page.parent == tmp_path
        assert not page.name.startswith("."), "browsers from the Snap Store read no hidden files"
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        (link,) = set(re.findall(r"http://[^\"]*\?token=[^\"]+", page.read_text()))
        return str(link)

    server = program.start("serve", "--browser", "--port", 0)
    try:
        with httpx.Client() as browser:
            first = link_of(opened(record, 1))
            assert use_link(f"{first}wrong").status_code == 401
            assert list(tmp_path.glob("*.html")), "anyone could remove it before it was opened"
            assert use_link(first, browser).status_code == 200
            assert list(tmp_path.glob("*.html")) == []
            assert program("serve", "--browser").returncode == 0
            second = link_of(opened(record, 2))
            assert use_link(second, browser).json()["data"]["secret"] is None, "it is signed in already"
            assert list(tmp_path.glob("*.html")) == []
    finally:
        server.terminate()
        server.communicate(timeout=TIMEOUT_S)


def test_a_file_that_can_not_be_written_is_reported(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert program.in_process("keys", "create", "--name", "a").exit_code == 0
    monkeypatch.setattr(sessions, "link_page", lambda _: tmp_path / "no home" / "page.html")
    lock = FolderLock(program.data, Owner(4321, "serve", "http://127.0.0.1:2222"))
    result = program.in_process("serve", "--browser")
    lock.release()
    assert result.exit_code == 0
    assert "Its page could not be opened" in result.stderr
    assert "No such file or directory" in result.stderr
