"""The models folder: one subfolder per installed model, on any drive.

    NAME/manifest.json, NAME/text.gguf, NAME/mmproj.gguf      a model
    NAME/selftest.json                                        its test result on this machine
    ocr/                                                      the networks that read text (`networks.py`)
    in-use.json                                               the name of the selected model
    .lock, .building-…, .removed-…                            the lock, staging folders, deletions
    .partial/NAME/                                            an unfinished download

Invariant: a subfolder with the name of a model is complete. A process that holds `.lock` builds it in another folder,
fsyncs it and renames it; the next process that takes the lock deletes what a killed process left. Other files are
replaced atomically, so any process can read at any time without the lock.
"""

from __future__ import annotations

import hashlib
import importlib.util
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import DataFolderBusy, ModelUnusable, StorageFailed
from imgproc_local.system import files
from imgproc_local.vision.models import model
from imgproc_local.vision.models.model import MANIFEST_FILE, AnyModel, Manifest, ModelFile, VisionModel, is_name

_SELECTION_FILE, _LOCK_FILE, PARTIAL_FOLDER = "in-use.json", ".lock", ".partial"
NO_MODEL = "none"
"""The name that selects no model."""
OCR = "ocr"
"""The name of the networks that read text in pictures, and their folder."""
_LOCK_WAIT_S = 5.0
"""How long a command waits for the lock."""

Progress = Callable[[str, int, int], None]
"""A function that is called with the current step, the bytes processed so far, and their total.

A step is a verb and the name of a file, such as "downloading model.gguf"."""

_DISK_ADVICE = "Free space on it, or use a folder on another disk (the setting models_dir, or --to of `models pull`)."


def can_read_text() -> bool:
    """Whether the libraries of the extra `ocr`, which the networks need, are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("onnxruntime", "numpy"))


class _Selection(Struct, frozen=True):
    """The content of `_SELECTION_FILE`."""

    name: str


class ModelStore:
    """The installed models in `folder`, which is created when the first one is installed.

    `gpu_layers` is that of the models. With `must_exist`, which is set for a folder that the settings name, a missing
    folder is an error.
    """

    def __init__(self, folder: Path, *, gpu_layers: int | None = None, must_exist: bool = False) -> None:
        self.folder = folder
        self.gpu_layers = gpu_layers
        self._must_exist = must_exist

    # ---- reading: no lock needed ----

    def names(self) -> list[str]:
        """The names of the installed models, sorted. Raises: ModelUnusable, if the folder can't be read."""
        try:
            folders = [path.name for path in self.folder.iterdir() if (path / MANIFEST_FILE).is_file()]
        except FileNotFoundError as error:
            if not self._must_exist:
                return []
            advice = "Connect its drive, or change the setting models_dir."
            raise ModelUnusable(f"The models folder {self.folder} is missing. {advice}") from error
        except OSError as error:
            raise ModelUnusable(f"The models folder {self.folder} can't be read ({error.strerror}).") from error
        return sorted(filter(is_name, folders))

    def manifest(self, name: str) -> Manifest:
        """The manifest of the model `name`. Raises: ModelUnusable, if it is not installed or is damaged."""
        if name not in self.names():
            raise ModelUnusable(f"The model {name!r} is not installed. Installed: {', '.join(self.names()) or 'none'}.")
        manifest = files.read_own_json(self.folder / name / MANIFEST_FILE, Manifest)
        if manifest is None:
            raise ModelUnusable(f"The manifest of the model {name!r} is damaged. Remove the model and reinstall it.")
        return manifest

    def model(self, name: str) -> VisionModel:
        """The model `name`, whose files are checked to have the sizes in the manifest. Raises: ModelUnusable."""
        manifest = self.manifest(name)
        folder = self.folder / name
        for file, installed in manifest.files().items():
            try:
                size = (folder / file).stat().st_size
            except OSError as error:
                raise ModelUnusable(f"{file} of the model {name!r} can't be read ({error.strerror}).") from error
            if size != installed.size_bytes:
                raise ModelUnusable(
                    f"{file} of the model {name!r} has {size:,} bytes instead of {installed.size_bytes:,}."
                    " Remove the model and install it again."
                )
        digest = f"{manifest.text.sha256}+{manifest.mmproj.sha256}"
        paths = (folder / model.TEXT_MODEL_FILE, folder / model.MMPROJ_FILE)
        return VisionModel(name, *paths, manifest.chat, digest, self.gpu_layers)

    def selected(self) -> str:
        """The selected name: that of a model, `NO_MODEL`, or "" if nothing was selected yet. Raises: ModelUnusable."""
        if self._must_exist:
            self.names()
        selection = files.read_own_json(self.folder / _SELECTION_FILE, _Selection)
        return selection.name if selection else ""

    def any_model(self, name: str) -> AnyModel:
        """The installed model `name`, or the model in another program that it stands for. Raises: ModelUnusable."""
        return model.loopback_model(name) or self.model(name)

    def active_model(self, setting: str) -> AnyModel | None:
        """The model that describes pictures: the one that `setting` names, else the selected one; None without either.

        Raises: ModelUnusable, if that model is not installed or is damaged.
        """
        name = self.active_name(setting)
        return None if name is None else self.any_model(name)

    def active_name(self, setting: str) -> str | None:
        """The name of that model, which need not be installed. Raises: ModelUnusable, if the folder can't be read."""
        name = setting or self.selected()
        return None if name in ("", NO_MODEL) else name

    # ---- changing ----

    def select(self, name: str) -> None:
        """Use this model from the next picture on. Raises: ModelUnusable, StorageFailed."""
        if name != NO_MODEL:
            self.any_model(name)
        with translate_disk_errors(self.folder):
            self._make_folder()
            write_json(self.folder / _SELECTION_FILE, _Selection(name))

    def remove(self, name: str) -> None:
        """Delete what is installed as `name`. Raises: ModelUnusable; DataFolderBusy; StorageFailed."""
        if not (is_name(name) or name == OCR) or not (self.folder / name).is_dir():
            self.manifest(name)  # raises that it is not installed
        self._require_own(name)
        with self.locked():
            if self.selected() == name:
                (self.folder / _SELECTION_FILE).unlink(missing_ok=True)
            removed = self.folder / f".removed-{secrets.token_hex(4)}"
            (self.folder / name).rename(removed)
            files.fsync_folder(self.folder)
            shutil.rmtree(removed)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the models folder inside the block; what killed processes left is deleted first.

        Raises: DataFolderBusy, if another process holds the lock; StorageFailed, also for any OSError in the block.
        """
        with translate_disk_errors(self.folder):
            self._make_folder()
            with files.open_own_file(self.folder / _LOCK_FILE, "ab") as lock:
                if not files.lock_within(lock, _LOCK_WAIT_S):
                    busy = f"Another command changes the models in {self.folder}."
                    raise DataFolderBusy(f"{busy} Wait until it has ended.")
                self._delete_leftovers()
                yield

    def partial(self, name: str) -> Path:
        """The folder of an unfinished download, which need not exist. Raises: OSError, if it leads elsewhere."""
        return files.path_inside(self.folder, Path(PARTIAL_FOLDER, name, "file")).parent

    @contextmanager
    def staging_folder(self) -> Iterator[Path]:
        """A new folder in the models folder, deleted after the block unless it was renamed. The lock must be held."""
        staged = self.folder / f".building-{secrets.token_hex(4)}"
        staged.mkdir()
        try:
            yield staged
        finally:
            shutil.rmtree(staged, ignore_errors=True)

    def publish(self, staged: Path, name: str) -> None:
        """Rename the complete folder `staged` to `name`. The lock must be held.

        Raises: ModelUnusable, if the name is taken; OSError.
        """
        files.fsync_folder(staged)
        self.require_not_installed(name)
        staged.rename(self.folder / name)
        files.fsync_folder(self.folder)

    def require_not_installed(self, name: str) -> None:
        """Raises: ModelUnusable, if the name is taken."""
        if (self.folder / name).exists():
            self._require_own(name)
            raise ModelUnusable(f"A model {name!r} is installed already. Remove it, or give this one another name.")

    def _require_own(self, name: str) -> None:
        """Raises: ModelUnusable, if the folder of this name was not made by an installation."""
        if not (self.folder / name / MANIFEST_FILE).is_file():
            raise ModelUnusable(
                f"{self.folder / name} is not an installed model: it has no {MANIFEST_FILE}. Move it out of the models"
                " folder, or use another name."
            )

    def _make_folder(self) -> None:
        # the parent may be the data folder, which no command has created yet
        self.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.mkdir(exist_ok=True)

    def _delete_leftovers(self) -> None:
        """Delete the folders of killed processes, and downloads that were not resumed for a week."""
        for folder in (*self.folder.glob(".building-*"), *self.folder.glob(".removed-*")):
            shutil.rmtree(folder)
        for file in self.folder.glob(f"{PARTIAL_FOLDER}/*/*"):
            if time.time() - file.stat().st_mtime > 7 * 24 * 3600:
                files.path_inside(self.folder, file.relative_to(self.folder)).unlink()


# ---- files


def write_json(path: Path, document: Any) -> None:
    """Write `document` as JSON, replacing the file atomically. Raises: OSError."""
    files.write_atomically(path, msgspec.json.format(msgspec.json.encode(document), indent=2))


def hash_file(path: Path, step: str, progress: Progress) -> str:
    """The SHA-256 of the file in hexadecimal. `step` is passed to `progress`. Raises: ModelUnusable."""
    digest = hashlib.sha256()
    try:
        size, done = path.stat().st_size, 0
        with path.open("rb") as file:
            while chunk := file.read(1024 * 1024):
                digest.update(chunk)
                done += len(chunk)
                progress(step, done, size)
    except OSError as error:
        raise ModelUnusable(f"{path.name} can't be read ({error.strerror}).") from error
    return digest.hexdigest()


def verify_files(folder: Path, files: Mapping[str, ModelFile], progress: Progress) -> None:
    """Check that the files of an installation have their SHA-256 sums. Raises: ModelUnusable."""
    for name, expected in files.items():
        actual = hash_file(folder / name, f"verifying {name}", progress)
        if actual != expected.sha256:
            raise ModelUnusable(
                f"{name} of {folder.name!r} has changed: expected the SHA-256 {expected.sha256}, found {actual}."
                f" Run `imgproc-local models remove {folder.name}`, and install it again."
            )


@contextmanager
def translate_disk_errors(folder: Path) -> Iterator[None]:
    """Raises: StorageFailed, for any OSError inside the block."""
    try:
        yield
    except OSError as error:
        if files.is_disk_full(error):
            raise StorageFailed(f"The disk that holds {folder} is full. {_DISK_ADVICE}") from error
        raise StorageFailed(f"The folder {folder} can't be used ({error.strerror}).") from error


def require_free_space(folder: Path, needed_bytes: int) -> None:
    """Raises: StorageFailed, if the disk of `folder` has less free space than `needed_bytes`; OSError."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise StorageFailed(
            f"The disk that holds {folder} has {free / 1e6:,.0f} MB free, and {needed_bytes / 1e6:,.0f} MB are needed."
            f" {_DISK_ADVICE}"
        )
