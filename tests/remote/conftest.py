from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.remote.tinify_server import TinifyServer, tinify_server


@pytest.fixture
def remote_service() -> Iterator[TinifyServer]:
    """A compression service that works."""
    with tinify_server() as server:
        yield server
