"""Fixtures of the tests of the local page."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.support.service import Running


@pytest.fixture
def page(service: Running) -> Iterator[httpx.Client]:
    """A client with the cookie and the origin of the page."""
    headers = {**service.page_cookie(), "Origin": service.root}
    with httpx.Client(base_url=service.root, headers=headers, timeout=30) as client:
        yield client
