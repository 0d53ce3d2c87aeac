"""Writes the alt texts into the results of `process`, in a worker process."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from imgproc_local.cli.process.results import Results, StagedFile, read_chunks
from imgproc_local.compose import codec_workers
from imgproc_local.config import Config
from imgproc_local.domain.result import Translation
from imgproc_local.engine.results import TextsWork, write_texts
from imgproc_local.engine.workers import Workers


class TextWriter:
    """Writes texts into staged files. With `overwrite`, texts that the pictures already have are replaced."""

    def __init__(self, workers: Workers, results: Results, timeout_s: float, *, overwrite: bool) -> None:
        self._workers = workers
        self._results = results
        self._timeout_s = timeout_s
        self._overwrite = overwrite

    async def write(self, staged: StagedFile, texts: Sequence[Translation]) -> StagedFile:
        """A new staged file with the texts, in place of `staged`. Raises: ServiceError or OSError; `staged` remains."""
        return await asyncio.to_thread(self._write, staged, texts)

    def _write(self, staged: StagedFile, texts: Sequence[Translation]) -> StagedFile:
        assert staged.format is not None
        work = TextsWork(os.fsencode(staged.part.resolve()), staged.format, tuple(texts), self._overwrite)
        written = write_texts(self._workers, self._timeout_s, work, cancelled=threading.Event())
        try:
            result = self._results.stage(read_chunks(written), staged.ending, staged.format)
        finally:
            written.unlink(missing_ok=True)
        staged.part.unlink(missing_ok=True)
        return result


@contextmanager
def text_writer(config: Config, results: Results, *, overwrite: bool) -> Iterator[TextWriter]:
    """A writer with worker processes of its own, which end with the block."""
    with tempfile.TemporaryDirectory(prefix="imgproc-local-") as folder:
        files = Path(folder, "files")
        files.mkdir()
        workers = codec_workers(config, Path(folder, "work"), files)
        try:
            yield TextWriter(workers, results, config.stage_timeout_s, overwrite=overwrite)
        finally:
            workers.close()
