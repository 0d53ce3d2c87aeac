"""One run of `process`: finds the pictures, leaves out those that are unchanged, processes the others, and watches.

Pictures are worked on at the same time and end in any order. Their results get names in the order of the pictures, so
that names and manifest do not depend on timing.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct, structs

from imgproc_local.batch import BatchRequest, Made, ManifestLine, make_results
from imgproc_local.cli.discovery import Finder, SourceFile, read_manifest
from imgproc_local.cli.output import (
    EXIT_INTERRUPTED,
    EXIT_PROBLEM,
    EXIT_REFUSED,
    Refused,
    RunProgress,
    duration_text,
    interruptible,
    path_text,
    printable,
    size_text,
)
from imgproc_local.cli.process.results_folder import (
    PART_PREFIX,
    PART_SUFFIX,
    Outcome,
    ResultsFolder,
    hidden_copy,
    is_unchanged,
    source_key,
)
from imgproc_local.codecs.picture.formats import head_of, max_local_bytes
from imgproc_local.compose import compression_service, core_count, open_stages
from imgproc_local.config import Config
from imgproc_local.domain.errors import ServiceError, StorageFailed, UploadTooLarge
from imgproc_local.domain.job import StageName
from imgproc_local.engine.pipeline import Pipeline, ReadPicture, run_stages
from imgproc_local.system.files import hash_file, is_disk_full

log = logging.getLogger(__name__)

_PICTURES_BESIDE = 2
"""How many more pictures than threads of the codecs are in progress, so that these have work while one picture is
described, and one is read or written."""
_MAX_UNNAMED = 512
"""How many pictures may be in progress, or wait for the name of an earlier one. It bounds the files without a name in
the output folder."""
_POLL_S = 0.1
"""How soon Ctrl+C is noticed."""
_STOP_GRACE_S = 5.0
"""How long to wait for stages that were cancelled."""
_SETTLED_S = 2.0
"""A watched file that has not changed for this time is complete. It is also the shortest pause between two searches."""
_INTERRUPTED = "Interrupted."


class Run:
    """One invocation of the command: the pictures that it found and, after `process`, its results.

    `stop_reason` says why the run ended before it had processed every picture. `has_unstopped_threads` says that a
    stage did not end when it was cancelled.
    """

    def __init__(
        self, config: Config, request: BatchRequest, paths: Sequence[Path], out: Path, *, flat: bool, watch: bool
    ) -> None:
        self._config = config
        self._request = request
        self._paths = paths
        self._out = out
        self._watches = watch
        self._finder = Finder(paths, out, (config.data_dir,), flat=flat, accepted=request.accepted)
        self.discovery = self._finder.find()
        self.outcomes: list[Outcome] = []
        self.stop_reason: str | None = None
        self.has_unstopped_threads = False

    def plan(self) -> tuple[list[SourceFile], list[Outcome]]:
        """The pictures to process, and the outcomes of those that are unchanged. Raises: as `read_manifest`."""
        return self._divide(read_manifest(self._out))

    def _divide(self, records: dict[str, ManifestLine]) -> tuple[list[SourceFile], list[Outcome]]:
        pending: list[SourceFile] = []
        unchanged: list[Outcome] = []
        for picture in self.discovery.pictures:
            record = records.get(source_key(picture.path, self._out))
            if record is not None and is_unchanged(picture, record, self._out, self._request.options_hash):
                unchanged.append(Outcome(picture.path, record))
            else:
                pending.append(picture)
        return pending, unchanged

    def process(self) -> None:
        """Process every picture, and with --watch also those that are added.

        Raises: ServiceError, Refused; KeyboardInterrupt, after the second Ctrl+C.
        """
        if not self.discovery.pictures and not self._watches:
            return
        try:
            folder = ResultsFolder(self._out, self._request)
        except OSError as error:
            raise Refused(
                f"The output folder {printable(path_text(self._out))} can't be written ({error.strerror})."
                " Choose another folder with --out."
            ) from error
        with closing(folder), _open_batch(self._config, folder) as batch:
            try:
                if self._watches:
                    self._watch(batch)
                else:
                    self._process_once(batch)
            except StorageFailed as error:
                self.stop_reason = error.message
            finally:
                self.has_unstopped_threads = batch.cancel()
        if self.stop_reason is None and batch.is_interrupted and self.is_unfinished:
            self.stop_reason = _INTERRUPTED

    def _process_once(self, batch: _Batch) -> None:
        pending, unchanged = self._divide(batch.folder.records)
        outcomes = {outcome.picture: outcome for outcome in unchanged}
        try:
            batch.run(pending, lambda outcome: outcomes.update({outcome.picture: outcome}))
        finally:
            self.outcomes = [outcomes[picture.path] for picture in self.discovery.pictures if picture.path in outcomes]

    def _watch(self, batch: _Batch) -> None:
        """Process the pictures that are there, and those that are added or change, until the run is interrupted."""
        outcomes: dict[Path, Outcome] = {}
        before: set[SourceFile] = set()
        failed: set[SourceFile] = set()

        def report(outcome: Outcome) -> None:
            outcomes[outcome.picture] = outcome
            if outcome.record is not None:
                self._finder.own_results.add(self._out.resolve(), outcome.record)
            written = ", ".join(file.path for file in outcome.new.files) if outcome.new is not None else ""
            problems = "; ".join(message for _, message in outcome.errors)
            batch.progress.print(printable(f"{path_text(outcome.picture)}: {problems or written or 'described'}"))

        where = ", ".join(printable(path_text(path)) for path in self._paths)
        batch.progress.print(f"Watching {where}. Ctrl+C ends it.")
        while not batch.is_interrupted:
            began_s = time.monotonic()
            self.discovery = self._finder.find()
            pending, unchanged = self._divide(batch.folder.records)
            outcomes = {outcome.picture: outcome for outcome in unchanged} | outcomes
            self.outcomes = list(outcomes.values())
            # a file that has another size or time than in the search before is another `SourceFile`
            ready = [picture for picture in pending if picture in before and picture not in failed]
            before = set(pending)
            scan_s = time.monotonic() - began_s
            batch.run(ready, report)
            self.outcomes = list(outcomes.values())
            failed.update(each for each in ready if each.path in outcomes and not outcomes[each.path].done)
            # a search of many files takes at most a tenth of the time
            batch.pause(max(_SETTLED_S, 10 * scan_s))

    @property
    def is_unfinished(self) -> bool:
        """Whether the run ended before it had processed every picture."""
        return not self._watches and len(self.outcomes) < len(self.discovery.pictures)

    @property
    def exit_code(self) -> int:
        if not self.discovery.pictures and not self._watches:
            return EXIT_REFUSED
        if self.stop_reason is not None:
            return EXIT_INTERRUPTED if self.stop_reason == _INTERRUPTED else EXIT_PROBLEM
        return 0 if all(outcome.done for outcome in self.outcomes) and not self.discovery.failed else EXIT_PROBLEM


# ---- several pictures at once ----


class _Finished(Struct, frozen=True):
    """A picture that was processed, whose results are staged in the output folder.

    `sha256` is empty if the picture could not be read.
    """

    picture: SourceFile
    sha256: str
    made: Made


class _Batch:
    """Processes pictures into `folder`; `_open_batch` makes one."""

    def __init__(self, config: Config, folder: ResultsFolder, pipeline: Pipeline, temporary: Path, at_once: int):
        """`temporary` is for files of stages; `at_once` is how many pictures may be in progress."""
        self.folder = folder
        self.progress = RunProgress(sys.stderr)
        self.stop = threading.Event()
        self._config = config
        self._pipeline = pipeline
        self._temporary = temporary
        self._at_once = at_once
        self._threads = ThreadPoolExecutor(at_once, "imgproc-picture")
        self._waiting: deque[Future[_Finished]] = deque()
        self._begun_s = time.monotonic()
        self._expected = self._finished = self._saved_bytes = 0

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl+C was pressed."""
        return self.stop.is_set()

    def run(self, pictures: Sequence[SourceFile], on_outcome: Callable[[Outcome], None]) -> None:
        """Process `pictures`, after Ctrl+C only those in progress. `on_outcome` is called in their order.

        Raises: StorageFailed, if the disk is full or can't be written. Then the results that have no name yet are
        discarded, because the names of a picture depend on all before it.
        """
        self._expected += len(pictures)
        remaining = iter(pictures)
        while True:
            running = [future for future in self._waiting if not future.done()]
            while len(running) < self._at_once and len(self._waiting) < _MAX_UNNAMED and not self.is_interrupted:
                if (picture := next(remaining, None)) is None:
                    break
                running.append(self._threads.submit(self._processed, picture))
                self._waiting.append(running[-1])
            wait(running, _POLL_S, FIRST_COMPLETED)
            while self._waiting and self._waiting[0].done():
                on_outcome(self._outcome(self._waiting.popleft().result()))
            if not running:
                return

    def pause(self, duration_s: float) -> None:
        """Return after `duration_s`, or soon after Ctrl+C."""
        end_s = time.monotonic() + duration_s
        while not self.is_interrupted and (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(_POLL_S, left_s))

    def cancel(self) -> bool:
        """Cancel what runs and what waits. Returns whether a thread did not stop within `_STOP_GRACE_S`."""
        self._pipeline.cancelled.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        return bool(wait(self._waiting, _STOP_GRACE_S).not_done)

    # ---- one picture, on a thread of its own ----

    def _processed(self, picture: SourceFile) -> _Finished:
        """Run the stages of a picture, and copy the results to temporary files in the output folder.

        Raises: StorageFailed.
        """
        try:
            sha256 = hash_file(picture.path)
            read = self._read(picture)
        except StorageFailed:
            raise
        except ServiceError as error:
            return _failed(picture, error.message)
        except OSError as error:
            return _failed(picture, f"It can't be read: {error.strerror}.")
        try:
            return _Finished(picture, sha256, self._made(picture, read))
        except OSError as error:
            if not picture.path.exists():
                return _failed(picture, "It was removed while it was processed.")
            raise _write_problem(error) from error

    def _read(self, picture: SourceFile) -> ReadPicture:
        """What the picture says. Raises: ServiceError, OSError."""
        maximum = max_local_bytes(head_of(picture.path), self._config.max_upload_bytes)
        if picture.size_bytes > maximum:
            raise UploadTooLarge(
                f"Expected at most {maximum:,} bytes (setting max_upload_bytes), but the file has more."
            )
        read = self._pipeline.reader.read(picture.path, self.folder.request.accepted)
        if read.info.pages > 1:
            log.warning("%s: only the first of its %d pages is processed.", path_text(picture.path), read.info.pages)
        return read

    def _made(self, picture: SourceFile, read: ReadPicture) -> Made:
        """The staged results of the picture. Raises: StorageFailed, OSError."""
        request, original = self.folder.request, picture.path.absolute()
        results = [
            result
            for plan in request.plans
            for result in run_stages(self._pipeline, plan, original, picture.path.name, read, tuple(StageName))
        ]
        with TemporaryDirectory(dir=self._temporary) as folder:
            made = make_results(
                self._pipeline, request, picture.path, original, read.info.format, results, Path(folder)
            )
            return structs.replace(made, files=tuple(hidden_copy(self.folder.path, file) for file in made.files))

    # ---- in the order of the pictures ----

    def _outcome(self, finished: _Finished) -> Outcome:
        """Publish the results. Raises: StorageFailed."""
        try:
            if finished.sha256:
                outcome = self.folder.publish(finished.picture, finished.sha256, finished.made)
            else:
                outcome = Outcome(finished.picture.path, errors=finished.made.errors)
        except OSError as error:
            raise _write_problem(error) from error
        self._finished += 1
        if outcome.new is not None and outcome.new.optimized is not None:
            self._saved_bytes += finished.picture.size_bytes - outcome.new.optimized.size_bytes
        if self._finished < self._expected:
            left_s = (time.monotonic() - self._begun_s) / self._finished * (self._expected - self._finished)
            saved = size_text(max(0, self._saved_bytes))
            self.progress.update(
                f"{self._finished:,} of {self._expected:,} pictures, {saved} saved, about {duration_text(left_s)} left."
            )
        return outcome


@contextmanager
def _open_batch(config: Config, folder: ResultsFolder) -> Iterator[_Batch]:
    """A batch with worker processes of its own, which end with the block. Inside it, Ctrl+C stops the batch.

    Raises: SettingInvalid.
    """
    at_once = config.codec_threads or core_count()
    service = compression_service(config)
    out = folder.path.absolute()  # workers have another working directory
    with (
        # in the output folder, where the next run deletes it after a kill; a thread that did not stop may still write
        TemporaryDirectory(PART_SUFFIX, PART_PREFIX, out, ignore_cleanup_errors=True) as temporary,
        open_stages(config, Path(temporary), at_once=at_once, service=service) as pipeline,
    ):
        batch = _Batch(config, folder, pipeline, Path(temporary), at_once + _PICTURES_BESIDE)
        message = "Finishing the pictures in progress. Press Ctrl+C again to stop at once."
        with batch.progress.shown(), interruptible(batch.stop, message):
            yield batch


def _failed(picture: SourceFile, reason: str) -> _Finished:
    return _Finished(picture, "", Made(errors=((None, reason),)))


def _write_problem(error: OSError) -> StorageFailed:
    if is_disk_full(error):
        return StorageFailed("The disk of the output folder is full.")
    return StorageFailed(f"The results can't be written to the output folder ({error.strerror or error}).")
