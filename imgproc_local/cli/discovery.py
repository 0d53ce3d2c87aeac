"""Finds the pictures in the files and folders given to `process`, by their first bytes, not their extension.

Results of earlier runs are not processed again. They are recognised by the manifests of the output folder, of the
folders that are searched, and of the folders above those. Copies of results are recognised by their content. The target
of `archive` is left out as a whole, as are the folders of stored pictures in a data folder.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from msgspec import Struct, field

from imgproc_local import batch
from imgproc_local.cli.output import path_text, printable
from imgproc_local.codecs.picture.formats import FORMATS, detect, head_of
from imgproc_local.domain.errors import StageFailed, UnsupportedImage
from imgproc_local.domain.image import READ_ONLY_FORMATS, Format
from imgproc_local.storage.blobs import STORE_FOLDERS
from imgproc_local.storage.inspection import DATABASE_FILE, WORK_FOLDER
from imgproc_local.system.files import hash_file

log = logging.getLogger(__name__)

OWN_RESULT = "It is a result of an earlier run."
_EDITED_RESULT = "It is at the path of a result that was edited. Rename it if it is an original."
_ARCHIVE_TARGET = "has the results of `archive`."
_DATA_FOLDER = "It is a data folder of this program: the pictures that it has stored there are left out."


class _RejectedFile(Struct, frozen=True):
    """A file or folder that is not processed, and why."""

    path: Path
    reason: str


class SourceFile(Struct, frozen=True):
    """A file to process. `subfolder` is where its results belong, relative to the output folder."""

    path: Path
    subfolder: PurePosixPath
    size_bytes: int
    modified_ns: int

    @property
    def key(self) -> str:
        """The path of the picture below the folder that was given, with `/` between the parts."""
        return str(self.subfolder / self.path.name)


class Discovery(Struct, frozen=True):
    """The files to process, and those that are not processed.

    `failed` lists arguments that are missing or not pictures, and everything that can't be read. `skipped` lists
    results of earlier runs, targets of `archive`, data folders, and other files in folders.
    """

    pictures: list[SourceFile]
    skipped: list[_RejectedFile]
    failed: list[_RejectedFile]


def read_manifest(folder: Path) -> dict[str, batch.ManifestLine]:
    """The records of an output folder by source; empty without a manifest. Raises: as `stored_records`."""
    records = list(batch.stored_records(folder))
    if unreadable := records.count(None):
        file = printable(path_text(folder / batch.MANIFEST_FILE))
        log.warning("%d lines of %s can't be read; their pictures are processed again.", unreadable, file)
    return {record.source: record for record in records if record is not None}


class _OwnResults:
    """The files that earlier runs wrote, according to the manifests that were added."""

    def __init__(self) -> None:
        self._reasons: dict[Path, str] = {}
        self._sources: set[Path] = set()
        self._hashes_by_size: dict[int, set[str]] = {}
        self._source_hashes: set[str] = set()
        self._folders: set[Path] = set()

    def add_folder(self, folder: Path) -> None:
        """Add the manifest of an output folder, if it has one. One that can't be read is logged."""
        folder = folder.resolve()
        if folder in self._folders:
            return
        self._folders.add(folder)
        try:
            records = read_manifest(folder)
        except OSError as error:
            where = printable(path_text(folder / batch.MANIFEST_FILE))
            log.warning("%s can't be read (%s). Results that it names may be processed.", where, error.strerror)
            return
        for record in records.values():
            self.add(folder, record)

    def add(self, folder: Path, record: batch.ManifestLine) -> None:
        """Add the results of one picture."""
        self._source_hashes.add(record.sha256)
        self._sources.add(Path(os.path.normpath(folder / record.source)))
        for path in record.edited:
            self._reasons.setdefault(folder / path, _EDITED_RESULT)
        for file in record.files:
            self._reasons[folder / file.path] = OWN_RESULT
            self._hashes_by_size.setdefault(file.size_bytes, set()).add(file.sha256)

    def reason(self, real_path: Path, size_bytes: int) -> str | None:
        """Why a file is no original: it is one of the results or a copy of one. None for other files. Raises: OSError.

        An original that could not be made smaller has a result with the same content, and so has one that --in-place
        has replaced since. A file with such content counts as an original, except under the path of the result.
        """
        if real_path in self._reasons:
            return self._reasons[real_path]
        hashes = self._hashes_by_size.get(size_bytes)
        if not hashes or real_path in self._sources:
            return None
        sha256 = hash_file(real_path)
        return OWN_RESULT if sha256 in hashes and sha256 not in self._source_hashes else None


class Finder(Struct):
    """Searches the arguments of a command for pictures.

    `out`, the output folder, and the folders `exclude` are not searched, unless they are an argument. Inside a folder,
    files and folders are ignored whose name or path below that folder matches a pattern of `ignored`, as in `fnmatch`.
    With `flat`, all results belong directly into `out`. Pictures of other formats than `accepted` are rejected. With
    `in_place`, so are those that should not be replaced.
    """

    arguments: Sequence[Path]
    out: Path
    exclude: Collection[Path]
    flat: bool
    accepted: Sequence[Format]
    ignored: Sequence[str] = ()
    in_place: bool = False
    own_results: _OwnResults = field(default_factory=_OwnResults)
    has_many_folders: bool = False

    def __post_init__(self) -> None:
        self.has_many_folders = sum(map(batch.is_folder, self.arguments)) > 1
        self.own_results.add_folder(self.out)

    def find(self) -> Discovery:
        """The pictures in the arguments, folders recursively. Each is found once; the order is deterministic.

        Inside a folder, hidden files and folders, symbolic links to folders, excluded folders, and what matches a
        pattern are ignored.
        """
        discovery = Discovery([], [], [])
        seen: set[Path] = set()
        # files first: a file that is both an argument and inside a folder counts as an argument
        for argument in sorted(self.arguments, key=batch.is_folder):
            # the whole folder is listed first, because a manifest in it says which of the files are results
            files = list(self._walk(argument, discovery)) if batch.is_folder(argument) else [(argument, None)]
            for file, subfolder in files:
                real = Path(os.path.realpath(file))  # `resolve` raises RuntimeError for a link to itself
                if real not in seen:
                    seen.add(real)
                    self._sort_in(file, real, subfolder, discovery)
        return discovery

    def _walk(self, folder: Path, discovery: Discovery) -> Iterator[tuple[Path, PurePosixPath]]:
        """The files in `folder`, each with the subfolder of the output folder in which its results belong."""

        def report(error: OSError) -> None:
            problem = f"The folder can't be opened: {error.strerror}."
            discovery.failed.append(_RejectedFile(Path(error.filename), problem))

        if (target := batch.archive_target_above(folder)) is not None:
            discovery.skipped.append(_RejectedFile(folder, f"{printable(path_text(target))} {_ARCHIVE_TARGET}"))
            return
        for above in folder.resolve().parents:  # it may be a folder inside an output folder
            if (above / batch.MANIFEST_FILE).is_file():
                self.own_results.add_folder(above)
        excluded = {each.resolve() for each in (self.out, *self.exclude)}
        prefix = folder.resolve().name if self.has_many_folders else ""
        for parent, folders, files in os.walk(folder, onerror=report):
            if batch.STATE_FOLDER in folders:
                folders.clear()
                discovery.skipped.append(_RejectedFile(Path(parent), f"It {_ARCHIVE_TARGET}"))
                continue
            if DATABASE_FILE in files and STORE_FOLDERS[0] in folders:
                folders[:] = [name for name in folders if name not in (*STORE_FOLDERS, WORK_FOLDER)]
                discovery.skipped.append(_RejectedFile(Path(parent), _DATA_FOLDER))
            below = Path(parent).relative_to(folder)
            folders[:] = sorted(
                name
                for name in folders
                if not self._is_ignored(below / name) and Path(parent, name).resolve() not in excluded
            )
            if batch.MANIFEST_FILE in files:
                self.own_results.add_folder(Path(parent))
            inside = PurePosixPath("" if self.flat else Path(prefix, below).as_posix())
            yield from ((Path(parent, name), inside) for name in sorted(files) if not self._is_ignored(below / name))

    def _is_ignored(self, path: Path) -> bool:
        """Whether a file or folder at `path` below the folder that is searched is hidden, or matches a pattern."""
        patterns = (pattern.rstrip("/") for pattern in self.ignored)
        matches = (fnmatch(text, pattern) for pattern in patterns for text in (path.name, path.as_posix()))
        return path.name.startswith(".") or any(matches)

    def _sort_in(self, file: Path, real: Path, subfolder: PurePosixPath | None, discovery: Discovery) -> None:
        """Add a file to one of the lists. `subfolder` is None for an argument, which must be a picture."""
        rejected = discovery.failed if subfolder is None else discovery.skipped
        try:
            status = file.stat()
            if not stat.S_ISREG(status.st_mode):  # reading a pipe or a device could block forever
                rejected.append(_RejectedFile(file, "It is neither a file nor a folder."))
            elif (of_earlier_run := self.own_results.reason(real, status.st_size)) is not None:
                discovery.skipped.append(_RejectedFile(file, of_earlier_run))
            else:
                picture_format = detect(head_of(file), self.accepted)
                if self.in_place:
                    _require_replaceable(file, status, picture_format, is_named=subfolder is None)
                folder = subfolder or PurePosixPath()
                discovery.pictures.append(SourceFile(file, folder, status.st_size, status.st_mtime_ns))
        except FileNotFoundError:
            discovery.failed.append(_RejectedFile(file, "No such file or folder."))
        except OSError as error:
            discovery.failed.append(_RejectedFile(file, f"It can't be read: {error.strerror}."))
        except (UnsupportedImage, StageFailed) as error:
            rejected.append(_RejectedFile(file, error.message))


def _require_replaceable(file: Path, status: os.stat_result, picture_format: Format, *, is_named: bool) -> None:
    """Raises: UnsupportedImage, for a picture that `--in-place` does not replace. `is_named`: it is an argument."""
    if picture_format in READ_ONLY_FORMATS:
        raise UnsupportedImage(f"The result of a {FORMATS[picture_format].name} file would have another format.")
    if file.is_symlink():
        raise UnsupportedImage("It is a link, which is not replaced. Name the file that it leads to.")
    if not status.st_mode & stat.S_IWUSR or not os.access(file, os.W_OK):
        raise UnsupportedImage("It is read-only.")
    if not is_named and not has_picture_ending(file.name):
        raise UnsupportedImage("Its name does not end like that of a picture: it may be a backup.")


def has_picture_ending(name: str) -> bool:
    """Whether a file name ends with an extension of a format, such as `.jpg`."""
    return any(name.lower().endswith(f".{each}") for one in FORMATS.values() for each in one.extensions)
