from __future__ import annotations

from pathlib import Path

import pytest

from imgproc_local.vision.models.store import Models


@pytest.fixture
def models(tmp_path: Path) -> Models:
    """An empty folder of models, which is not there yet."""
    return Models(tmp_path / "models")
