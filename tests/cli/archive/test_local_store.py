"""The listing of a folder as a source of `archive`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from imgproc_local.archive.local_store import LocalStore


@pytest.mark.skipif(os.name != "posix", reason="creates links")
def test_entries_that_are_no_readable_files_do_not_end_the_listing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "wing").mkdir()
    (tmp_path / "wing" / "stone.jpg").write_bytes(b"stone")
    (tmp_path / "linked.jpg").symlink_to("wing/stone.jpg")
    (tmp_path / "nowhere.jpg").symlink_to("deleted.jpg")
    (tmp_path / "circle.jpg").symlink_to("circle.jpg")
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / ".hidden.jpg").write_bytes(b"hidden")
    listed = [each.key for page in LocalStore(tmp_path).pages() for each in page]
    assert listed == ["linked.jpg", "wing/stone.jpg"]
    assert caplog.text.count("can't be read") == caplog.text.count("circle.jpg") == 1
