"""Services for tests to talk to."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.service import GatedDescriber, Running, running

# a shell starts what it puts into the background deaf to Ctrl+C, which tests send
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service shared by the tests of one file, with the describer that every installation has."""
    with running(tmp_path_factory.mktemp("data")) as started:
        yield started


@pytest.fixture
def describer() -> GatedDescriber:
    return GatedDescriber()


@pytest.fixture
def gated(tmp_path: Path, describer: GatedDescriber) -> Iterator[Running]:
    """A service of the test's own, whose analyze stage the test holds in its hand."""
    with running(tmp_path / "data", lambda: describer) as started:
        yield started
        describer.open.set()
