"""A lock on the data folder: one process at a time owns it. The lock ends with the process, even after a crash."""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import DataFolderBusy, StorageFailed
from imgproc_local.system import files

log = logging.getLogger(__name__)

_LOCK_FILE, _OWNER_FILE = "owner.lock", "owner.json"


class Owner(Struct, frozen=True):
    """The process that owns a data folder.

    `doing` is its command, such as `serve`; `address` is the URL of its page, None if it serves none; `since` is the
    time of its start (RFC 3339). `public_url` is the address for browsers, "" if that is `address`.
    """

    pid: int
    doing: str
    address: str | None = None
    since: str = ""
    air_gapped: bool = False
    public_url: str = ""


class FolderLock:
    """Makes this process, which does `doing`, the owner of `folder` until `release` or the end of the `with` block.

    Creates the folder if it is missing, and takes access to it from other users.

    Raises: DataFolderBusy, if another process owns it (the message names that process); StorageFailed.
    """

    def __init__(self, folder: Path, doing: str) -> None:
        make_folder(folder)
        self._folder, self._doing = folder, doing
        self._since = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        with _storage_errors(folder):
            self._file: IO[bytes] = files.open_own_file(folder / _LOCK_FILE, "ab")
        try:
            # `current_owner` in another process may hold it for an instant
            if not files.lock_within(self._file, wait_s=0.25):
                raise DataFolderBusy(_busy_message(folder, current_owner(folder)))
            (folder / _OWNER_FILE).unlink(missing_ok=True)  # that of a killed owner
            _make_private(folder)
            for part in folder.glob(".*.part"):  # what a killed owner left: only owners write here
                part.unlink(missing_ok=True)
            self.publish()
        except BaseException:
            self._file.close()
            raise

    def publish(self, address: str | None = None, *, air_gapped: bool = False, public_url: str = "") -> None:
        """Tell other processes who owns the folder, and at which address it serves. Raises: StorageFailed."""
        owner = Owner(os.getpid(), self._doing, address, self._since, air_gapped, public_url)
        with _storage_errors(self._folder):
            files.write_atomically(self._folder / _OWNER_FILE, msgspec.json.encode(owner))

    def release(self) -> None:
        """Let another process own the folder."""
        (self._folder / _OWNER_FILE).unlink(missing_ok=True)
        self._file.close()

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def current_owner(folder: Path) -> Owner | None:
    """The process that owns the folder now, or None. The owner file of a killed process is ignored.

    Raises: StorageFailed, if this user may not read it.
    """
    owner = files.read_own_json(folder / _OWNER_FILE, Owner)
    try:
        with files.open_own_file(folder / _LOCK_FILE) as file:
            return None if files.try_lock(file) else owner
    except PermissionError as error:
        reason = f"{error.strerror}{foreign_owner_text(folder)}"
        raise StorageFailed(f"The data folder {folder} can't be read ({reason}). Run this as its user.") from error
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
    with _storage_errors(folder):
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True, mode=files.PRIVATE_FOLDER)
        for created in missing:
            files.fsync_folder(created.parent)
        with tempfile.TemporaryFile(dir=folder):
            pass


def _make_private(folder: Path) -> None:
    """Take access to a folder from other users, and log that they had it, or still have it."""
    if os.name != "posix":
        return
    try:
        mode = stat.S_IMODE(folder.stat().st_mode)
        if mode & 0o077:
            folder.chmod(files.PRIVATE_FOLDER)
            log.warning("other users could read %s (mode %o); now only its owner can", folder, mode)
    except OSError as error:
        log.warning("other users may read %s: its mode can't be changed (%s)", folder, error.strerror)


def foreign_owner_text(folder: Path) -> str:
    """The end of an error message: "; it belongs to the user …", or "" if the folder is this user's or unknown."""
    try:
        owner = folder.stat().st_uid
        return f"; it belongs to the user {folder.owner()}" if owner != os.geteuid() else ""
    except KeyError:  # a user without a name, as in containers
        return f"; it belongs to the user number {owner}"
    except (OSError, AttributeError, NotImplementedError):  # Windows has no such owners
        return ""


@contextmanager
def _storage_errors(folder: Path) -> Iterator[None]:
    """Raises the errors of the operating system inside the block as `StorageFailed`."""
    try:
        yield
    except OSError as error:
        advice = "Free space on its disk" if files.is_disk_full(error) else "Give yourself permission to write to it"
        raise StorageFailed(
            f"The data folder {folder} can't be written ({error.strerror}{foreign_owner_text(folder)})."
            f" {advice}, or choose another folder with --data-dir."
        ) from error


def _busy_message(folder: Path, owner: Owner | None) -> str:
    if owner is None:
        held = f"Another process holds the data folder {folder}, or its file system has no locks."
    else:
        where = f" at {owner.address}" if owner.address else ""
        held = f"The data folder {folder} is held by process {owner.pid} (`{owner.doing}`{where})."
    return f"{held} Wait for it, stop it first, or use another folder with --data-dir."
