"""Fixtures that start the service, for tests that send it requests."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.service import GatedDescriber, Running, running

# shells start background jobs with SIGINT ignored, but some tests send SIGINT
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service that the tests of one file share. It describes pictures without a vision model."""
    with running(tmp_path_factory.mktemp("data")) as started:
        yield started


@pytest.fixture
def describer() -> GatedDescriber:
    return GatedDescriber()


@pytest.fixture
def gated(tmp_path: Path, describer: GatedDescriber) -> Iterator[Running]:
    """A service for one test, which controls the analyze stage by `describer`."""
    with running(tmp_path / "data", lambda: describer) as started:
        yield started
        describer.open.set()
