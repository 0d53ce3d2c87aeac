"""What the report says about all pictures of an archive, collected row by row in bounded memory, and its samples.

The samples are the only pictures that the client reads. Each is opened in a sandboxed worker process of the engine, and
its thumbnail is made from the pixels alone, without metadata.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from imgproc_local.archive.manifest import Row
from imgproc_local.archive.stores import Store
from imgproc_local.codecs.picture.probe import probe
from imgproc_local.codecs.thumbnail import ThumbnailSource, make_thumbnail
from imgproc_local.compose import codec_workers
from imgproc_local.config import Config
from imgproc_local.domain.errors import ServiceError
from imgproc_local.engine.stage import CancellationToken
from imgproc_local.engine.workers import WorkerError, Workers

MAX_LISTED = 100
"""The most failed pictures, and the most pictures in need of a text, that the report lists. The tables have all."""
MAX_SAMPLES = 6
MAX_SAMPLE_SOURCE_BYTES = 64 * 1024 * 1024
"""Larger originals are not used as samples, because the client has to copy a sample from the source."""
MAX_MESSAGE_CHARS = 500


class LastRun(Struct, frozen=True):
    """The run that writes the report. `processed` counts the objects that it has processed.

    `is_complete` says that it has seen the whole source. `model` is the identity of the vision model, "" if the texts
    are made without one; `unused_model` is one that the client has, but no worker. `makes_texts` is False if the run
    was asked for files only.
    """

    ended_at: datetime
    duration_s: float
    processed: int
    is_complete: bool
    model: str
    unused_model: str
    makes_texts: bool


class Sizes(Struct):
    """The bytes of some originals and of their results."""

    pictures: int = 0
    before_bytes: int = 0
    after_bytes: int = 0

    def add(self, before_bytes: int, after_bytes: int) -> None:
        self.pictures += 1
        self.before_bytes += before_bytes
        self.after_bytes += after_bytes


class Summary(Struct):
    """The sums over all rows, and a bounded number of rows of each kind, in the order in which they are added.

    `options` is the `options_hash` of the last run. `other_options` counts the pictures that an earlier run has
    processed with other options. `optimized` and `converted` are by format of the original and of the result. `texts`
    counts the texts by language and `TextSource`. `samples` are the rows with results whose keys have the lowest
    SHA-256: a random choice that is the same in every run.
    """

    options: str
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    needing_text: int = 0
    other_options: int = 0
    optimized: dict[tuple[str, str], Sizes] = field(default_factory=dict)
    converted: dict[tuple[str, str], Sizes] = field(default_factory=dict)
    texts: Counter[tuple[str, str]] = field(default_factory=Counter)
    total_s: float = 0.0
    failed: list[Row] = field(default_factory=list)
    without_text: list[str] = field(default_factory=list)
    samples: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        self.outcomes[row.outcome] += 1
        if row.outcome == "skipped":
            return
        self.other_options += row.options != self.options
        self.total_s += row.total_s
        for sums, result in ((self.optimized, row.optimized), (self.converted, row.converted)):
            if result is not None:
                key = (row.format.value if row.format else "", result.format.value if result.format else "")
                sums.setdefault(key, Sizes()).add(row.size_bytes, result.size_bytes)
        self.texts.update((text.language_code, text.source.value) for text in row.translations)
        if row.needs_text:
            self.needing_text += 1
            if len(self.without_text) < MAX_LISTED:
                self.without_text.append(row.source)
        if row.outcome == "failed":
            self.failures[row.failure] += 1
            if len(self.failed) < MAX_LISTED:
                self.failed.append(row)
        elif row.size_bytes <= MAX_SAMPLE_SOURCE_BYTES and (row.optimized or row.converted):
            self.samples = heapq.nsmallest(MAX_SAMPLES, [*self.samples, row], key=_digest)


def _digest(row: Row) -> bytes:
    return hashlib.sha256(row.source.encode()).digest()


# ---- samples ----

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
        results = Path(name, "results")
        results.mkdir()
        workers = codec_workers(config, Path(name, "work"), results)
        thumbnail = partial(_thumbnail, Path(name, "picture"), workers, config.max_pixels)
        try:
            shown = ((row, row.converted or row.optimized) for row in rows)
            return [
                Sample(row, thumbnail(source, row.source, row.sha256), thumbnail(target, result.path, result.sha256))
                for row, result in shown
                if result is not None
            ]
        finally:
            workers.close()


def _thumbnail(file: Path, workers: Workers, max_pixels: int, store: Store, key: str, sha256: str) -> Thumbnail:
    try:
        if store.fetch(key, file) != sha256:
            return Thumbnail(problem="The file was changed since it was processed.")
        info = probe(file, max_pixels)
        check_stop = CancellationToken(TIMEOUT_S).check
        webp = workers.run(make_thumbnail, ThumbnailSource(os.fsencode(file), info), info, check_stop).webp
    except (OSError, ServiceError, WorkerError):
        return Thumbnail(problem="The file was deleted, or can't be read.")
    return Thumbnail(webp) if len(webp) <= MAX_THUMBNAIL_BYTES else Thumbnail(problem="It is too large.")
