"""One run of `process`: finds the pictures, leaves out those that are unchanged, processes the others, and watches."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from imgproc_local.batch.records import Record
from imgproc_local.batch.request import BatchRequest
from imgproc_local.cli.exit_codes import EXIT_INTERRUPTED, EXIT_PROBLEM, EXIT_REFUSED, Refused
from imgproc_local.cli.output import path_text, printable
from imgproc_local.cli.process.batch import INTERRUPTED, Batch, open_batch
from imgproc_local.cli.process.discovery import Finder, Picture
from imgproc_local.cli.process.manifest import Manifest, read_manifest, source_key
from imgproc_local.cli.process.output_folder import OutputFolder
from imgproc_local.cli.process.publishing import Outcome, Publisher
from imgproc_local.config import Config
from imgproc_local.storage.blobs import hash_file

SETTLED_S = 2.0
"""A watched file that has not changed for this time is complete."""
SCAN_S = 1.0
"""The shortest pause between two searches of the watched folders."""
SCAN_SHARE = 0.1
"""The largest share of the time that is spent on searching the watched folders."""


class Run:
    """One invocation of the command: the pictures that it found and, after `process`, its results."""

    def __init__(
        self, config: Config, request: BatchRequest, paths: Sequence[Path], out: Path, *, flat: bool, watch: bool
    ) -> None:
        self._config = config
        self._request = request
        self._paths = paths
        self._out = out
        self._watches = watch
        self._folder = OutputFolder(out)
        self._finder = Finder(paths, out, (config.data_dir,), flat=flat, accepted=request.accepted)
        self.discovery = self._finder.find()
        self.outcomes: list[Outcome] = []
        self.stop_reason: str | None = None
        self.has_unstopped_threads = False

    # ---- what there is to do ----

    def plan(self) -> tuple[list[Picture], list[Outcome]]:
        """The pictures to process, and the outcomes of those that are unchanged. Raises: as `read_manifest`."""
        return self._divide(read_manifest(self._out))

    def _divide(self, records: dict[str, Record]) -> tuple[list[Picture], list[Outcome]]:
        pending: list[Picture] = []
        unchanged: list[Outcome] = []
        for picture in self.discovery.pictures:
            record = records.get(source_key(picture.path, self._out))
            if record is not None and self._is_unchanged(picture, record):
                unchanged.append(Outcome(picture.path, record))
            else:
                pending.append(picture)
        return pending, unchanged

    def _is_unchanged(self, picture: Picture, record: Record) -> bool:
        """Whether the results of `record` are what this run would make of the picture."""
        is_same = record.options == self._request.options_hash and record.size_bytes == picture.size_bytes
        if not is_same or record.errors or not self._folder.has_all(record.files):
            return False
        try:
            return record.modified_ns == picture.modified_ns or record.sha256 == hash_file(picture.path)
        except OSError:  # reported when the picture is processed
            return False

    # ---- doing it ----

    def process(self) -> None:
        """Process every picture, and with --watch also those that are added. Raises: ServiceError, Refused."""
        if not self.discovery.pictures and not self._watches:
            return
        try:
            manifest = Manifest(self._out)
        except OSError as error:
            raise Refused(
                f"The output folder {printable(path_text(self._out))} can't be written ({error.strerror})."
                " Choose another folder with --out."
            ) from error
        with closing(manifest):
            self._folder.delete_leftovers()
            with open_batch(self._config, Publisher(self._folder, self._request, manifest)) as batch:
                if self._watches:
                    self._watch(batch, manifest)
                else:
                    self._process_once(batch, manifest)
            self.stop_reason, self.has_unstopped_threads = batch.stop_reason, batch.has_unstopped_threads

    def _process_once(self, batch: Batch, manifest: Manifest) -> None:
        pending, unchanged = self._divide(manifest.records)
        outcomes = {outcome.picture: outcome for outcome in unchanged}
        batch.run(pending, lambda outcome: outcomes.update({outcome.picture: outcome}))
        self.outcomes = [outcomes[picture.path] for picture in self.discovery.pictures if picture.path in outcomes]

    def _watch(self, batch: Batch, manifest: Manifest) -> None:
        """Process the pictures that are there, and those that are added or change, until the run is interrupted."""
        complete_pictures = CompletePictures()
        outcomes: dict[Path, Outcome] = {}

        def report(outcome: Outcome) -> None:
            outcomes[outcome.picture] = outcome
            if outcome.record is not None:
                self._finder.own_results.add(self._out.resolve(), outcome.record)
            written = ", ".join(file.path for file in outcome.new.files) if outcome.new is not None else ""
            problems = "; ".join(message for _, message in outcome.errors)
            batch.progress.print(printable(f"{path_text(outcome.picture)}: {problems or written or 'described'}"))

        where = ", ".join(printable(path_text(path)) for path in self._paths)
        batch.progress.print(f"Watching {where}. Ctrl+C ends it.")
        while batch.stop_reason is None:
            began_s = time.monotonic()
            self.discovery = self._finder.find()
            pending, unchanged = self._divide(manifest.records)
            outcomes = {outcome.picture: outcome for outcome in unchanged} | outcomes
            ready = complete_pictures.among(pending)
            scan_s = time.monotonic() - began_s
            batch.run(ready, report)
            complete_pictures.failed.update(picture for picture in ready if not outcomes[picture.path].done)
            batch.pause(max(SCAN_S, scan_s / SCAN_SHARE))
        self.outcomes = list(outcomes.values())

    # ---- how it ended ----

    @property
    def is_unfinished(self) -> bool:
        """Whether the run ended before it had processed every picture."""
        is_complete = self._watches or len(self.outcomes) == len(self.discovery.pictures)
        return not is_complete or any(outcome.interrupted for outcome in self.outcomes)

    @property
    def exit_code(self) -> int:
        if not self.discovery.pictures and not self._watches:
            return EXIT_REFUSED
        if self.stop_reason == INTERRUPTED and self.is_unfinished:
            return EXIT_INTERRUPTED
        return 0 if all(outcome.done for outcome in self.outcomes) and not self.discovery.failed else EXIT_PROBLEM


class CompletePictures:
    """Remembers since when each picture of the watched folders has been unchanged. `clock` is monotonic, in seconds.

    Those in `failed` are left out until they change.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._unchanged_since_s: dict[Picture, float] = {}
        self.failed: set[Picture] = set()

    def among(self, pictures: Sequence[Picture]) -> list[Picture]:
        """Those of `pictures`, the result of the latest search, that are complete."""
        now_s = self._clock()
        self._unchanged_since_s = {picture: self._unchanged_since_s.get(picture, now_s) for picture in pictures}
        return [
            picture
            for picture, since_s in self._unchanged_since_s.items()
            if now_s - since_s >= SETTLED_S and picture not in self.failed
        ]
