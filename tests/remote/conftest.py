from __future__ import annotations

from collections.abc import Iterator

import pytest

from imgproc_local.remote import tinify as client
from tests.remote.tinify_server import TinifyServer, tinify_server


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[TinifyServer]:
    """A compression service that works; the pauses between attempts are short."""
    monkeypatch.setattr(client, "INITIAL_RETRY_DELAY_S", 0.01)
    with tinify_server() as server:
        yield server
