"""The account that a test of exports has to itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.service import Running


@pytest.fixture
def fresh(service: Running, request: pytest.FixtureRequest) -> Iterator[Running]:
    """The service that the tests of a file share, with an account without images for one test."""
    with service.as_account(request.node.name) as started:
        yield started
