"""A lock on the data folder: one process at a time owns it. The lock ends with the process, even after a crash."""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import DataFolderBusy, StorageFailed
from imgproc_local.system.files import (
    PART_PATTERN,
    fsync_folder,
    is_disk_full,
    lock_within,
    make_private,
    open_own_file,
    read_own_json,
    try_lock,
    write_atomically,
)

LOCK_FILE, OWNER_FILE = "owner.lock", "owner.json"
LOCK_WAIT_S = 0.25
"""How long to wait for the lock, because `current_owner` in another process may hold it for an instant."""


class Owner(Struct, frozen=True):
    """The process that owns a data folder.

    `doing` is its command, such as `serve`; `address` is the URL of its page, None if it serves none; `since` is the
    time of its start (RFC 3339).
    """

    pid: int
    doing: str
    address: str | None = None
    since: str = ""
    air_gapped: bool = False


class FolderLock:
    """Makes this process, which does `doing`, the owner of `folder` until `release` or the end of the `with` block.

    Creates the folder if it is missing, and takes access to it from other users.

    Raises: DataFolderBusy, if another process owns it (the message names that process); StorageFailed.
    """

    def __init__(self, folder: Path, doing: str) -> None:
        make_folder(folder)
        self._folder, self._doing = folder, doing
        self._since = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        try:
            self._file: IO[bytes] = open_own_file(folder / LOCK_FILE, "ab")
        except OSError as error:
            raise StorageFailed(_unusable(folder, error)) from error
        try:
            if not lock_within(self._file, LOCK_WAIT_S):
                raise DataFolderBusy(_busy_message(folder, current_owner(folder)))
            (folder / OWNER_FILE).unlink(missing_ok=True)  # that of a killed owner
            make_private(folder)
            for part in folder.glob(PART_PATTERN):  # what a killed owner left: only owners write here
                part.unlink(missing_ok=True)
            self.publish()
        except BaseException:
            self._file.close()
            raise

    def publish(self, address: str | None = None, *, air_gapped: bool = False) -> None:
        """Tell other processes who owns the folder, and at which address it serves. Raises: StorageFailed."""
        owner = Owner(os.getpid(), self._doing, address, self._since, air_gapped)
        try:
            write_atomically(self._folder / OWNER_FILE, msgspec.json.encode(owner))
        except OSError as error:
            raise StorageFailed(_unusable(self._folder, error)) from error

    def release(self) -> None:
        """Let another process own the folder."""
        (self._folder / OWNER_FILE).unlink(missing_ok=True)
        self._file.close()

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def current_owner(folder: Path) -> Owner | None:
    """The process that owns the folder now, or None. The owner file of a killed process is ignored."""
    owner = read_own_json(folder / OWNER_FILE, Owner)
    try:
        with open_own_file(folder / LOCK_FILE) as file:
            return None if try_lock(file) else owner
    except OSError:
        return None


def require_folder(folder: Path) -> None:
    """Raises: StorageFailed, unless the data folder exists."""
    _require_no_file(folder)
    if not folder.is_dir():
        raise StorageFailed(
            f"The data folder {folder} does not exist. Name another one with --data-dir, or create it with"
            " `imgproc-local serve`."
        )


def _require_no_file(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise StorageFailed(f"Expected a data folder, but {folder} is a file. Name a folder with --data-dir.")


def make_folder(folder: Path) -> None:
    """Create the data folder if it is missing, and check that it can be written to. Raises: StorageFailed."""
    _require_no_file(folder)
    try:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for created in missing:
            fsync_folder(created.parent)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise StorageFailed(_unusable(folder, error)) from error


def foreign_owner_text(folder: Path) -> str:
    """The end of an error message: "; it belongs to the user …", or "" if the folder is this user's or unknown."""
    try:
        owner = folder.stat().st_uid
        return f"; it belongs to the user {folder.owner()}" if owner != os.geteuid() else ""
    except KeyError:  # a user without a name, as in containers
        return f"; it belongs to the user number {owner}"
    except (OSError, AttributeError, NotImplementedError):  # Windows has no such owners
        return ""


def _unusable(folder: Path, error: OSError) -> str:
    advice = "Free space on its disk" if is_disk_full(error) else "Give yourself permission to write to it"
    return (
        f"The data folder {folder} can't be written ({error.strerror}{foreign_owner_text(folder)})."
        f" {advice}, or choose another folder with --data-dir."
    )


def _busy_message(folder: Path, owner: Owner | None) -> str:
    if owner is None:
        held = f"Another process holds the data folder {folder}, or its file system has no locks."
    else:
        where = f" at {owner.address}" if owner.address else ""
        held = f"The data folder {folder} is held by process {owner.pid} (`imgproc-local {owner.doing}`{where})."
    return f"{held} Wait for it, stop it first, or use another folder with --data-dir."
