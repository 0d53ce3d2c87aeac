"""Subscriptions to the jobs of an account: bounded, each changed job once, ended when the service stops."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.job import Job, StoredFile
from imgproc_local.engine import engine
from imgproc_local.engine.engine import Updates

INFO = ImageInfo(Format.JPEG, 8, 8)
JOB = Job("j", "i", "a", "p", "process", "x.jpg", StoredFile("", 1, Format.JPEG), (), "", "p", (), INFO)


def job(number: int, account_id: str = "a") -> Job:
    return replace(JOB, id=f"j{number}", account_id=account_id)


def test_a_deleted_job_is_not_reported_as_changed() -> None:
    every = Updates()
    with every.subscribed(account_id="a") as changes:
        every.publish(job(1))
        every.end("j1", "a")
        taken = changes.take(10)
        assert (taken.changed, taken.deleted) == ((), ("j1",))


def test_a_subscriber_that_takes_nothing_has_to_read_the_list_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MAX_UNREAD_JOBS", 3)
    every = Updates()
    with every.subscribed(account_id="a") as changes:
        for number in range(4):
            every.publish(job(number))
        every.publish(job(7))
        taken = changes.take(10)
        assert (taken.is_complete, taken.changed) == (False, ("j7",))
        assert changes.take(10).is_complete
