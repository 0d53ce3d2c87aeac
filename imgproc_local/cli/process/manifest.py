"""The manifest of an output folder: one record per picture, from which the next run knows what is done.

The file has one JSON document per line. A record is appended and fsynced before its files get their names, so that
every file that a run has named has a record; a picture whose record names a missing file is processed again. Of several
records of one source the last one counts. `compact` rewrites the file with one record per source, sorted, so that a run
that was interrupted and continued ends with the same bytes as an undisturbed one. For the same reason, no record has
the time of a run or the identifier of a job.

A line that can't be read, such as a last line that a loss of power cut off, is ignored: its picture is processed again.
"""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import msgspec
from msgspec import structs

from imgproc_local.batch.records import HEADER, MANIFEST_FILE, Record, stored_records
from imgproc_local.cli.exit_codes import Refused
from imgproc_local.cli.output import path_text, printable
from imgproc_local.system.files import encodable_text, lock_within, open_own_file, write_atomically

log = logging.getLogger(__name__)

LOCK_FILE = ".imgproc-local.lock"
LOCK_WAIT_S = 1.0

_encode = msgspec.json.Encoder().encode


def source_key(picture: Path, out: Path) -> str:
    """The path of a picture relative to the output folder, so that both can be moved together.

    It is absolute if the picture is on another drive of Windows than the output folder.
    """
    real = Path(os.path.realpath(picture))
    try:
        relative = Path(os.path.relpath(real, os.path.realpath(out)))
    except ValueError:
        relative = real
    return encodable_text(relative.as_posix())


def read_manifest(folder: Path) -> dict[str, Record]:
    """The records of an output folder by source; empty without a manifest. Raises: as `stored_records`."""
    records: dict[str, Record] = {}
    unreadable = 0
    for record in stored_records(folder):
        if record is None:
            unreadable += 1
        else:
            records[record.source] = record
    if unreadable:
        file = printable(path_text(folder / MANIFEST_FILE))
        log.warning("%d lines of %s can't be read; their pictures are processed again.", unreadable, file)
    return records


class Manifest:
    """The manifest of `folder`, for one run at a time. `records` has the current record of each source.

    Opening it creates the folder if needed, and rewrites the file as `compact` does.

    Raises: Refused, if another run is writing to the folder; OSError.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / MANIFEST_FILE
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened:
            self._lock: IO[bytes] = opened.enter_context(open_own_file(folder / LOCK_FILE, "ab"))
            if not lock_within(self._lock, LOCK_WAIT_S):
                raise Refused(
                    f"Another `imgproc-local process` is writing to {printable(path_text(folder))}. Wait for it, or"
                    " choose another folder with --out."
                )
            # before it is read, because this refuses what is no regular file
            self._stream: IO[bytes] = opened.enter_context(open_own_file(self._file, "ab", buffering=0))
            self.records = read_manifest(folder)
            self.compact()
            opened.pop_all()

    def append(self, record: Record) -> None:
        """Append `record` to the file and sync it to the disk. Blocks. Raises: OSError.

        A text that a person has to write is stored empty: its placeholder is only for the output of this run.
        """
        texts = tuple(
            structs.replace(text, seo_alt_text="") if text.needs_text else text for text in record.translations
        )
        record = structs.replace(record, translations=texts)
        view = memoryview(_encode(record) + b"\n")
        while view:
            view = view[self._stream.write(view) :]
        os.fsync(self._stream.fileno())
        self.records[record.source] = record

    def compact(self) -> None:
        """Rewrite the file with one record per source, sorted. Blocks. Raises: OSError, with the file unchanged."""
        self._stream.close()
        lines = [HEADER, *(_encode(self.records[source]) for source in sorted(self.records)), b""]
        try:
            write_atomically(self._file, b"\n".join(lines))
        finally:
            self._stream = open_own_file(self._file, "ab", buffering=0)

    def close(self) -> None:
        """Compact the file, and let another run write to the folder. Blocks."""
        try:
            self.compact()
        except OSError as error:
            log.warning("The manifest could not be compacted (%s); the next run does it.", error.strerror)
        self._stream.close()
        self._lock.close()
