from __future__ import annotations

from pathlib import Path

import pytest

from imgproc_local.vision.models.store import ModelStore


@pytest.fixture
def models(tmp_path: Path) -> ModelStore:
    """A models folder that has not been created yet."""
    return ModelStore(tmp_path / "models")
