"""A few pictures with their results as thumbnails, for the report.

They are the only pictures that the client reads. Each is opened in a sandboxed worker process of the engine, and its
thumbnail is made from the pixels alone, without metadata.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from imgproc_local.archive.row import Row
from imgproc_local.archive.store import Store
from imgproc_local.codecs.picture.probe import probe
from imgproc_local.codecs.thumbnail import ThumbnailSource, make_thumbnail
from imgproc_local.compose import codec_workers
from imgproc_local.config import Config
from imgproc_local.domain.errors import ServiceError
from imgproc_local.engine.stage import CancellationToken
from imgproc_local.engine.workers import WorkerError, Workers

TIMEOUT_S = 30.0
"""The longest that one thumbnail may take."""
MAX_THUMBNAIL_BYTES = 100_000
"""Five times the usual size; bounds the report."""


class Thumbnail(Struct, frozen=True):
    """A WebP file; without one, `problem` says why."""

    webp: bytes = b""
    problem: str = ""


class Sample(Struct, frozen=True):
    """A picture and one of its results: the converted file if there is one, else the optimized one."""

    row: Row
    before: Thumbnail
    after: Thumbnail


def make_samples(rows: Sequence[Row], source: Store, target: Store, config: Config) -> list[Sample]:
    """The thumbnails of pictures that have a result. A thumbnail that can't be made says why."""
    with tempfile.TemporaryDirectory(prefix="imgproc-archive-") as name:
        folder = Path(name)
        results = folder / "results"
        results.mkdir()
        workers = codec_workers(config, folder / "work", results)
        try:
            return [_sample(row, source, target, folder / "picture", workers, config.max_pixels) for row in rows]
        finally:
            workers.close()


def _sample(row: Row, source: Store, target: Store, file: Path, workers: Workers, max_pixels: int) -> Sample:
    result = row.converted or row.optimized
    assert result is not None
    before = _thumbnail(source, row.source, row.sha256, file, workers, max_pixels)
    return Sample(row, before, _thumbnail(target, result.path, result.sha256, file, workers, max_pixels))


def _thumbnail(store: Store, key: str, sha256: str, file: Path, workers: Workers, max_pixels: int) -> Thumbnail:
    try:
        if store.fetch(key, file) != sha256:
            return Thumbnail(problem="The file was changed since it was processed.")
        info = probe(file, max_pixels)
        check_stop = CancellationToken(TIMEOUT_S).check
        webp = workers.run(make_thumbnail, ThumbnailSource(os.fsencode(file), info), info, check_stop).webp
    except FileNotFoundError:
        return Thumbnail(problem="There is no file of this name any more.")
    except OSError as error:
        return Thumbnail(problem=f"The file can't be read: {error.strerror or error}.")
    except ServiceError as error:
        return Thumbnail(problem=error.message)
    except WorkerError:
        return Thumbnail(problem="No thumbnail could be made of it.")
    if len(webp) > MAX_THUMBNAIL_BYTES:
        return Thumbnail(problem=f"Its thumbnail has more than {MAX_THUMBNAIL_BYTES:,} bytes.")
    return Thumbnail(webp)
