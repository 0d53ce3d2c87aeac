"""Atomic and durable writes: a file is written completely or not at all, and survives a loss of power.

Also reading of the program's own files in folders that somebody else may have prepared, access for the owner only,
locks, hashes, and file names as text.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import stat
import sys
import time
from pathlib import Path, PurePath
from typing import IO, Any, TypeVar

import msgspec

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_Document = TypeVar("_Document")

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
"""File modes that give access to the owner only. On Windows, which has no such modes, the user's profile is private."""

_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errors where no hard link can be made, as on exFAT."""


def open_own_file(
    path: Path, mode: str = "rb", *, max_bytes: int | None = None, permissions: int = 0o666, buffering: int = -1
) -> IO[Any]:
    """Open a file of this program. Where somebody else made it, this neither blocks nor writes elsewhere.

    `permissions` are those of a new file. Raises: PermissionError, if `path` is no regular file or has more than
    `max_bytes`, or for writing, if it is a link; OSError.
    """
    own_flags = getattr(os, "O_NONBLOCK", 0) | (0 if mode == "rb" else getattr(os, "O_NOFOLLOW", 0))
    try:
        file = open(  # noqa: SIM115 - it is returned
            path, mode, buffering, opener=lambda name, flags: os.open(name, flags | own_flags, permissions)
        )
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):  # a link, and a pipe that nobody reads
            raise
        raise PermissionError(errno.EPERM, f"{path.name} is not a regular file", str(path)) from error
    status = os.fstat(file.fileno())
    problem = None
    if not stat.S_ISREG(status.st_mode):
        problem = "is not a regular file"
    elif max_bytes is not None and status.st_size > max_bytes:
        problem = f"has {status.st_size:,} bytes; at most {max_bytes:,} are read"
    if problem:
        file.close()
        raise PermissionError(errno.EPERM, f"{path.name} {problem}", str(path))
    return file


def read_own_json(path: Path, document_type: type[_Document]) -> _Document | None:
    """The content of a JSON file of this program, of at most one megabyte.

    None if it can't be read or does not match `document_type`.
    """
    most = 1024 * 1024
    try:
        with open_own_file(path, max_bytes=most) as file:
            return msgspec.json.decode(file.read(most), type=document_type)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def path_inside(folder: Path, path: str | PurePath) -> Path:
    """The path of a file below `folder`, to be written or deleted there.

    Raises: PermissionError, if a link between the two leads out of `folder`.
    """
    target = folder / path
    if not Path(os.path.realpath(target.parent)).is_relative_to(os.path.realpath(folder)):
        raise PermissionError(errno.EPERM, f"a link in {path} leads out of the folder", str(target))
    return target


def write_atomically(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Replace the content of `path` in one step, and return when it is on the disk.

    A killed process can leave a temporary file `.*.part` behind. `mode` is the file's mode before the process's umask
    is applied. Raises: OSError; `path` is unchanged then, unless only the fsync of its folder failed.
    """
    part = path.with_name(f".{path.name}-{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)


def copy_durably(source: Path, target: Path) -> None:
    """Copy a file, and return when the copy is on the disk. Raises: OSError; then there is no copy."""
    try:
        shutil.copyfile(source, target)
        with target.open("rb+") as copy:
            os.fsync(copy.fileno())
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def rename_to_new(part: Path, target: Path) -> None:
    """Rename `part` to `target` without replacing a file. On most systems `part` remains, as a second link.

    Raises: FileExistsError if `target` exists; OSError.
    """
    if sys.platform == "win32":
        part.rename(target)  # Windows does not overwrite
        return
    try:
        target.hardlink_to(part)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        target.open("xb").close()
        try:
            part.replace(target)
        except BaseException:
            target.unlink()
            raise


def fsync_folder(folder: Path) -> None:
    """Make renames in `folder` durable. Does nothing on Windows, where folders can't be opened; NTFS logs renames."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_disk_full(error: OSError) -> bool:
    """Whether a write failed because the disk, or the user's quota on it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def encodable_text(text: str) -> str:
    """`text` made encodable as UTF-8: surrogates, which stand for other bytes in file names, become `\\xNN`."""
    return text.encode("utf-8", sys.getfilesystemencodeerrors()).decode("utf-8", "backslashreplace")


# ---- locks ----
#
# A lock is advisory and ends when the file is closed, also by a crash of the process.


def lock_within(file: IO[bytes], wait_s: float) -> bool:
    """As `try_lock`, but wait at most `wait_s` seconds for another lock to end."""
    deadline_s = time.monotonic() + wait_s
    while not try_lock(file):
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(0.05)
    return True


def try_lock(file: IO[bytes]) -> bool:
    """Lock `file` unless another open file of any process holds the lock. Returns whether it is locked now."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def hash_file(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal. Blocks. Raises: OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
