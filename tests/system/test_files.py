"""Paths of other machines, and file systems without locks."""

from __future__ import annotations

import errno
import os
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

import pytest

from imgproc_local.domain.errors import DataFolderBusy
from imgproc_local.system import files
from imgproc_local.system.folder_lock import FolderLock


@pytest.mark.parametrize(
    ("path", "is_on_network"),
    [
        (PureWindowsPath(r"\\host\share\model.gguf"), True),
        (PureWindowsPath("//host/share/model.gguf"), True),
        (PureWindowsPath(r"\\?\UNC\host\share\model.gguf"), True),
        (PureWindowsPath(r"\\.\pipe\model"), True),
        (PureWindowsPath(r"\\?\C:\model.gguf"), False),
        (PureWindowsPath(r"C:\model.gguf"), False),
        (PurePosixPath("//srv/model.gguf"), False),
    ],
)
def test_paths_on_the_network_are_recognized_without_opening_them(path: PurePath, is_on_network: bool) -> None:
    assert files.is_on_network(path) == is_on_network


def test_a_file_system_without_locks_is_named_as_a_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl", reason="Windows has no flock")

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(DataFolderBusy, match="its file system has no locks"):
        FolderLock(tmp_path, "serve")
