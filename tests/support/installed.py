"""Models installed for tests, and what the folder of models must look like whatever happened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from imgproc_local.vision.models.install import ImportOptions, import_model
from imgproc_local.vision.models.model import VisionModel
from imgproc_local.vision.models.store import (
    IN_USE_FILE,
    LOCK_FILE,
    MANIFEST_FILE,
    MMPROJ_FILE,
    TEXT_FILE,
    Manifest,
    ModelStore,
)
from tests.support.gguf_files import write_pair


def untried(_: VisionModel) -> None:
    """Stands where a model would be proved."""


def unseen(_what: str, _done_bytes: int, _total_bytes: int) -> None:
    """Stands where progress would be told."""


def take(models: ModelStore, *sources: Path, **wanted: object) -> Manifest:
    """Import without a proof and without a catalogue."""
    return import_model(models, sources, ImportOptions(**wanted), {}, untried, unseen)  # type: ignore[arg-type]


def install(models: ModelStore, name: str = "a", seed: int = 0) -> Manifest:
    pair = write_pair(models.folder.parent / f"pair-of-{name}", seed=seed)
    return take(models, *pair, name=name)


def check_folder(models: ModelStore, installed: Sequence[str]) -> None:
    """Every model is whole, and nothing else lies in the folder."""
    assert models.names() == sorted(installed)
    for name in installed:
        models.model(name)
        kept = {path.name for path in (models.folder / name).iterdir()}
        assert kept >= {MANIFEST_FILE, TEXT_FILE, MMPROJ_FILE}
        assert not [file for file in kept if file.endswith(".part") or file.startswith("came-")]
    if models.folder.exists():
        assert {path.name for path in models.folder.iterdir()} <= {*installed, LOCK_FILE, IN_USE_FILE, ".partial"}
