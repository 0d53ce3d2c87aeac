"""A short run of Schemathesis, where it is installed. The long run is `python -m tests.ordeals.openapi`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.ordeals import openapi


@pytest.mark.skipif(shutil.which("schemathesis") is None, reason="schemathesis is not on PATH")
def test_generated_requests_are_answered_as_published(tmp_path: Path) -> None:
    program = shutil.which("schemathesis")
    assert program is not None
    assert openapi.run(tmp_path, program, min_cases=1, seed=1) == 0
