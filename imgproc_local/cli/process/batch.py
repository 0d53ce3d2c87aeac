"""Processes pictures, several at a time, and writes their results.

Pictures are worked on at the same time and end in any order. Their results get names in the order of the pictures, so
that names and manifest do not depend on timing.
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from imgproc_local.batch.files import LocalFile, result_files, texts_of
from imgproc_local.cli.output import duration_text, path_text, size_text
from imgproc_local.cli.process.discovery import Picture
from imgproc_local.cli.process.output_folder import PART_PREFIX, PART_SUFFIX
from imgproc_local.cli.process.publishing import Finished, Outcome, Publisher
from imgproc_local.cli.progress import RunProgress
from imgproc_local.codecs.picture.formats import head_of, max_local_bytes
from imgproc_local.compose import compression_service, core_count, open_stages
from imgproc_local.config import Config
from imgproc_local.domain.errors import ServiceError, StorageFailed, UploadTooLarge
from imgproc_local.domain.job import StageName
from imgproc_local.engine.direct import DirectStages, run_stages
from imgproc_local.engine.reading import ReadPicture
from imgproc_local.storage.blobs import hash_file
from imgproc_local.system.files import is_disk_full

log = logging.getLogger(__name__)

PICTURES_BESIDE = 2
"""How many more pictures than threads of the codecs are in progress, so that these have work while one picture is
described, and one is read or written."""
MAX_UNNAMED = 512
"""How many pictures may be in progress, or wait for the name of an earlier one. It bounds the files without a name in
the output folder."""
POLL_S = 0.1
"""How soon Ctrl+C is noticed."""
STOP_GRACE_S = 5.0
"""How long to wait for stages that were cancelled."""
INTERRUPTED = "Interrupted."


class Batch:
    """Processes pictures; `open_batch` makes one.

    `stop_reason` says why no more pictures are started; None while they are. `has_unstopped_threads` says that a stage
    did not end when it was cancelled.
    """

    def __init__(self, config: Config, publisher: Publisher, direct: DirectStages, folder: Path, at_once: int) -> None:
        """`folder` is for temporary files; `at_once` is how many pictures may be in progress."""
        self._config = config
        self._publisher = publisher
        self._direct = direct
        self._folder = folder
        self._at_once = at_once
        self._threads = ThreadPoolExecutor(at_once, "imgproc-picture")
        self.progress = RunProgress(sys.stderr)
        self.stop_reason: str | None = None
        self.has_unstopped_threads = False
        self._interrupts = 0
        self._begun_s = time.monotonic()
        self._expected = self._finished = self._saved_bytes = 0

    # ---- the run ----

    def run(self, pictures: Sequence[Picture], on_outcome: Callable[[Outcome], None]) -> None:
        """Process `pictures`. `on_outcome` is called for each that was started, in their order."""
        self._expected += len(pictures)
        remaining = iter(pictures)
        waiting: deque[Future[Finished]] = deque()
        while True:
            running = [future for future in waiting if not future.done()]
            self._heed_interrupts()
            while len(running) < self._at_once and len(waiting) < MAX_UNNAMED and self.stop_reason is None:
                if (picture := next(remaining, None)) is None:
                    break
                running.append(self._threads.submit(self._processed, picture))
                waiting.append(running[-1])
            if is_cancelled := self._direct.cancelled.is_set():
                wait(running, STOP_GRACE_S)
            else:
                wait(running, POLL_S, FIRST_COMPLETED)
            while waiting and waiting[0].done():
                on_outcome(self._outcome(waiting.popleft().result()))
            if is_cancelled or not running:
                self.has_unstopped_threads = bool(waiting)
                return

    def pause(self, duration_s: float) -> None:
        """Return after `duration_s`, or when no more pictures are started."""
        end_s = time.monotonic() + duration_s
        while self.stop_reason is None and (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(POLL_S, left_s))
            self._heed_interrupts()

    def cancel(self) -> None:
        """Cancel what runs and what waits, without waiting for it."""
        self._direct.cancelled.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Inside the block, the first Ctrl+C finishes the pictures in progress; the second cancels their stages.

        The third is handled as before the block. SIGTERM counts as Ctrl+C.
        """
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        if before[signal.SIGINT] is signal.SIG_IGN:
            del before[signal.SIGINT]  # shells start background jobs like this, so that Ctrl+C does not end them

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)

        def handle(*_: object) -> None:
            # only counted: the main thread may be interrupted while it holds the lock of what this would call
            self._interrupts += 1
            if self._interrupts > 1:
                restore()

        for number in before:
            signal.signal(number, handle)
        try:
            yield
        finally:
            restore()

    def _heed_interrupts(self) -> None:
        if self._interrupts > 1:
            self._stop(INTERRUPTED)
        elif self._interrupts and self.stop_reason is None:
            self.stop_reason = INTERRUPTED
            if self._finished < self._expected:
                self.progress.print("Finishing the pictures in progress. Press Ctrl+C again to stop at once.")

    def _stop(self, reason: str) -> None:
        """Start no more pictures, and cancel the stages of those in progress."""
        self.stop_reason = self.stop_reason or reason
        self._direct.cancelled.set()

    # ---- one picture, on a thread of its own ----

    def _processed(self, picture: Picture) -> Finished:
        """Run the stages of a picture, and copy the results to temporary files in the output folder."""
        try:
            sha256 = hash_file(picture.path)
            read = self._read(picture)
        except StorageFailed as error:
            self._stop(error.message)
            return Finished(picture)
        except ServiceError as error:
            return Finished(picture, errors=((None, error.message),))
        except OSError as error:
            return Finished(picture, errors=((None, f"It can't be read: {error.strerror}."),))
        try:
            return self._made(picture, sha256, read)
        except StorageFailed as error:
            self._stop(error.message)
        except OSError as error:
            if not picture.path.exists():
                return Finished(picture, errors=((None, "It was removed while it was processed."),))
            self._stop(_write_problem(error))
        return Finished(picture)

    def _read(self, picture: Picture) -> ReadPicture:
        """What the picture says. Raises: ServiceError, OSError."""
        maximum = max_local_bytes(head_of(picture.path), self._config.max_upload_bytes)
        if picture.size_bytes > maximum:
            raise UploadTooLarge(
                f"Expected at most {maximum:,} bytes (setting max_upload_bytes), but the file has more."
            )
        read = self._direct.reader.read(picture.path, self._publisher.request.accepted)
        if read.info.pages > 1:
            log.warning("%s: only the first of its %d pages is processed.", path_text(picture.path), read.info.pages)
        return read

    def _made(self, picture: Picture, sha256: str, read: ReadPicture) -> Finished:
        """The picture with its results. Raises: StorageFailed, OSError; then no file is left in the output folder."""
        request, original = self._publisher.request, picture.path.absolute()
        results = [
            result
            for plan in request.plans
            for result in run_stages(self._direct, plan, original, picture.path.name, read, tuple(StageName))
        ]
        staged: list[LocalFile] = []
        with TemporaryDirectory(dir=self._folder) as folder:
            made, problems = result_files(
                self._direct, request, picture.path, original, read.info.format, results, Path(folder)
            )
            try:
                for file in made:
                    staged.append(self._publisher.folder.stage(file))
            except OSError:
                _delete(staged)
                raise
        failed = [(result.stage.value, result.error) for result in results if result.output is None]
        removed = {kind for result in results if result.output is not None for kind in result.output.removed}
        errors = (*failed, *((None, problem) for problem in problems))
        return Finished(picture, sha256, tuple(staged), texts_of(results), tuple(sorted(removed)), errors)

    # ---- in the order of the pictures ----

    def _outcome(self, finished: Finished) -> Outcome:
        """Publish the results. They are discarded after a stop: the names of a picture depend on all before it."""
        path = finished.picture.path
        outcome = None
        if not self._direct.cancelled.is_set():
            try:
                published = bool(finished.sha256)
                outcome = self._publisher.publish(finished) if published else Outcome(path, errors=finished.errors)
            except OSError as error:
                self._stop(_write_problem(error))
        if outcome is None:
            _delete(finished.files)
            return Outcome(path, errors=((None, self.stop_reason or INTERRUPTED),), interrupted=True)
        self._finished += 1
        if outcome.new is not None and outcome.new.optimized is not None:
            self._saved_bytes += finished.picture.size_bytes - outcome.new.optimized.size_bytes
        if self._finished < self._expected:
            self.progress.update(self._progress_text())
        return outcome

    def _progress_text(self) -> str:
        left_s = (time.monotonic() - self._begun_s) / self._finished * (self._expected - self._finished)
        saved = size_text(max(0, self._saved_bytes))
        return f"{self._finished:,} of {self._expected:,} pictures, {saved} saved, about {duration_text(left_s)} left."


@contextmanager
def open_batch(config: Config, publisher: Publisher) -> Iterator[Batch]:
    """A batch with worker processes of its own, which end with the block. Raises: SettingInvalid."""
    at_once = config.codec_threads or core_count()
    service = compression_service(config)
    out = publisher.folder.path.absolute()  # workers have another working directory
    with (
        # in the output folder, where the next run deletes it after a kill; a thread that did not stop may still write
        TemporaryDirectory(PART_SUFFIX, PART_PREFIX, out, ignore_cleanup_errors=True) as folder,
        open_stages(config, Path(folder), at_once=at_once, service=service) as direct,
    ):
        batch = Batch(config, publisher, direct, Path(folder), at_once + PICTURES_BESIDE)
        try:
            with batch.progress.shown(), batch.interruptible():
                yield batch
        finally:
            batch.cancel()


def _delete(files: Iterable[LocalFile]) -> None:
    for file in files:
        file.path.unlink(missing_ok=True)


def _write_problem(error: OSError) -> str:
    if is_disk_full(error):
        return "The disk of the output folder is full."
    return f"The results can't be written to the output folder ({error.strerror or error})."
