"""Records every change that a process makes in a folder, or kills it at a chosen one. Linux, with a C compiler."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

HEADER = struct.Struct("=IIQQQ")


class Kind(IntEnum):
    """The kinds of file_operations.c, in its order, and `EVENT`, which is a response that a client received."""

    CREATE, WRITE, TRUNCATE, RENAME, UNLINK, MKDIR, RMDIR, SYNC_FILE, SYNC_FOLDER, EVENT = range(1, 11)


class Change(Struct, frozen=True):
    """One record. `path` is relative to the folder; `data` is what was written, or the new path of a rename."""

    kind: Kind
    path: str
    inode: int
    offset: int
    data: bytes


def build(folder: Path) -> Path:
    """Compile the library into `folder`."""
    library = folder / "file_operations.so"
    source = Path(__file__).with_name("file_operations.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, source], check=True)
    return library


def under_library(
    library: Path, root: Path, program: tuple[str, ...], *, log: Path | None = None, kill_at: int = 0
) -> tuple[str, ...]:
    """The command that starts `program` with the library, for the changes below `root`."""
    settings = [f"LD_PRELOAD={library}", f"FILE_OPERATIONS_ROOT={root}"]
    if log is not None:
        settings.append(f"FILE_OPERATIONS_LOG={log}")
    if kill_at:
        settings.append(f"FILE_OPERATIONS_KILL={kill_at}")
    return ("env", *settings, *program)


class EventLog:
    """Appends what clients receive to the log of changes, so that their order is known."""

    def __init__(self, log: Path) -> None:
        self._fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def add(self, event: dict[str, Any]) -> None:
        data = msgspec.json.encode(event)
        os.write(self._fd, HEADER.pack(Kind.EVENT, 0, 0, 0, len(data)) + data)

    def close(self) -> None:
        os.close(self._fd)


def read_changes(log: Path, root: Path) -> Iterator[Change]:
    """The records in order."""
    with log.open("rb") as file:
        while header := file.read(HEADER.size):
            kind, path_bytes, inode, offset, data_bytes = HEADER.unpack(header)
            path = os.fsdecode(file.read(path_bytes)).removeprefix(str(root)).strip("/")
            data = file.read(data_bytes)
            if kind == Kind.RENAME:
                data = os.fsencode(os.fsdecode(data).removeprefix(str(root)).strip("/"))
            yield Change(Kind(kind), path, inode, offset, data)
