from __future__ import annotations

from collections.abc import Iterator

import pytest

from imgproc_local.remote import tinify
from tests.remote.tinify_server import TinifyServer, tinify_server


@pytest.fixture
def remote_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[TinifyServer]:
    """A compression service that works. The client's delays between retries are short."""
    monkeypatch.setattr(tinify, "INITIAL_RETRY_DELAY_S", 0.01)
    with tinify_server() as server:
        yield server
