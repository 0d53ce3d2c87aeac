"""Copies the GGUF files of an import into a staging folder, from files, folders and tar archives (also .tar.gz).

A file that the user names may have any name: its first bytes tell its type. In a folder or an archive, only
`MANIFEST_FILE` and names that end in .gguf are read. Each file is hashed while it is copied; members of an archive are
copied one by one, never extracted to paths that the archive names.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.models.catalogue import ImageTokens
from imgproc_local.vision.models.files import CHUNK_BYTES, Progress, require_free_space, translate_disk_errors
from imgproc_local.vision.models.gguf import MAGIC, read_header
from imgproc_local.vision.models.manifest import MANIFEST_FILE, Manifest, ModelFile

MAX_MANIFEST_BYTES = 65_536
MAX_TAR_MEMBERS = 1000
MAX_TAR_READ_BYTES = 4 * CHUNK_BYTES
"""Limit for a single read from an archive: an extended header of a hostile archive may declare a size of gigabytes."""
GZIP_MAGIC = b"\x1f\x8b"
TAR_MAGIC, TAR_MAGIC_OFFSET = b"ustar", 257


class StagedFile(Struct, frozen=True):
    """A copied or downloaded GGUF file at `path`. `original` has the name that it had before."""

    path: Path
    original: ModelFile


class Staging:
    """Copies the GGUF files of an import into the folder `target`, and reads its manifest if it has one.

    `files` are the copies, in the order in which they were made.
    """

    def __init__(self, target: Path, progress: Progress) -> None:
        self.files: list[StagedFile] = []
        self.manifest: Manifest | None = None
        self._target = target
        self._progress = progress

    def add(self, sources: Sequence[Path]) -> None:
        """Copy the GGUF files in `sources` and read the manifest. Raises: ModelUnusable, StorageFailed."""
        for source in sources:
            if source.is_dir():
                self._add_folder(source)
            else:
                self._add_file(source)

    def _add_folder(self, folder: Path) -> None:
        with _translate_read_errors(folder.name):
            paths = sorted(path for path in folder.iterdir() if path.is_file() and not _is_apple_double(path.name))
        for path in paths:
            if path.suffix.lower() == ".gguf" or path.name == MANIFEST_FILE:
                self._add_file(path)

    def _add_file(self, path: Path) -> None:
        if path.exists() and not path.is_file():
            raise ModelUnusable(f"{path.name} is not a regular file.")
        with _translate_read_errors(path.name), path.open("rb") as file:
            start = file.read(TAR_MAGIC_OFFSET + len(TAR_MAGIC))
            file.seek(0)
            if start.startswith(MAGIC):
                read_header(path)  # so that a damaged file is rejected before it is copied, which takes long
                self._copy(file, os.fstat(file.fileno()).st_size, path.name)
            elif path.name == MANIFEST_FILE:
                self._read_manifest(file)
            elif start.startswith(GZIP_MAGIC):
                with gzip.open(file) as unzipped:
                    self._add_tar(path.name, _BoundedReader(unzipped))
            elif start[TAR_MAGIC_OFFSET:] == TAR_MAGIC:
                self._add_tar(path.name, _BoundedReader(file))
            else:
                raise ModelUnusable(f"{path.name} is neither a GGUF file nor a tar archive of GGUF files.")

    def _add_tar(self, name: str, file: Any) -> None:
        with tarfile.open(fileobj=file, mode="r:") as tar:
            for number, member in enumerate(tar):
                path = PurePosixPath(member.name.replace("\\", "/"))
                if number >= MAX_TAR_MEMBERS:
                    raise ModelUnusable(f"{name} contains more than {MAX_TAR_MEMBERS} files.")
                if path.is_absolute() or ".." in path.parts or not (member.isreg() or member.isdir()):
                    raise ModelUnusable(
                        f"{name} contains {member.name!r}, which is a link, a device or a path outside the archive."
                    )
                content = tar.extractfile(member) if member.isreg() else None
                if content is None or _is_apple_double(path.name):
                    continue
                if path.suffix.lower() == ".gguf":
                    self._copy(content, member.size, path.name)
                elif path.name == MANIFEST_FILE:
                    self._read_manifest(content)

    def _read_manifest(self, file: IO[bytes]) -> None:
        try:
            self.manifest = msgspec.json.decode(file.read(MAX_MANIFEST_BYTES), type=Manifest)
            msgspec.convert(self.manifest.chat.image_tokens, ImageTokens)  # only to check its range
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise ModelUnusable(f"The {MANIFEST_FILE} of the model can't be used: {error}.") from error

    def _copy(self, source: IO[bytes], size_bytes: int, name: str) -> None:
        """Copy a GGUF file whose original name is `name`. Raises: ModelUnusable, StorageFailed."""
        if len(self.files) == 2:
            names = ", ".join([*(file.original.file for file in self.files), name])
            raise ModelUnusable(
                "A vision model consists of two GGUF files, a text model and its vision encoder (mmproj);"
                f" more were given: {names}. Name the two that belong together."
            )
        folder = self._target.parent  # the models folder, which users know, for messages
        with translate_disk_errors(folder):
            require_free_space(self._target, size_bytes)
        path = self._target / f"source-{len(self.files)}.gguf"
        digest, remaining = hashlib.sha256(), size_bytes
        with translate_disk_errors(folder):
            out = path.open("xb")
        with out:
            while remaining:
                chunk = source.read(min(CHUNK_BYTES, remaining))
                if not chunk:
                    raise ModelUnusable(
                        f"{name} is truncated: {size_bytes - remaining:,} of {size_bytes:,} bytes could be read."
                    )
                with translate_disk_errors(folder):
                    out.write(chunk)
                digest.update(chunk)
                remaining -= len(chunk)
                self._progress(f"copying {name}", size_bytes - remaining, size_bytes)
            with translate_disk_errors(folder):
                out.flush()
                os.fsync(out.fileno())
        self.files.append(StagedFile(path, ModelFile(name, size_bytes, digest.hexdigest())))


class _BoundedReader:
    """A file whose `read` raises tarfile.ReadError for more than `MAX_TAR_READ_BYTES` at a time."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAX_TAR_READ_BYTES:
            raise tarfile.ReadError("one of its headers is too large")
        return self._file.read(size)


def _is_apple_double(name: str) -> bool:
    """Whether it is the name of an AppleDouble file, in which macOS stores attributes of a file on foreign drives."""
    return name.startswith("._")


@contextmanager
def _translate_read_errors(name: str) -> Iterator[None]:
    """Raises: ModelUnusable, for any error in reading a file or an archive inside the block."""
    try:
        yield
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ModelUnusable(f"{name} is damaged or truncated: {error}.") from error
    except OSError as error:
        raise ModelUnusable(f"{name} can't be read ({error.strerror}).") from error
