"""One process owns a data folder at a time. The operating system lets the lock go with the process, however it ends."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import DataFolderBusy, StorageFailed

LOCK_TRIES = 5
LOCK_RETRY_S = 0.05


class Owner(Struct, frozen=True):
    """Who holds a data folder: `doing` is what for, `address` where it can be reached, if it serves."""

    pid: int
    doing: str
    address: str | None = None
    since: str = ""
    air_gapped: bool = False


def make_folder(folder: Path) -> None:
    """Make the data folder where it is new, and see that it can be written. Raises: StorageFailed."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise StorageFailed(_unusable(folder, error)) from error


def whose(folder: Path) -> str:
    """ ", it belongs to …", where it is another user's than the one who asks; else empty."""
    if sys.platform == "win32":
        return ""
    import pwd

    try:
        owner = folder.stat().st_uid
    except OSError:
        return ""
    if owner == os.geteuid():
        return ""

    def name(user: int) -> str:
        try:
            return pwd.getpwuid(user).pw_name
        except KeyError:
            return f"number {user}"

    return f"; it belongs to the user {name(owner)}, and this is {name(os.geteuid())}"


def _unusable(folder: Path, error: OSError) -> str:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    advice = "Make room on its disk" if full else "Give yourself the right to it"
    return (
        f"The data folder {folder} can't be written ({error.strerror}{whose(folder)})."
        f" {advice}, or choose another with --data-dir."
    )


class FolderLock:
    """Holds `folder` from construction to `release`. Raises `DataFolderBusy`, naming the owner."""

    def __init__(self, folder: Path, owner: Owner) -> None:
        make_folder(folder)
        self._info = folder / "owner.json"
        try:
            self._file: IO[bytes] = (folder / "owner.lock").open("ab")
        except OSError as error:
            raise StorageFailed(_unusable(folder, error)) from error
        try:
            if not _lock_soon(self._file):
                raise DataFolderBusy(_busy_message(folder, current_owner(folder)))
            self.tell(owner)
        except BaseException:
            self._file.close()
            raise

    def tell(self, owner: Owner) -> None:
        """Replace what others are told about the owner."""
        whole = self._info.with_suffix(".part")
        try:
            whole.write_bytes(msgspec.json.encode(owner))
            whole.replace(self._info)
        except OSError as error:
            whole.unlink(missing_ok=True)
            raise StorageFailed(_unusable(whole.parent, error)) from error

    def release(self) -> None:
        self._info.unlink(missing_ok=True)
        self._file.close()


def current_owner(folder: Path) -> Owner | None:
    """Who says that it holds the folder; None where nobody does. What a killed process left is not believed."""
    info, lock = folder / "owner.json", folder / "owner.lock"
    try:
        owner = msgspec.json.decode(info.read_bytes(), type=Owner)
        with lock.open("rb") as file:
            return None if _try_lock(file) else owner
    except (OSError, msgspec.MsgspecError):
        return None


def _lock_soon(file: IO[bytes]) -> bool:
    """Take the lock; somebody who only looks whether it is held holds it himself for an instant."""
    for _ in range(LOCK_TRIES):
        if _try_lock(file):
            return True
        time.sleep(LOCK_RETRY_S)
    return False


def _busy_message(folder: Path, owner: Owner | None) -> str:
    if owner is None:
        return f"Another process holds the data folder {folder}. Wait for it, or use another folder with --data-dir."
    held = f"The data folder {folder} is held by process {owner.pid} (`imgproc-local {owner.doing}`"
    if owner.address is None:
        return f"{held}). Wait for it, stop it first, or use another folder with --data-dir."
    return f"{held} at {owner.address}). Send your images to it, stop it first, or use another folder with --data-dir."


if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
