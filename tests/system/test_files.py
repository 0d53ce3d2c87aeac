"""Paths of other machines."""

from __future__ import annotations

from pathlib import PurePath, PurePosixPath, PureWindowsPath

import pytest

from imgproc_local.system import files


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
