"""Writes alt texts into a copy of a result, in a worker process."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from msgspec import Struct

from imgproc_local.domain.errors import StageFailed
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.result import Translation
from imgproc_local.domain.stop import CheckStop
from imgproc_local.engine.stage import CancellationToken, Output
from imgproc_local.engine.workers import Workers


class TextsWork(Struct, frozen=True):
    """A picture and its texts. The path is given as bytes, because the name of a folder need not be valid UTF-8.

    With `overwrite`, texts that are already in the picture are replaced.
    """

    path: bytes
    format: Format
    translations: tuple[Translation, ...]
    overwrite: bool = False


def with_texts(work: TextsWork, check_stop: CheckStop) -> Output:
    """The picture with its texts as XMP. Runs in a worker."""
    from imgproc_local.codecs.alt_texts import texts_to_write, write_alt_texts

    path = Path(os.fsdecode(work.path))
    data = write_alt_texts(path, _info(work), texts_to_write(work.translations), check_stop, overwrite=work.overwrite)
    return Output(data=data, format=work.format)


def write_texts(workers: Workers, timeout_s: float, work: TextsWork, cancelled: threading.Event) -> Path:
    """A temporary file with the picture of `work` and its texts, which the caller deletes.

    Raises: StageFailed, BadImage, StorageFailed, WorkerError; StageCancelled, soon after `cancelled` is set.
    """
    token = CancellationToken(timeout_s)

    def check_stop() -> None:
        if cancelled.is_set():
            token.cancel()
        token.check()

    output = workers.run(with_texts, work, _info(work), check_stop)
    if output.path is None:
        raise StageFailed("The worker process returned no file.")
    return Path(output.path)


def _info(work: TextsWork) -> ImageInfo:
    """An `ImageInfo` of 0 × 0 pixels, so that the worker gets the lowest memory limit: it decodes no pixels."""
    return ImageInfo(work.format, 0, 0)
