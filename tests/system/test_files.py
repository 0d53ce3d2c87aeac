"""File systems without locks."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from imgproc_local.domain.errors import DataFolderBusy
from imgproc_local.system.folder_lock import FolderLock


def test_a_file_system_without_locks_is_named_as_a_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl", reason="Windows has no flock")

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(DataFolderBusy, match="its file system has no locks"):
        FolderLock(tmp_path, "serve")
