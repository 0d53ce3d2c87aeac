"""Fixtures of tests that run a server on a data folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.server_process import make_key


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder that does not exist yet."""
    return tmp_path / "data"


@pytest.fixture
def key(folder: Path) -> str:
    """The first key, which creates the data folder."""
    return make_key(folder)
