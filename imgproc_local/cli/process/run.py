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

from msgspec import structs

from imgproc_local.batch import BatchRequest, Made, ManifestLine, make_results, require_size, writing_to
from imgproc_local.cli import output
from imgproc_local.cli.discovery import Finder, SourceFile, read_manifest
from imgproc_local.cli.output import RunProgress
from imgproc_local.cli.process.in_place import InPlace
from imgproc_local.cli.process.results_folder import Outcome, ResultsFolder, RunOptions, hidden_copy, unchanged_record
from imgproc_local.codecs.picture.formats import head_of
from imgproc_local.compose import compression_service, core_count, open_stages
from imgproc_local.config import Config
from imgproc_local.domain.errors import ServiceError, StorageFailed
from imgproc_local.engine.pipeline import Pipeline, ReadPicture
from imgproc_local.system.files import hash_file

log = logging.getLogger(__name__)

_PICTURES_BESIDE = 2
"""How many more pictures than threads of the codecs are in progress, so that these have work while one picture is
described, and one is read or written."""
_POLL_S = 0.1
"""How soon Ctrl+C is noticed."""
_STOP_GRACE_S = 5.0
"""How long to wait for stages that were cancelled."""
_SETTLED_S = 2.0
"""A watched file that has not changed for this time is complete. It is also the shortest pause between two searches."""
_INTERRUPTED = "Interrupted."

_Folder = ResultsFolder | InPlace
"""Where results go."""


class Run:
    """One invocation of the command: the pictures that it found and, after `process`, its results.

    `stop_reason` says why the run ended before it had processed every picture. `has_unstopped_threads` says that a
    stage did not end when it was cancelled.
    """

    def __init__(self, config: Config, request: BatchRequest, options: RunOptions) -> None:
        self._config = config
        self._request = request
        self._options = options
        self.outcomes: list[Outcome] = []
        self.stop_reason: str | None = None
        self.has_unstopped_threads = False
        self._search()

    def _search(self) -> None:
        """Find the pictures, and the results of earlier runs."""
        options = self._options
        self._finder = Finder(
            options.paths,
            options.out,
            (self._config.data_dir,),
            flat=options.flat,
            accepted=self._request.accepted,
            ignored=options.exclude,
            in_place=options.in_place,
        )
        self.discovery = self._finder.find()

    def plan(self, records: dict[str, ManifestLine] | None = None) -> tuple[list[SourceFile], list[Outcome]]:
        """The pictures to process, and the outcomes of those that are unchanged.

        `records` are those of the manifest, which is read if they are not given. Raises: as `read_manifest`.
        """
        if self._options.in_place:
            return self.discovery.pictures, []
        out, options_hash = self._options.out, self._request.options_hash
        records = read_manifest(out) if records is None else records
        pending, unchanged = [], []
        for picture in self.discovery.pictures:
            if (record := unchanged_record(picture, records, out, options_hash)) is None:
                pending.append(picture)
            else:
                unchanged.append(Outcome(picture.path, record))
        return pending, unchanged

    def process(self) -> None:
        """Process every picture, and with --watch also those that are added.

        Raises: ServiceError, Refused; KeyboardInterrupt, after the second Ctrl+C.
        """
        if not self.discovery.pictures and not self._options.watch:
            return
        try:
            folder = self._opened_folder()
        except OSError as error:
            problem = f"{output.printable(output.path_text(self._options.out))} can't be written ({error.strerror})"
            raise output.Refused(f"The output folder {problem}. Choose another folder with --out.") from error
        progress = RunProgress(sys.stderr, quiet=self._options.quiet)
        with closing(folder), _open_batch(self._config, folder, progress) as batch:
            try:
                if folder.has_waited:
                    self._search()  # what it has written may lie in a folder that was searched
                if self._options.watch:
                    self._watch(batch)
                else:
                    self._process_once(batch)
            except StorageFailed as error:
                self.stop_reason = error.message
            finally:
                self.has_unstopped_threads = batch.cancel()
        is_unfinished = not self._options.watch and len(self.outcomes) < len(self.discovery.pictures)
        if self.stop_reason is None and batch.stop.is_set() and is_unfinished:
            self.stop_reason = _INTERRUPTED

    def _opened_folder(self) -> _Folder:
        options = self._options
        if options.in_place:
            return InPlace(self._request, options)
        return ResultsFolder(options.out, self._request, preserve=options.preserve)

    def _process_once(self, batch: _Batch) -> None:
        pending, unchanged = self.plan(batch.folder.records)
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
                self._finder.own_results.add(self._options.out.resolve(), outcome.record)
            written = ", ".join(file.path for file in outcome.new.files) if outcome.new is not None else ""
            problems = "; ".join(message for _, message in outcome.errors)
            show = batch.progress.print if problems else batch.progress.notify
            show(output.printable(f"{output.path_text(outcome.picture)}: {problems or written or 'described'}"))

        where = ", ".join(map(self._options.shown, self._options.paths))
        batch.progress.notify(f"Watching {where}. Ctrl+C ends it.")
        while not batch.stop.is_set():
            began_s = time.monotonic()
            self.discovery = self._finder.find()
            pending, unchanged = self.plan(batch.folder.records)
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
    def exit_code(self) -> int:
        if not self.discovery.pictures and not self._options.watch:
            return output.EXIT_REFUSED
        if self.stop_reason is not None:
            return output.EXIT_INTERRUPTED if self.stop_reason == _INTERRUPTED else output.EXIT_PROBLEM
        is_done = all(outcome.done for outcome in self.outcomes) and not self.discovery.failed
        return 0 if is_done else output.EXIT_PROBLEM


# ---- several pictures at once ----


class _Batch:
    """Processes pictures into `folder`; `_open_batch` makes one."""

    def __init__(
        self, config: Config, folder: _Folder, progress: RunProgress, pipeline: Pipeline, at_once: int
    ) -> None:
        """`at_once` is how many pictures may be in progress."""
        self.folder = folder
        self.progress = progress
        self.stop = threading.Event()
        self._config = config
        self._pipeline = pipeline
        self._at_once = at_once
        self._threads = ThreadPoolExecutor(at_once, "imgproc-picture")
        self._waiting: deque[tuple[SourceFile, Future[tuple[str, Made]]]] = deque()
        """The pictures in their order, each with its SHA-256 and what was made of it, as `_processed` returns them."""
        self._begun_s = time.monotonic()
        self._expected = self._finished = self._saved_bytes = 0

    def run(self, pictures: Sequence[SourceFile], on_outcome: Callable[[Outcome], None]) -> None:
        """Process `pictures`, after Ctrl+C only those in progress. `on_outcome` is called in their order.

        Raises: StorageFailed, if the disk is full or can't be written. Then the results that have no name yet are
        discarded, because the names of a picture depend on all before it.
        """
        self._expected += len(pictures)
        remaining = iter(pictures)
        while True:
            running = [future for _, future in self._waiting if not future.done()]
            limit = max(self._at_once, self.folder.max_unnamed)
            while len(running) < self._at_once and len(self._waiting) < limit and not self.stop.is_set():
                if (picture := next(remaining, None)) is None:
                    break
                running.append(self._threads.submit(self._processed, picture))
                self._waiting.append((picture, running[-1]))
            wait(running, _POLL_S, FIRST_COMPLETED)
            while self._waiting and self._waiting[0][1].done():
                picture, future = self._waiting.popleft()
                on_outcome(self._outcome(picture, *future.result()))
            if not running:
                return

    def pause(self, duration_s: float) -> None:
        """Return after `duration_s`, or soon after Ctrl+C."""
        end_s = time.monotonic() + duration_s
        while not self.stop.is_set() and (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(_POLL_S, left_s))

    def cancel(self) -> bool:
        """Cancel what runs and what waits. Returns whether a thread did not stop within `_STOP_GRACE_S`."""
        self._pipeline.cancelled.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        return bool(wait([future for _, future in self._waiting], _STOP_GRACE_S).not_done)

    # ---- one picture, on a thread of its own ----

    def _processed(self, picture: SourceFile) -> tuple[str, Made]:
        """Run the stages of a picture, and copy the results to temporary files in the output folder.

        The first value is the SHA-256 of the picture, empty if it could not be read. Raises: StorageFailed.
        """
        try:
            sha256 = hash_file(picture.path)
            read = self._read(picture)
            with writing_to(self.folder.place):
                return sha256, self._made(picture, read)
        except StorageFailed:
            if not picture.path.exists():
                return _failed("It was removed while it was processed.")
            raise
        except ServiceError as error:
            return _failed(error.message)
        except OSError as error:
            return _failed(f"It can't be read: {error.strerror}.")

    def _read(self, picture: SourceFile) -> ReadPicture:
        """What the picture says. Raises: ServiceError, OSError."""
        require_size(picture.size_bytes, head_of(picture.path), self._config)
        read = self._pipeline.reader.read(picture.path, self.folder.request.accepted)
        if read.info.pages > 1:
            name = output.path_text(picture.path)
            log.warning("%s: only the first of its %d pages is processed.", name, read.info.pages)
        return read

    def _made(self, picture: SourceFile, read: ReadPicture) -> Made:
        """The staged results of the picture. Raises: StorageFailed, OSError."""
        with TemporaryDirectory(dir=self.folder.temporary) as folder:
            original, request = picture.path.absolute(), self.folder.request
            made = make_results(self._pipeline, request, picture.path.name, original, read, Path(folder))
            like = original if self.folder.preserve else None
            return structs.replace(made, files=tuple(hidden_copy(self.folder.path, file, like) for file in made.files))

    # ---- in the order of the pictures ----

    def _outcome(self, picture: SourceFile, sha256: str, made: Made) -> Outcome:
        """Publish the results. Raises: StorageFailed."""
        outcome = Outcome(picture.path, errors=made.errors)
        if sha256:
            with writing_to(self.folder.place):
                outcome = self.folder.publish(picture, sha256, made)
        self._finished += 1
        if outcome.new is not None and outcome.new.optimized is not None:
            self._saved_bytes += picture.size_bytes - outcome.new.optimized.size_bytes
        if self._finished < self._expected:
            left_s = (time.monotonic() - self._begun_s) / self._finished * (self._expected - self._finished)
            saved, left = output.size_text(max(0, self._saved_bytes)), output.duration_text(left_s)
            count = f"{self._finished:,} of {self._expected:,} pictures"
            self.progress.update(f"{count}, {saved} saved, about {left} left.")
        return outcome


@contextmanager
def _open_batch(config: Config, folder: _Folder, progress: RunProgress) -> Iterator[_Batch]:
    """A batch with worker processes of its own, which end with the block. Inside it, Ctrl+C stops the batch.

    Raises: SettingInvalid.
    """
    at_once = config.codec_threads or core_count()
    with open_stages(config, folder.temporary, at_once=at_once, service=compression_service(config)) as pipeline:
        batch = _Batch(config, folder, progress, pipeline, at_once + _PICTURES_BESIDE)
        message = "Finishing the pictures in progress. Press Ctrl+C again to stop at once."
        with progress.shown(), output.interruptible(batch.stop, message):
            yield batch


def _failed(reason: str) -> tuple[str, Made]:
    return "", Made(errors=((None, reason),))
