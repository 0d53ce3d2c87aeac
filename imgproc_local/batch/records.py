"""The manifest of `process` in its output folder, with one line per picture, and what marks a target of `archive`.

Both commands look for both, so that neither takes the results of the other for pictures.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from imgproc_local.batch.files import ResultFile
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import Translation
from imgproc_local.system.files import open_own_file

MANIFEST_FILE = ".imgproc-local.manifest.jsonl"
"""The manifest of `process`, in its output folder. `Record` is one line of it, after `HEADER`."""
HEADER = b'{"format":"imgproc-local manifest","version":1}'
MAX_LINE_BYTES = 256 * 1024
"""The longest record. One with ten translations takes a tenth of this, even in the script that needs the most bytes."""
MAX_MANIFEST_BYTES = 1024 * 1024 * 1024
"""The largest manifest that is read or written: enough for half a million pictures."""
STATE_FOLDER = ".imgproc-local-archive"
"""The folder with the manifest of `archive`, in the root of its target. It is hidden, so that no command searches it
for pictures. All other files of the target are results.
"""


class Record(Struct, frozen=True):
    """The result of one picture.

    `source` is the picture's path relative to the output folder (`cli.process.manifest.source_key`); `size_bytes`,
    `modified_ns` and `sha256` are those of the content that was processed. `options` is the `options_hash` of the
    `BatchRequest`. `removed` are the kinds of private data that the original holds and a result does not. `edited` are
    the paths of earlier results that the user had edited, so that they remained when others took their place. An error
    is a pair of the failed stage, or None, and a message; the next run processes a picture with an error again.
    """

    source: str
    size_bytes: int
    modified_ns: int
    sha256: str
    options: str
    optimized: ResultFile | None = None
    converted: ResultFile | None = None
    sidecar: ResultFile | None = None
    translations: tuple[Translation, ...] = ()
    removed: tuple[Removed, ...] = ()
    edited: tuple[str, ...] = ()
    errors: tuple[tuple[str | None, str], ...] = ()

    @property
    def files(self) -> tuple[ResultFile, ...]:
        return tuple(file for file in (self.optimized, self.converted, self.sidecar) if file is not None)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all files of this picture in the output folder, also of edited ones."""
        return (*(file.path for file in self.files), *self.edited)

    @property
    def needs_text(self) -> bool:
        """Whether a person has to write any of the alt texts."""
        return any(text.needs_text for text in self.translations)


_decode = msgspec.json.Decoder(Record).decode


def stored_records(folder: Path) -> Iterator[Record | None]:
    """The records of an output folder, in the order of its manifest; None for a line that can't be read.

    There are none without a manifest. Memory is bounded by a line. Raises: OSError, also for a manifest of more than
    `MAX_MANIFEST_BYTES`.
    """
    try:
        manifest = open_own_file(folder / MANIFEST_FILE, max_bytes=MAX_MANIFEST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return
    with manifest:
        while line := manifest.readline(MAX_LINE_BYTES):
            if line.rstrip() == HEADER:
                continue
            try:
                record = _decode(line) if line.endswith(b"\n") else None
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                record = None
            yield record if record is not None and all(_is_inside(path) for path in record.paths) else None


def _is_inside(path: str) -> bool:
    """Whether a path of a record stays in the output folder. The folder may come from somebody else."""
    return ".." not in Path(path).parts and not Path(path).anchor and "\0" not in path


def archive_target_above(folder: Path) -> Path | None:
    """The target of an earlier `archive` that is this folder or contains it; None if there is none."""
    real = Path(os.path.realpath(folder))
    return next((each for each in (real, *real.parents) if is_folder(each / STATE_FOLDER)), None)


def is_folder(path: Path) -> bool:
    """Whether there is a folder; not if a folder above it can't be searched."""
    try:
        return path.is_dir()
    except OSError:
        return False
