"""Writes results to the user's folder. Invariant: no file of the user is overwritten, and no file is partly written.

A result is first written under a hidden temporary name and fsynced (`stage`). Later it gets its name in one step, which
fails if the name is taken (`publish`).
"""

from __future__ import annotations

import hashlib
import itertools
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct

from imgproc_local.batch.files import ResultFile
from imgproc_local.domain.image import Format
from imgproc_local.domain.slug import numbered
from imgproc_local.storage.blobs import hash_file
from imgproc_local.system.files import path_inside, rename_to_new

PART_PREFIX, PART_SUFFIX = ".imgproc-local-", ".part"
COPY_BYTES = 1024 * 1024


class StagedFile(Struct, frozen=True):
    """A result in the temporary file `part`. Its name will end with `ending`, such as `.webp` or `-converted.webp`."""

    part: Path
    ending: str
    sha256: str
    size_bytes: int
    format: Format | None = None


class Names:
    """The names that are taken in the whole output folder: those of texts per language, and those of files.

    They have no extension. `FILES` stands in place of a language for the names of files.
    """

    FILES = ""

    def __init__(self) -> None:
        self._taken: dict[str, set[str]] = {}

    def take(self, language_code: str, name: str) -> None:
        self._taken.setdefault(language_code, set()).add(name)

    def release(self, language_code: str, name: str) -> None:
        self._taken.setdefault(language_code, set()).discard(name)

    def free(self, base: str, *language_codes: str) -> Iterator[str]:
        """`base`, `base-2`, `base-3` … without the names that are taken in any of the languages."""
        taken = [self._taken.setdefault(code, set()) for code in language_codes]
        for name in itertools.chain((base,), (numbered(base, number) for number in itertools.count(2))):
            if not any(name in names for names in taken):
                yield name


class Results:
    """Writes files to `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def create_folder(self) -> None:
        """Create the folder if needed, and check that it can be written. Raises: OSError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self._folder):
            pass

    def delete_leftovers(self) -> None:
        """Delete the temporary files that a killed run left. Raises: OSError."""
        for part in self._folder.glob(f"{PART_PREFIX}*{PART_SUFFIX}"):
            part.unlink(missing_ok=True)

    def new_part(self) -> Path:
        """The path of a temporary file that does not exist yet, on the file system of the results."""
        return self._folder / f"{PART_PREFIX}{secrets.token_hex(8)}{PART_SUFFIX}"

    def stage(self, chunks: Iterable[bytes], ending: str, file_format: Format | None = None) -> StagedFile:
        """Write a result, without its name yet. Blocks. Raises: OSError; then no file is left behind."""
        part = self.new_part()
        digest = hashlib.sha256()
        size_bytes = 0
        try:
            with part.open("xb") as file:
                for chunk in chunks:
                    file.write(chunk)
                    digest.update(chunk)
                    size_bytes += len(chunk)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return StagedFile(part, ending, digest.hexdigest(), size_bytes, file_format)

    def is_free(self, subfolder: PurePosixPath, name: str, endings: Iterable[str]) -> bool:
        """Whether `subfolder` of the output folder has no file of this name with one of the endings."""
        folder = self._folder / subfolder
        return not any(os.path.lexists(folder / f"{name}{ending}") for ending in endings)

    def are_present(self, files: Iterable[ResultFile]) -> bool:
        """Whether the files exist and are not empty. Their content may have been changed by the user."""
        try:
            return all((self._folder / file.path).stat().st_size > 0 for file in files)
        except OSError:
            return False

    def existing(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Those of the paths below the output folder at which there is a file."""
        return tuple(path for path in paths if os.path.lexists(self._folder / path))

    def remove_own(self, files: Iterable[ResultFile]) -> None:
        """Delete those of the files that still have the content that this program wrote. Blocks. Raises: OSError.

        An empty file is deleted too: where there are no hard links, a killed run can leave one.
        """
        for file in files:
            path = path_inside(self._folder, file.path)
            try:
                size_bytes = path.stat().st_size
                if size_bytes == 0 or (size_bytes == file.size_bytes and hash_file(path) == file.sha256):
                    path.unlink()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                continue

    def publish(self, files: Sequence[tuple[StagedFile, str]]) -> bool:
        """Give each staged file its path below the output folder.

        Returns False, with no file changed, if one of the paths exists. Blocks. Raises: OSError, with no file changed.
        """
        targets = [(staged.part, path_inside(self._folder, path)) for staged, path in files]
        for _, target in targets:
            target.parent.mkdir(parents=True, exist_ok=True)
        return _publish_all(targets)


def read_chunks(file: Path) -> Iterator[bytes]:
    """The content of a file in pieces. Raises: OSError."""
    with file.open("rb") as stream:
        while chunk := stream.read(COPY_BYTES):
            yield chunk


def _publish_all(targets: Sequence[tuple[Path, Path]]) -> bool:
    """Rename every part to its target. Returns False, with no part renamed, if one of the targets exists."""
    done: list[tuple[Path, Path]] = []
    try:
        if any(os.path.lexists(target) for _, target in targets):
            return False
        for part, target in targets:
            rename_to_new(part, target)
            done.append((part, target))
    except BaseException as error:
        for part, target in done:
            # renaming between two hard links of one file does nothing, so the second link is removed instead
            target.unlink() if part.exists() else target.replace(part)
        if isinstance(error, FileExistsError):
            return False
        raise
    for part, _ in done:
        part.unlink(missing_ok=True)
    return True
