"""Installs models for tests, and checks what the models folder contains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from imgproc_local.vision.models.install import ImportOptions, import_
from imgproc_local.vision.models.model import MANIFEST_FILE, MMPROJ_FILE, TEXT_MODEL_FILE, Manifest, VisionModel
from imgproc_local.vision.models.store import _LOCK_FILE, _SELECTION_FILE, ModelStore
from tests.support.gguf_files import write_pair


def skip_self_test(_: VisionModel) -> None:
    """A self-test that passes every model."""


def ignore_progress(_what: str, _done_bytes: int, _total_bytes: int) -> None:
    """A progress callback that does nothing."""


def import_files(models: ModelStore, *sources: Path, **options: object) -> Manifest:
    """Import a model from `sources` without a self-test.

    `options` are those of ImportOptions.
    """
    manifest = import_(models, sources, ImportOptions(**options), skip_self_test, ignore_progress)  # type: ignore[arg-type]
    assert manifest is not None
    return manifest


def install(models: ModelStore, name: str = "a", seed: int = 0) -> Manifest:
    """Install a model of two small files with valid headers, which differ by `seed`. llama.cpp can't load them."""
    pair = write_pair(models.folder.parent / f"pair-of-{name}", seed=seed)
    return import_files(models, *pair, name=name)


def check_folder(models: ModelStore, installed: Sequence[str]) -> None:
    """Check that exactly the models `installed` are in the folder, and that they are complete."""
    assert models.names() == sorted(installed)
    for name in installed:
        models.model(name)
        stored = {path.name for path in (models.folder / name).iterdir()}
        assert stored >= {MANIFEST_FILE, TEXT_MODEL_FILE, MMPROJ_FILE}
        assert not [file for file in stored if file.endswith(".part") or file.startswith("source-")]
    if models.folder.exists():
        assert {path.name for path in models.folder.iterdir()} <= {*installed, _LOCK_FILE, _SELECTION_FILE, ".partial"}
