"""Fixtures of the tests of the local page."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.support.service import Running


@pytest.fixture
def page(service: Running) -> Iterator[httpx.Client]:
    """A client that is signed in, as the page is."""
    with httpx.Client(base_url=service.root, headers=service.page_session(), timeout=60) as client:
        yield client
