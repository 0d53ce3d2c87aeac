"""One run of `archive`: lists the source, submits what is new or changed, and writes the tables.

If the scheduler is lost, the run continues with another one, a new local cluster or one at the same address. The
parts of the manifest say what was done until then.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct, field, structs

from imgproc_local.archive.client import SchedulerLost, Submitter
from imgproc_local.archive.cluster import local_cluster, require_protected
from imgproc_local.archive.connection import NotConnected, connected, dashboard_link
from imgproc_local.archive.describing import DescribingPool, count_vision_workers, needs_texts
from imgproc_local.archive.grouping import Durations, grouped
from imgproc_local.archive.location import (
    absolute,
    inside_source,
    open_store,
    open_target,
    require_folder,
    require_location,
    require_no_tables,
    require_originals,
)
from imgproc_local.archive.manifest import MARKS_FOLDER, next_run, part_key, run_name
from imgproc_local.archive.manifest_index import ManifestIndex, new_index
from imgproc_local.archive.manifest_process import require_pyarrow
from imgproc_local.archive.merging import PartMerger
from imgproc_local.archive.picture import PendingPicture
from imgproc_local.archive.samples import Sample, make_samples
from imgproc_local.archive.store import Store
from imgproc_local.archive.summary import LastRun, Summary
from imgproc_local.archive.tables import Report, finish, read_new_parts
from imgproc_local.archive.worker import PictureSummary, RunSpec, model_identity, shared_settings
from imgproc_local.batch.request import BatchRequest
from imgproc_local.config import Config
from imgproc_local.domain.errors import ServiceError

if TYPE_CHECKING:
    from distributed import Client

log = logging.getLogger(__name__)

ReportPage = Callable[[Summary, Sequence[Sample], LastRun], bytes]
"""Makes the content of the report."""
CONNECT_S = 60.0
"""How long to wait for a scheduler and its first worker."""
RECONNECT_S = 600.0
"""The same after a scheduler was lost, because a supervisor may have to start it again."""
POLL_S = 1.0
"""How often `_counted` looks for the first result."""
MAX_LOSSES = 5
"""The run fails after the scheduler was lost this many times in a row, without a finished task between two losses."""
MAX_REPORTED_FOLDERS = 20
"""The most folders with results of earlier runs that are reported."""
MAX_FAILED_PICTURES = 20
"""The most failed pictures that are named at the end; the report and the tables have more."""


class Arguments(Struct, frozen=True):
    """The arguments of the command. Without `scheduler`, `workers` processes are started on this machine.

    At most `limit` pictures are processed; None is no limit.
    """

    source: str
    target: str
    workers: int = 1
    scheduler: str | None = None
    allow_open_tcp: bool = False
    limit: int | None = None


class Counts(Struct):
    """How many objects were done, failed and skipped, and how many were unchanged since an earlier run.

    `failures` counts the failed ones by `FailureKind`. `listed` is the number of objects of the source; None
    until all have been counted, and in a run with a limit. `saw_all` is set when the run has compared all of them.
    `dashboard` is the address of Dask's dashboard, None if there is none. `result_folders` are the first folders of the
    source in which results of earlier runs were found. `before_bytes` is the size of the pictures with an optimized
    file, and `after_bytes` that of these files. `failed_pictures` are the first that failed, with their reasons.
    """

    done: int = 0
    failed: int = 0
    skipped: int = 0
    unchanged: int = 0
    needing_text: int = 0
    before_bytes: int = 0
    after_bytes: int = 0
    listed: int | None = None
    saw_all: bool = False
    dashboard: str | None = None
    failures: dict[str, int] = field(default_factory=dict)
    failed_pictures: list[tuple[str, str]] = field(default_factory=list)
    result_folders: list[str] = field(default_factory=list)

    def report_results(self, folder: str) -> None:
        """Log once that results in a folder of the source are left out, for the first `MAX_REPORTED_FOLDERS`."""
        if folder not in self.result_folders and len(self.result_folders) < MAX_REPORTED_FOLDERS:
            self.result_folders.append(folder)
            where = "SOURCE itself" if folder == "." else folder
            log.warning("Results of an earlier run in %s are not processed again.", where)

    @property
    def processed(self) -> int:
        return self.done + self.failed + self.skipped

    def add(self, summary: PictureSummary) -> None:
        if summary.outcome == "done":
            self.done += 1
        elif summary.outcome == "failed":
            self.failed += 1
            self.failures[summary.failure] = self.failures.get(summary.failure, 0) + 1
            if len(self.failed_pictures) < MAX_FAILED_PICTURES:
                self.failed_pictures.append((summary.key, summary.reason))
        else:
            self.skipped += 1
        self.needing_text += summary.needs_text
        if summary.optimized_bytes is not None:
            self.before_bytes += summary.size_bytes
            self.after_bytes += summary.optimized_bytes


def run_archive(
    arguments: Arguments,
    request: BatchRequest,
    config: Config,
    on_change: Callable[[Counts], None],
    stop: threading.Event,
    report_page: ReportPage,
) -> Counts:
    """Process what is new or changed in the source, and write the tables and the report of the whole archive.

    When `stop` is set, the running tasks are finished and no others are begun. Raises: ServiceError; OSError, if a
    store can't be used; ModuleNotFoundError, without PyArrow.
    """
    source, target, exclude = _locations(arguments)
    require_pyarrow()
    model = model_identity(config) if needs_texts(request) else ""
    spec = RunSpec(source, target, request, shared_settings(config), model)
    store = open_target(target)
    counts = Counts()
    began_s = time.monotonic()
    with new_index() as index, _counted(source, exclude, counts) if arguments.limit is None else nullcontext():
        _remove_marks(store)
        read_new_parts(store, index)
        if not index.parts():
            require_no_tables(store, target)
        run_number = next_run(index.parts())
        processing = _Processing(
            arguments=arguments,
            config=config,
            spec=spec,
            store=store,
            index=index,
            name=run_name(run_number, secrets.token_hex(4)),
            exclude=exclude,
            counts=counts,
            on_change=on_change,
            stop=stop,
            merger=PartMerger(store),
        )
        processing.run()
        spec = processing.spec
        read_new_parts(store, index)
        last = LastRun(
            ended_at=datetime.now(UTC),
            duration_s=time.monotonic() - began_s,
            processed=counts.processed,
            is_complete=counts.saw_all and not stop.is_set(),
            model=spec.model,
            unused_model="" if spec.model else model,
            makes_texts=needs_texts(request),
        )
        finish(store, index, run_number, _report(spec, store, config, last, report_page))
        _remove_marks(store)  # a worker of a client that was killed may have written one since the start
    return counts


class _Processing(Struct, kw_only=True):
    """The part of a run that processes pictures, on one cluster after the other. The names of parts begin with `name`.

    `spec` is without a model after it was found that no worker has one.
    """

    arguments: Arguments
    config: Config
    spec: RunSpec
    store: Store
    index: ManifestIndex
    name: str
    exclude: str | None
    counts: Counts
    on_change: Callable[[Counts], None]
    stop: threading.Event
    merger: PartMerger
    durations: Durations = field(default_factory=Durations)
    submitter: Submitter | None = None
    vision_workers: int = 0

    def run(self) -> None:
        """Process every picture that has to be, or return when the running tasks have ended after a stop."""
        has_model = bool(self.spec.model)
        losses, timeout_s = 0, CONNECT_S
        while True:
            processed = self.counts.processed
            try:
                with _cluster(self.arguments, self.config, has_model, timeout_s, self.stop) as client:
                    self._run_on(client)
                    return
            except (SchedulerLost, NotConnected, CancelledError, ChildProcessError) as error:
                if isinstance(error, ChildProcessError) and self.submitter is None:
                    raise ServiceError(f"The local cluster of Dask can't be started ({error}).") from None
                reason = f" ({error})" if str(error) else ""
            if self.submitter is not None:
                self.submitter.forget_in_flight()
            losses = losses + 1 if self.counts.processed == processed else 1
            if losses >= MAX_LOSSES:
                raise ServiceError(f"The scheduler was lost {losses} times while no picture was finished{reason}.")
            if self.stop.is_set():
                return
            log.warning("The scheduler was lost. The run continues with the next one.")
            self.merger.forget()
            read_new_parts(self.store, self.index)
            timeout_s = RECONNECT_S

    def _run_on(self, client: Client) -> None:
        """Process on one cluster what was not processed before. Raises: as `Submitter.run`."""
        self.counts.dashboard = dashboard_link(client)
        self.on_change(self.counts)
        if self.submitter is None:
            self.spec, self.vision_workers = _with_model(client, self.spec)
            self.submitter = Submitter(self.spec, self.store, self.name, self._on_done, self.stop)
        limit = None if self.arguments.limit is None else self.arguments.limit - self.counts.processed
        pending: Iterator[PendingPicture] = islice(self._pending(), limit)
        if self.vision_workers:
            pending = DescribingPool(client, self.spec, self.vision_workers).described(pending)
        self.submitter.run(client, grouped(pending, self.durations))

    def _pending(self) -> Iterator[PendingPicture]:
        """The pictures that this run has to process; the counts receive the number of unchanged ones."""
        self.counts.unchanged = 0
        for page in open_store(self.spec.source).pages(self.exclude, self.counts.report_results):
            for pending, is_unchanged in self.index.compared(page, self.spec.request.options_hash):
                self.counts.unchanged += is_unchanged
                if pending is not None:
                    yield pending
        self.counts.saw_all = True

    def _on_done(self, name: str, summaries: Sequence[PictureSummary]) -> None:
        self.merger.add(part_key(name), len(summaries))
        self.index.add_processed(summary.key for summary in summaries)
        for summary in summaries:
            self.counts.add(summary)
            self.durations.add(summary)
        self.on_change(self.counts)


def _locations(arguments: Arguments) -> tuple[str, str, str | None]:
    """SOURCE, TARGET, and the key of TARGET below SOURCE, if it lies there. Raises: InvalidRequest."""
    require_location("SOURCE", arguments.source)
    require_location("TARGET", arguments.target)
    source, target = absolute(arguments.source), absolute(arguments.target)
    require_folder(source)
    if arguments.scheduler is not None:
        require_protected(arguments.scheduler, allow_open=arguments.allow_open_tcp)
    key = inside_source(source, target)
    require_originals(source)
    return source, target, key


@contextmanager
def _cluster(
    arguments: Arguments, config: Config, has_model: bool, timeout_s: float, stop: threading.Event
) -> Iterator[Client]:
    """A client of the cluster that the arguments name, or of one on this machine. Raises: as `connected`."""
    with ExitStack() as opened:
        address, security = arguments.scheduler, None
        if address is None:
            environment = {"IMGPROC_DATA_DIR": str(config.data_dir)}
            cluster = local_cluster(arguments.workers, 1 if has_model else 0, environment)
            address, security = opened.enter_context(cluster)
        else:
            log.warning("Connecting to the scheduler at %s.", address)
        yield opened.enter_context(connected(address, timeout_s, stop, security))


def _remove_marks(target: Store) -> None:
    """Delete the marks of a run that was killed."""
    for mark in target.keys(MARKS_FOLDER):
        target.remove(mark)


def _report(spec: RunSpec, target: Store, config: Config, last: LastRun, report_page: ReportPage) -> Report:
    def page(summary: Summary) -> bytes:
        samples = make_samples(summary.samples(), open_store(spec.source), target, config)
        return report_page(summary, samples, last)

    return Report(Summary(spec.request.options_hash), page)


def _with_model(client: Client, spec: RunSpec) -> tuple[RunSpec, int]:
    """`spec`, without its model if no worker has one, and the number of workers that have one."""
    if not spec.model:
        return spec, 0
    vision_workers = count_vision_workers(client)
    if vision_workers:
        return spec, vision_workers
    log.warning(
        "No worker has the resource VISION: the texts are made from metadata, without the vision model %s.", spec.model
    )
    # another hash, so that a later run with such a worker describes the pictures
    request = structs.replace(spec.request, options_hash=f"{spec.request.options_hash}-without-model")
    return structs.replace(spec, request=request, model=""), 0


@contextmanager
def _counted(source: str, exclude: str | None, counts: Counts) -> Iterator[None]:
    """Inside the block, from the first result on, count the objects of the source, to estimate the time that is left.

    It lists the source a second time, because the first listing advances only as fast as the workers.
    """
    ended = threading.Event()

    def count() -> None:
        number = 0
        while not counts.processed:  # a run that has nothing to do needs no time left
            if ended.wait(POLL_S):
                return
        try:
            for page in open_store(source).pages(exclude):
                if ended.is_set():
                    return
                number += len(page)
        except OSError:
            return  # the listing fails in the same way and ends the run
        counts.listed = number

    threading.Thread(target=count, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
