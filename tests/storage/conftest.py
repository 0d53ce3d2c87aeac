"""The database that most tests of the storage begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.storage.store import Store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = Store()
    await store.open(tmp_path / "imgproc.db")
    yield store
    await store.database.close()
