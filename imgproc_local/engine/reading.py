"""Reads uploads in worker processes, before there is a job: what the header says, and the record of the metadata."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from imgproc_local.codecs.picture.formats import detect, head_of
from imgproc_local.domain.errors import (
    BrokenImage,
    CheckStop,
    ServiceStopping,
    StageCancelled,
    StageFailed,
    StorageFailed,
)
from imgproc_local.domain.image import Format, ImageInfo, KeepLocation
from imgproc_local.engine.stage import CancellationToken
from imgproc_local.engine.workers import Workers
from imgproc_local.system.threads import started_threads

AT_ONCE = 2
"""Uploads that are read at the same time, in addition to the stages: no lane limits them."""
TIMEOUT_S = 30.0


class FileToRead(Struct, frozen=True):
    """A file that begins like `format`. Its path is bytes, because the name of a folder need not be text."""

    path: bytes
    format: Format
    max_pixels: int
    keep_location: KeepLocation


class ReadPicture(Struct, frozen=True):
    """What is known of a picture file: the properties in its header, and its record as `codecs.metadata` packs it."""

    info: ImageInfo
    record: bytes


def read(file: FileToRead, check_stop: CheckStop) -> ReadPicture:
    """Read the file. Runs in a worker. Raises: BadImage, StageFailed."""
    from imgproc_local.codecs.metadata.record import packed
    from imgproc_local.codecs.picture.source import read_picture

    check_stop()
    picture = read_picture(Path(os.fsdecode(file.path)), file.format, file.max_pixels, file.keep_location)
    return ReadPicture(picture.info, packed(picture.record, file.keep_location))


class Reader:
    """Reads pictures of at most `max_pixels`, all frames together, whose place names may be as exact as
    `keep_location`. `read` may be called from several threads.
    """

    def __init__(self, workers: Workers, max_pixels: int, keep_location: KeepLocation) -> None:
        self._workers = workers
        self._max_pixels = max_pixels
        self._keep_location = keep_location
        self._executor = started_threads(AT_ONCE, "imgproc-reading")
        self._closed = threading.Event()

    def read(self, path: Path, accepted: Sequence[Format]) -> ReadPicture:
        """What the file says, if it is of a format in `accepted`.

        Raises: UnsupportedImage, BrokenImage, TooManyPixels; StorageFailed, also if no worker can be started;
            ServiceStopping.
        """
        try:
            file_format = detect(head_of(path), accepted)
        except OSError as error:
            raise StorageFailed(f"The picture can't be read from storage: {error.strerror}.") from error
        # workers run in another folder
        file = FileToRead(os.fsencode(path.absolute()), file_format, self._max_pixels, self._keep_location)
        try:
            # a header takes no memory for pixels
            no_pixels = ImageInfo(file_format, 0, 0)
            return self._workers.run(read, file, no_pixels, CancellationToken(TIMEOUT_S, self._closed).check)
        except StageCancelled:
            raise ServiceStopping from None
        except StageFailed as error:
            raise BrokenImage(error.message) from error

    async def read_upload(self, path: Path, accepted: Sequence[Format]) -> ReadPicture:
        """As `read`, on one of `AT_ONCE` threads."""
        if self._closed.is_set():  # the executor accepts no more work
            raise ServiceStopping
        return await asyncio.get_running_loop().run_in_executor(self._executor, self.read, path, accepted)

    def close(self) -> None:
        """Read no more pictures; requests for it raise ServiceStopping."""
        self._closed.set()
        self._executor.shutdown(wait=False)
