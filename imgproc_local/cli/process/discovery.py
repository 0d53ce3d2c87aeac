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
from pathlib import Path, PurePosixPath

from msgspec import Struct

from imgproc_local.batch.records import MANIFEST_FILE, STATE_FOLDER, Record, archive_target_above
from imgproc_local.cli.output import path_text, printable
from imgproc_local.cli.process.manifest import read_manifest
from imgproc_local.codecs.picture.probe import detect, opened
from imgproc_local.domain.errors import UnsupportedImage
from imgproc_local.domain.image import Format
from imgproc_local.domain.plan import Operation, accepted_formats
from imgproc_local.storage.blobs import STORE_FOLDERS, hash_file
from imgproc_local.storage.inspection import DATABASE_FILE, WORK_FOLDER

log = logging.getLogger(__name__)

OWN_RESULT = "It is a result of an earlier run."
EDITED_RESULT = "It is at the path of a result that was edited. Rename it if it is an original."
ARCHIVE_TARGET = "has the results of `archive`."
DATA_FOLDER = "It is a data folder of this program: the pictures that it has stored there are left out."
MAX_KNOWN_FILES = 200_000
"""The most files whose check is remembered, so that the searches of a watched folder do not open each file again."""


class RejectedFile(Struct, frozen=True):
    """A file or folder that is not processed, and why."""

    path: Path
    reason: str


class Picture(Struct, frozen=True):
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

    pictures: list[Picture]
    skipped: list[RejectedFile]
    failed: list[RejectedFile]


class OwnResults:
    """The files that earlier runs wrote, according to the manifests that were added."""

    def __init__(self) -> None:
        self._paths: set[Path] = set()
        self._edited: set[Path] = set()
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
            where = printable(path_text(folder / MANIFEST_FILE))
            log.warning("%s can't be read (%s). Results that it names may be processed.", where, error.strerror)
            return
        for record in records.values():
            self.add(folder, record)

    def add(self, folder: Path, record: Record) -> None:
        """Add the results of one picture."""
        self._source_hashes.add(record.sha256)
        self._edited.update(folder / path for path in record.edited)
        for file in record.files:
            self._paths.add(folder / file.path)
            self._hashes_by_size.setdefault(file.size_bytes, set()).add(file.sha256)

    def reason(self, real_path: Path, size_bytes: int) -> str | None:
        """Why a file is no original: it is one of the results or a copy of one. None for other files. Raises: OSError.

        An original that could not be made smaller has a result with the same content. A file with such content counts
        as an original, except under the path of the result.
        """
        if real_path in self._paths:
            return OWN_RESULT
        if real_path in self._edited:
            return EDITED_RESULT
        hashes = self._hashes_by_size.get(size_bytes)
        if not hashes:
            return None
        sha256 = hash_file(real_path)
        return OWN_RESULT if sha256 in hashes and sha256 not in self._source_hashes else None


class Finder:
    """Searches the arguments of a command for pictures.

    `out`, the output folder, and the folders `exclude` are not searched, unless they are an argument. With `flat`, all
    results belong directly into `out`. Pictures of other formats than `accepted` are rejected.
    """

    def __init__(
        self,
        arguments: Sequence[Path],
        out: Path,
        exclude: Collection[Path],
        *,
        flat: bool,
        accepted: Sequence[Format] = accepted_formats(Operation.PROCESS, local=True),
    ) -> None:
        self._arguments = arguments
        self._accepted = accepted
        self._excluded = {folder.resolve() for folder in (out, *exclude)}
        self._flat = flat
        self._many_folders = sum(_is_folder(argument) for argument in arguments) > 1
        self.own_results = OwnResults()
        self.own_results.add_folder(out)
        self._problems: dict[tuple[Path, int, int], str | None] = {}

    def find(self) -> Discovery:
        """The pictures in the arguments, folders recursively. Each is found once; the order is deterministic.

        Inside a folder, hidden files and folders, symbolic links to folders, and excluded folders are ignored.
        """
        discovery = Discovery([], [], [])
        seen: set[Path] = set()
        # files first: a file that is both an argument and inside a folder counts as an argument
        for argument in sorted(self._arguments, key=_is_folder):
            is_folder = _is_folder(argument)
            if is_folder and (target := archive_target_above(argument)) is not None:
                discovery.skipped.append(RejectedFile(argument, f"{printable(path_text(target))} {ARCHIVE_TARGET}"))
                continue
            if is_folder:
                self._add_manifests_above(argument)
            # the whole folder is listed first, because a manifest in it says which of the files are results
            files = list(self._walk(argument, discovery)) if is_folder else [(argument, "")]
            for file, subfolder in files:
                real = Path(os.path.realpath(file))  # `resolve` raises RuntimeError for a link to itself
                if real in seen:
                    continue
                seen.add(real)
                self._sort_in(file, real, PurePosixPath(subfolder), is_folder, discovery)
        return discovery

    def _add_manifests_above(self, folder: Path) -> None:
        """The argument may be a folder inside an output folder."""
        real = folder.resolve()
        for parent in (real, *real.parents):
            if (parent / MANIFEST_FILE).is_file():
                self.own_results.add_folder(parent)

    def _walk(self, folder: Path, discovery: Discovery) -> Iterator[tuple[Path, str]]:
        """The files in `folder`, each with the subfolder of the output folder in which its results belong."""

        def report(error: OSError) -> None:
            discovery.failed.append(
                RejectedFile(Path(error.filename), f"The folder can't be opened: {error.strerror}.")
            )

        prefix = folder.resolve().name if self._many_folders else ""
        for parent, folders, files in os.walk(folder, onerror=report):
            if STATE_FOLDER in folders:
                folders.clear()
                discovery.skipped.append(RejectedFile(Path(parent), f"It {ARCHIVE_TARGET}"))
                continue
            if DATABASE_FILE in files and STORE_FOLDERS[0] in folders:
                folders[:] = [name for name in folders if name not in (*STORE_FOLDERS, WORK_FOLDER)]
                discovery.skipped.append(RejectedFile(Path(parent), DATA_FOLDER))
            folders[:] = sorted(
                name
                for name in folders
                if not name.startswith(".") and Path(parent, name).resolve() not in self._excluded
            )
            if MANIFEST_FILE in files:
                self.own_results.add_folder(Path(parent))
            subfolder = "" if self._flat else PurePosixPath(prefix, Path(parent).relative_to(folder).as_posix())
            yield from ((Path(parent, name), str(subfolder)) for name in sorted(files) if not name.startswith("."))

    def _sort_in(
        self, file: Path, real: Path, subfolder: PurePosixPath, is_in_folder: bool, discovery: Discovery
    ) -> None:
        rejected = discovery.skipped if is_in_folder else discovery.failed
        try:
            status = file.stat()
            is_file = stat.S_ISREG(status.st_mode)  # reading a pipe could block forever
            of_earlier_run = self.own_results.reason(real, status.st_size) if is_file else None
            problem = of_earlier_run or self._problem(file, status.st_size, status.st_mtime_ns)
        except FileNotFoundError:
            discovery.failed.append(RejectedFile(file, "No such file or folder."))
        except OSError as error:
            discovery.failed.append(RejectedFile(file, f"It can't be read: {error.strerror}."))
        else:
            if of_earlier_run is not None:
                discovery.skipped.append(RejectedFile(file, of_earlier_run))
            elif problem is not None:
                rejected.append(RejectedFile(file, problem))
            else:
                discovery.pictures.append(Picture(file, subfolder, status.st_size, status.st_mtime_ns))

    def _problem(self, file: Path, size_bytes: int, modified_ns: int) -> str | None:
        key = (file, size_bytes, modified_ns)
        if key not in self._problems:
            if len(self._problems) >= MAX_KNOWN_FILES:
                self._problems.clear()
            self._problems[key] = _find_problem(file, self._accepted)
        return self._problems[key]


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a parent folder can't be read: `find` reports it when it reads the file
        return False


def _find_problem(file: Path, accepted: Sequence[Format]) -> str | None:
    """Why `file` can't be processed; None if its first bytes are those of a supported picture. Raises: OSError."""
    if not file.is_file():
        # reading a pipe or a device could block forever
        return "It is neither a file nor a folder."
    with file.open("rb") as stream:
        if not stream.read(1):
            return "The file is empty."
    try:
        with opened(file) as data:
            detect(data, accepted)
    except UnsupportedImage as error:
        return error.message
    return None
