"""Freshly generated clients do the whole job, where the generators are installed.

GENERATORS names the folder into which `python -m tests.ordeals.generated_clients --tools FOLDER` has installed them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ordeals import generated_clients
from tests.support.service import Running

FOLDER = os.environ.get("GENERATORS", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="GENERATORS does not name the folder of the generators")


@pytest.fixture(scope="module")
def small_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with generated_clients.serving(tmp_path_factory.mktemp("data")) as service:
        yield service


@pytest.mark.parametrize("name", generated_clients.CLIENTS)
def test_a_generated_client_completes_the_main_job_and_receives_typed_errors(
    small_service: Running, tmp_path: Path, name: str
) -> None:
    generated_clients.prove(name, Path(FOLDER).absolute(), small_service, tmp_path)
