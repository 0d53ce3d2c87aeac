"""A disk that loses what was not synced: after a cut, any part of the unsynced changes may have reached it.

The model is stricter than any real file system: a synced file keeps its data but not its name, which only a sync of its
folder keeps; unsynced writes survive sector by sector, in any order; a rename from one folder to another may leave both
names, or none.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from tests.ordeals.recorder import Change, Kind

SECTOR_BYTES = 512
Survives = Callable[[], bool]
"""Called for each unsynced part in turn: whether it has reached the disk."""


class _File:
    """The content on the disk, and what was written since the last sync, in order: (offset, data), or (size, None)."""

    def __init__(self) -> None:
        self.synced = bytearray()
        self.pending: list[tuple[int, bytes | None]] = []

    def sync(self) -> None:
        self.synced = self.content(lambda: True)
        self.pending = []

    def content(self, survives: Survives) -> bytearray:
        content = bytearray(self.synced)
        for offset, data in self.pending:
            if data is None:
                if survives():
                    _resize(content, offset)
                continue
            end = offset + len(data)
            for start in range(offset - offset % SECTOR_BYTES, end, SECTOR_BYTES):
                if survives():
                    first, last = max(start, offset), min(start + SECTOR_BYTES, end)
                    _resize(content, max(len(content), last))
                    content[first:last] = data[first - offset : last - offset]
        return content


def _resize(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


class _FolderEntry:
    """A folder, in a table of entries by path."""


Entry = _File | _FolderEntry | None


class Disk:
    """The files of one folder, as the program sees them now and as they would be after a cut."""

    def __init__(self) -> None:
        self._synced: dict[str, Entry] = {}
        self._now: dict[str, Entry] = {}
        self._pending: list[dict[str, Entry]] = []
        self._inodes: dict[int, _File] = {}

    def apply(self, change: Change) -> None:
        """Make one recorded change."""
        match change.kind:
            case Kind.CREATE:
                self._inodes[change.inode] = file = _File()
                self._rename({change.path: file})
            case Kind.WRITE:
                self._inodes[change.inode].pending.append((change.offset, change.data))
            case Kind.TRUNCATE:
                self._inodes[change.inode].pending.append((change.offset, None))
            case Kind.SYNC_FILE:
                self._inodes[change.inode].sync()
            case Kind.MKDIR:
                self._rename({change.path: _FolderEntry()})
            case Kind.UNLINK | Kind.RMDIR:
                self._rename({change.path: None})
            case Kind.RENAME:
                target = os.fsdecode(change.data)
                self._move(change.path, target)
            case Kind.SYNC_FOLDER:
                self._sync_folder(change.path)

    def _move(self, source: str, target: str) -> None:
        entry = self._now.get(source)
        if isinstance(entry, _FolderEntry):
            raise AssertionError("the model does not know renames of folders")
        if PurePosixPath(source).parent == PurePosixPath(target).parent:
            self._rename({source: None, target: entry})
        else:
            self._rename({target: entry})
            self._rename({source: None})

    def _rename(self, names: dict[str, Entry]) -> None:
        self._now.update(names)
        self._pending.append(names)

    def _sync_folder(self, folder: str) -> None:
        waiting = []
        for names in self._pending:
            if str(PurePosixPath(next(iter(names))).parent) == (folder or "."):
                self._synced.update(names)
            else:
                waiting.append(names)
        self._pending = waiting

    def write_image(self, folder: Path, rng: random.Random) -> str:
        """Write what a cut leaves now into `folder`, and return which unsynced parts survived: none, all, or some."""
        way = rng.choice(["none", "all", "some", "some", "most"])
        share = {"none": 0.0, "all": 1.0, "some": 0.5, "most": 0.95}[way]
        self._write(folder, lambda: rng.random() < share)
        return way

    def write_all(self, folder: Path) -> None:
        """Write the present content, as without a cut."""
        self._write(folder, lambda: True)

    def _write(self, folder: Path, survives: Survives) -> None:
        names = dict(self._synced)
        for change in self._pending:
            if survives():
                names.update(change)
        contents: dict[int, bytes] = {}
        for name, entry in sorted(names.items()):
            parents = [str(parent) for parent in PurePosixPath(name).parents][:-1]
            if entry is None or not all(isinstance(names.get(parent), _FolderEntry) for parent in parents):
                continue
            if isinstance(entry, _FolderEntry):
                (folder / name).mkdir(exist_ok=True)
            else:
                if id(entry) not in contents:
                    contents[id(entry)] = bytes(entry.content(survives))
                (folder / name).write_bytes(contents[id(entry)])
