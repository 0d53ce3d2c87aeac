"""Committed transactions that a damaged or replaced database has lost are noticed, and only those."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from imgproc_local.storage.accounts import Keys
from imgproc_local.storage.commit_record import Commits, read_commits, record_path
from imgproc_local.storage.database import open_database

FIRST_BALANCE = 10


async def write(path: Path, *names: str) -> None:
    """Open the database, create an account for each name in one transaction each, and close it."""
    database = await open_database(path)
    try:
        for name in names:
            await Keys(database, FIRST_BALANCE).account_id(name, create=True)
    finally:
        await database.close()


async def test_each_transaction_that_changes_something_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "d.db"
    await write(path, "a", "b", "b")
    assert read_commits(path) == Commits(committed=2)
    await write(path)
    assert read_commits(path) == Commits(committed=2)


async def test_a_database_replaced_by_an_older_copy_is_noticed_and_remembered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "d.db"
    await write(path, "a")
    shutil.copy(path, tmp_path / "older")
    await write(path, "b", "c")
    shutil.copy(tmp_path / "older", path)
    caplog.set_level(logging.ERROR)
    await write(path, "d")
    assert "lost 2 committed transactions" in caplog.text
    commits = read_commits(path)
    assert (commits.committed, commits.lost) == (2, 2)
    assert commits.lost_at
    await write(path)
    assert read_commits(path) == commits


@pytest.mark.parametrize("content", [b"", b"{", b"\0" * 256, b'{"committed": 1}'])
async def test_an_older_or_unreadable_record_is_no_alarm(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "d.db"
    await write(path, "a", "b")
    record_path(path).write_bytes(content)
    await write(path, "c")
    assert caplog.text == ""
    assert read_commits(path) == Commits(committed=3)


async def test_a_record_that_can_not_be_written_is_reported_and_the_service_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "d.db"
    record_path(path).mkdir()
    await write(path, "a", "b")
    assert caplog.text.count("can't be recorded") == 1
