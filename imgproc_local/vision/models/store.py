"""The models that are installed: a folder of folders, one per model, in any place and on any drive.

    NAME/manifest.json, NAME/text.gguf, NAME/mmproj.gguf      a model
    NAME/selftest-….json, NAME/grades.json                    its test results on this machine
    in-use.json                                               which one describes
    .lock, .building-…, .removed-…, .partial/                 work in progress

Invariant: a folder with a model's name is whole. It is built beside its place under `.lock`, fsynced and renamed into
it; what a killed process left is swept by the next one that takes the lock. Every other file is replaced in one rename,
so that any process may read at any time without a lock.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import DataFolderBusy, ModelUnusable, StorageFailed
from imgproc_local.vision.models.catalogue import NAME
from imgproc_local.vision.models.model import DEFAULT_RUN_OPTIONS, ChatFormat, RunOptions, VisionModel

MANIFEST_FILE, TEXT_FILE, MMPROJ_FILE = "manifest.json", "text.gguf", "mmproj.gguf"
GRADES_FILE, IN_USE_FILE, LOCK_FILE = "grades.json", "in-use.json", ".lock"
NO_MODEL = "none"
"""In place of a model's name: describe without a model."""
LOCK_WAIT_S = 5.0
LOCK_POLL_S = 0.05
PARTIAL_KEPT_S = 7 * 24 * 3600
"""How long a cut-off download waits for being resumed."""
WRITING_S = 3600
"""A file of a few bytes that is not renamed by then never will be."""
CHUNK_BYTES = 1024 * 1024

Report = Callable[[str, int, int], None]
"""Takes notice of the progress: what is being done, bytes done, bytes in all."""
Read = TypeVar("Read")


class ModelFile(Struct, frozen=True):
    """`file` is the name that it came under; it lies under `TEXT_FILE` or `MMPROJ_FILE`."""

    file: str
    size_bytes: int
    sha256: str


class Manifest(Struct, frozen=True, kw_only=True):
    """What a model is made of, where it came from (`origin`, "" where unknown) and how it is prompted."""

    name: str
    text: ModelFile
    mmproj: ModelFile
    chat: ChatFormat = ChatFormat()
    origin: str = ""
    licence: str = ""
    languages: str = ""
    memory_mb: int = 0

    @property
    def size_bytes(self) -> int:
        return self.text.size_bytes + self.mmproj.size_bytes

    def parts(self) -> tuple[tuple[str, ModelFile], ...]:
        """Each file's name in the model's folder, and what it is."""
        return (TEXT_FILE, self.text), (MMPROJ_FILE, self.mmproj)


class _InUse(Struct, frozen=True):
    name: str


class ModelStore:
    """The models below `folder`, which is made when the first one is installed."""

    def __init__(
        self, folder: Path, run_options: RunOptions = DEFAULT_RUN_OPTIONS, *, must_exist: bool = False
    ) -> None:
        """`must_exist` where the settings name the folder: then it is missing, not empty, if it is not there."""
        self.folder = folder
        self.run_options = run_options
        self._must_exist = must_exist

    # ---- reading: no lock, at any time ----

    def names(self) -> list[str]:
        try:
            found = [path.name for path in self.folder.iterdir() if (path / MANIFEST_FILE).is_file()]
        except FileNotFoundError as error:
            if not self._must_exist:
                return []
            raise ModelUnusable(
                f"The folder of models {self.folder} is missing. Plug in its drive, or set models_dir anew."
            ) from error
        except OSError as error:
            raise ModelUnusable(f"The folder of models {self.folder} can't be read ({error.strerror}).") from error
        return sorted(name for name in found if NAME.fullmatch(name))

    def manifest(self, name: str) -> Manifest:
        """Raises: ModelUnusable, where there is no such model or its manifest can't be read."""
        if NAME.fullmatch(name) is None or not (self.folder / name / MANIFEST_FILE).is_file():
            installed = ", ".join(self.names()) or "none"
            raise ModelUnusable(f"The model {name!r} is not installed. Installed: {installed}.")
        manifest = read_json(self.folder / name / MANIFEST_FILE, Manifest)
        if manifest is None:
            raise ModelUnusable(f"The manifest of the model {name!r} is damaged. Remove the model and install it anew.")
        return manifest

    def model(self, name: str) -> VisionModel:
        """The model with this name, after a look at the sizes of its files. Raises: ModelUnusable."""
        manifest = self.manifest(name)
        folder = self.folder / name
        for file, part in manifest.parts():
            try:
                size = (folder / file).stat().st_size
            except OSError as error:
                raise ModelUnusable(f"{file} of the model {name!r} can't be read ({error.strerror}).") from error
            if size != part.size_bytes:
                raise ModelUnusable(
                    f"{file} of the model {name!r} has {size:,} bytes, and {part.size_bytes:,} were installed."
                    " Remove the model and install it anew."
                )
        digest = f"{manifest.text.sha256}+{manifest.mmproj.sha256}"
        return VisionModel(name, folder / TEXT_FILE, folder / MMPROJ_FILE, manifest.chat, digest, self.run_options)

    def chosen(self) -> str:
        """The name that was chosen for use, `NO_MODEL` where that was chosen, "" where nothing was."""
        if self._must_exist:
            self.names()
        in_use = read_json(self.folder / IN_USE_FILE, _InUse)
        return in_use.name if in_use else ""

    def current(self, setting: str) -> VisionModel | None:
        """The model that describes: the one that the setting `model` names, else the chosen one.

        Raises: ModelUnusable, where that one is not installed or not whole.
        """
        name = setting or self.chosen()
        return None if name in ("", NO_MODEL) else self.model(name)

    def grades(self, name: str) -> dict[str, float]:
        """Per language code, the share of the probes that the model described rightly; empty where not checked."""
        return read_json(self.folder / name / GRADES_FILE, dict[str, float]) or {}

    # ---- changing ----

    def choose(self, name: str) -> None:
        """Let this model describe, from the next picture on. Raises: ModelUnusable, StorageFailed."""
        if name != NO_MODEL:
            self.model(name)
        with disk_errors(self.folder):
            # the data folder, where this is the first that is put into it
            self.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.folder.mkdir(exist_ok=True)
            write_json(self.folder / IN_USE_FILE, _InUse(name))

    def save_grades(self, name: str, grades: Mapping[str, float]) -> None:
        """Raises: ModelUnusable, StorageFailed."""
        self.manifest(name)
        with disk_errors(self.folder):
            write_json(self.folder / name / GRADES_FILE, dict(grades))

    def remove(self, name: str) -> None:
        """Raises: ModelUnusable, where it is not installed; DataFolderBusy; StorageFailed."""
        if NAME.fullmatch(name) is None or not (self.folder / name).is_dir():
            self.manifest(name)
        with self.changing(), disk_errors(self.folder):
            if self.chosen() == name:
                (self.folder / IN_USE_FILE).unlink(missing_ok=True)
            removed = self.folder / f".removed-{secrets.token_hex(4)}"
            (self.folder / name).rename(removed)
            fsync_folder(self.folder)
            shutil.rmtree(removed)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Alone among all processes inside the block, after a sweep of what killed ones left.

        Raises: DataFolderBusy, where another one stays inside; StorageFailed.
        """
        with disk_errors(self.folder):
            # the data folder, where this is the first that is put into it
            self.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.folder.mkdir(exist_ok=True)
            lock = (self.folder / LOCK_FILE).open("ab")
        with lock:
            if not _lock_soon(lock):
                raise DataFolderBusy(
                    f"Another command is installing or removing a model in {self.folder}. Wait until it has ended."
                )
            with disk_errors(self.folder):
                self._sweep()
            yield

    def remove_lock_file(self) -> None:
        """Remove the trace of `changing`, where the folder is to be carried away."""
        with disk_errors(self.folder):
            (self.folder / LOCK_FILE).unlink(missing_ok=True)

    def _sweep(self) -> None:
        for left in (*self.folder.glob(".building-*"), *self.folder.glob(".removed-*")):
            shutil.rmtree(left)
        written = (*self.folder.glob(".*.part"), *self.folder.glob("*/.*.part"))
        for parts, kept_s in ((self.partial_folder.glob("*"), PARTIAL_KEPT_S), (written, WRITING_S)):
            for part in parts:
                with contextlib.suppress(FileNotFoundError):  # whoever wrote it has renamed it
                    if time.time() - part.stat().st_mtime > kept_s:
                        part.unlink()

    @property
    def partial_folder(self) -> Path:
        return self.folder / ".partial"

    @contextmanager
    def building(self) -> Iterator[Path]:
        """An empty folder on the same drive, which is gone after the block unless `place` put it in its place."""
        with disk_errors(self.folder):
            built = self.folder / f".building-{secrets.token_hex(4)}"
            built.mkdir()
        try:
            yield built
        finally:
            shutil.rmtree(built, ignore_errors=True)

    def place(self, built: Path, name: str) -> None:
        """Put the built folder in its place, and choose the model where nothing was chosen yet.

        Raises: ModelUnusable, where the name is taken; StorageFailed.
        """
        with disk_errors(self.folder):
            fsync_folder(built)
            self.require_not_installed(name)
            built.rename(self.folder / name)
            fsync_folder(self.folder)
        if not self.chosen():
            self.choose(name)

    def require_not_installed(self, name: str) -> None:
        """Raises: ModelUnusable, where the name is taken."""
        if (self.folder / name).exists():
            raise ModelUnusable(
                f"A model {name!r} is installed already. Remove it first, or give this one another name with --name."
            )


def hash_file(path: Path, what: str, report: Report) -> str:
    """The SHA-256 of the file, in hexadecimal. Raises: ModelUnusable."""
    digest = hashlib.sha256()
    try:
        size, done = path.stat().st_size, 0
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
                done += len(chunk)
                report(what, done, size)
    except OSError as error:
        raise ModelUnusable(f"{path.name} can't be read ({error.strerror}).") from error
    return digest.hexdigest()


def verify(models: ModelStore, name: str, report: Report) -> None:
    """Compare the files of a model with their SHA-256 at installation. Raises: ModelUnusable."""
    manifest = models.manifest(name)
    model = models.model(name)
    for path, part in ((model.text_path, manifest.text), (model.mmproj_path, manifest.mmproj)):
        found = hash_file(path, f"verifying {path.name}", report)
        if found != part.sha256:
            raise ModelUnusable(
                f"{path.name} of the model {name!r} has changed: its SHA-256 is {found}, and {part.sha256} was"
                " installed. Remove the model and install it anew."
            )


def read_json(path: Path, kind: type[Read]) -> Read | None:
    """What the file holds, None where there is none or it can't be understood."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None


def write_json(path: Path, document: Any) -> None:
    """Replace the file in one step. Raises `OSError`."""
    part = path.with_name(f".{path.name}-{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(document), indent=2))
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def fsync_folder(folder: Path) -> None:
    """Make a rename durable. Windows can't open folders, and NTFS journals renames by itself."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Maps the operating system's errors in the folder of models."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFailed(
                f"The disk that holds {folder} is full. Make room there, or choose another folder with models_dir."
            ) from error
        raise StorageFailed(f"The folder {folder} can't be used ({error.strerror}).") from error


def check_room(folder: Path, needed_bytes: int) -> None:
    """Raises: StorageFailed, where the disk of `folder` has less than that."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise StorageFailed(
            f"The disk that holds {folder} has {free / 1e6:,.0f} MB free, and {needed_bytes / 1e6:,.0f} MB are needed."
            " Make room there, or choose another folder with models_dir."
        )


def _lock_soon(file: IO[bytes]) -> bool:
    deadline = time.monotonic() + LOCK_WAIT_S
    while not _try_lock(file):
        if time.monotonic() > deadline:
            return False
        time.sleep(LOCK_POLL_S)
    return True


if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[bytes]) -> bool:
        with contextlib.suppress(OSError):
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            return True
        return False

else:
    import fcntl

    def _try_lock(file: IO[bytes]) -> bool:
        with contextlib.suppress(OSError):
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False
