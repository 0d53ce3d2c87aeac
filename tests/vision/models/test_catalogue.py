"""The catalogue of models, and the settings for models."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from imgproc_local import config
from imgproc_local.config import load
from imgproc_local.domain.errors import SettingInvalid
from imgproc_local.vision.models.catalogue import check_name, read_catalogue


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setattr(config, "default_config_path", lambda: path)
    return path


def test_every_entry_is_complete_and_pinned_entries_have_sums() -> None:
    catalogue = read_catalogue()
    assert len(catalogue) > 5
    for name, entry in catalogue.items():
        check_name(name)
        assert entry.licence
        assert entry.languages
        assert entry.memory_mb * 1_000_000 > entry.size_bytes, "a model needs more memory than its files have bytes"
        assert entry.text != entry.mmproj
        pinned = entry.revision != "main"
        assert not pinned or re.fullmatch("[0-9a-f]{40}", entry.revision)
        assert pinned == bool(entry.text.sha256) == bool(entry.mmproj.sha256)


@pytest.mark.parametrize("name", ["", ".", "a/b", "a\\b", "A", "-a", "a.", "nul", "com1", "none", "ä", "a" * 65, "a\n"])
def test_an_invalid_name_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="model's name"):
        check_name(name)


def test_the_models_folder_is_in_the_data_folder_or_at_the_setting_models_dir(file: Path, tmp_path: Path) -> None:
    assert load({"data_dir": str(tmp_path)}, {}).config.models_folder == tmp_path / "models"
    assert load({}, {"IMGPROC_MODELS_DIR": str(tmp_path / "x")}).config.models_folder == tmp_path / "x"
    assert load({}, {"IMGPROC_MODELS_DIR": "~/x"}).config.models_folder == Path("~/x").expanduser()


@pytest.mark.parametrize(("value", "means"), [("auto", "auto"), ("0", 0), ("20", 20)])
def test_layers_on_the_gpu_are_a_number_or_auto(file: Path, value: str, means: object) -> None:
    assert load({}, {"IMGPROC_MODEL_GPU_LAYERS": value}).config.model_gpu_layers == means


@pytest.mark.parametrize("value", ["-1", "all", ""])
def test_an_invalid_number_of_layers_is_rejected(file: Path, value: str) -> None:
    with pytest.raises(SettingInvalid, match="model_gpu_layers"):
        load({}, {"IMGPROC_MODEL_GPU_LAYERS": value})
