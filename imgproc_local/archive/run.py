"""One run of `archive`: lists the source, submits what is new or changed, and writes the tables.

If the scheduler is lost, the run continues with another one, a new local cluster or one at the same address. The
parts of the manifest say what was done until then.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import UTC, datetime
from itertools import islice

from distributed import Client
from msgspec import Struct, field, structs

from imgproc_local.archive.client import SchedulerLost, Submitter
from imgproc_local.archive.cluster import NotConnected, connected, dashboard_link, local_cluster, require_protected
from imgproc_local.archive.location import locations, open_store, open_target, require_no_tables
from imgproc_local.archive.manifest import Manifest, PendingPicture, Row, opened_manifest
from imgproc_local.archive.stores import Store
from imgproc_local.archive.summary import MAX_MESSAGE_CHARS, LastRun, Sample, Summary, make_samples
from imgproc_local.archive.worker import RunSpec, model_identity, needs_texts, shared_settings
from imgproc_local.batch.request import BatchRequest
from imgproc_local.config import Config
from imgproc_local.domain.errors import ServiceError
from imgproc_local.domain.job import StageName

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

    def add(self, row: Row) -> None:
        if row.outcome == "done":
            self.done += 1
        elif row.outcome == "failed":
            self.failed += 1
            self.failures[row.failure] = self.failures.get(row.failure, 0) + 1
            if len(self.failed_pictures) < MAX_FAILED_PICTURES:
                reasons = [problem.message[:MAX_MESSAGE_CHARS] for problem in row.problems]
                self.failed_pictures.append((row.source, reasons[0] if reasons else ""))
        else:
            self.skipped += 1
        self.needing_text += row.needs_text
        # an optimized file of an earlier run saves nothing in this one
        is_new = row.optimize_s is not None and not any(each.stage == StageName.OPTIMIZE for each in row.problems)
        if row.optimized is not None and is_new:
            self.before_bytes += row.size_bytes
            self.after_bytes += row.optimized.size_bytes


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
    store can't be used.
    """
    source, target, exclude = locations(arguments.source, arguments.target)
    if arguments.scheduler is not None:
        require_protected(arguments.scheduler, allow_open=arguments.allow_open_tcp)
    model = model_identity(config) if needs_texts(request) else ""
    spec = RunSpec(source, target, request, shared_settings(config), model)
    store = open_target(target)
    counts = Counts()
    began_s = time.monotonic()
    counting = _counted(source, exclude, counts) if arguments.limit is None else nullcontext()
    with opened_manifest(store) as manifest, counting:
        if not manifest.parts:
            require_no_tables(store, target)
        processing = _Processing(arguments, config, spec, store, manifest, exclude, counts, on_change, stop)
        processing.run()
        spec = processing.spec
        manifest.flush()
        if manifest.is_finished:
            return counts
        summary = Summary(spec.request.options_hash)
        for rows in manifest.write_tables():
            for row in rows:
                summary.add(row)
        last = LastRun(
            ended_at=datetime.now(UTC),
            duration_s=time.monotonic() - began_s,
            processed=counts.processed,
            is_complete=counts.saw_all and not stop.is_set(),
            model=spec.model,
            unused_model="" if spec.model else model,
            makes_texts=needs_texts(request),
        )
        if manifest.may_write_report:
            samples = make_samples(summary.samples, open_store(source), store, config)
            manifest.write_report(report_page(summary, samples, last))
        manifest.remove_merged()
    return counts


class _Processing(Struct):
    """The part of a run that processes pictures, on one cluster after the other.

    `spec` is without a model after it was found that no worker has one. `suspects` are the pictures that were in flight
    when a scheduler was lost: the deaths of their workers that it had counted are lost with it.
    """

    arguments: Arguments
    config: Config
    spec: RunSpec
    store: Store
    manifest: Manifest
    exclude: str | None
    counts: Counts
    on_change: Callable[[Counts], None]
    stop: threading.Event
    submitter: Submitter | None = None
    vision_workers: int = 0
    suspects: set[str] = field(default_factory=set)

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
            except (SchedulerLost, NotConnected, ChildProcessError) as error:
                if isinstance(error, ChildProcessError) and self.submitter is None:
                    raise ServiceError(f"The local cluster of Dask can't be started ({error}).") from None
                reason = f" ({error})" if str(error) else ""
            if self.submitter is not None:
                self.suspects |= self.submitter.in_flight
            losses = losses + 1 if self.counts.processed == processed else 1
            if losses >= MAX_LOSSES:
                raise ServiceError(f"The scheduler was lost {losses} times while no picture was finished{reason}.")
            if self.stop.is_set():
                return
            log.warning("The scheduler was lost. The run continues with the next one.")
            timeout_s = RECONNECT_S

    def _run_on(self, client: Client) -> None:
        """Process on one cluster what was not processed before. Raises: as `Submitter.rows`; OSError."""
        self.counts.dashboard = dashboard_link(client)
        self.on_change(self.counts)
        if self.submitter is None and self.spec.model:
            self.vision_workers = count_vision_workers(client)
            if not self.vision_workers:
                self.spec = _without_model(self.spec)
            elif self.arguments.scheduler is None and self.arguments.workers == 1:
                self.vision_workers = 0  # the only worker describes the pictures that it processes
        limit = None if self.arguments.limit is None else self.arguments.limit - self.counts.processed
        self.submitter = Submitter(client, self.spec, self.store, self.vision_workers)
        for row in self.submitter.rows(islice(self._pending(), limit), self.stop):
            self.manifest.add(row)
            self.counts.add(row)
            self.on_change(self.counts)

    def _pending(self) -> Iterator[PendingPicture]:
        """The pictures that this run has to process; the counts receive the number of unchanged ones."""
        self.counts.unchanged = 0
        for picture in open_store(self.spec.source).objects(self.exclude, self.counts.report_results):
            state = self.manifest.state_of(picture, self.spec.request.options_hash)
            if isinstance(state, PendingPicture):
                yield structs.replace(state, is_repeated=picture.key in self.suspects)
            else:
                self.counts.unchanged += state == "unchanged"
        self.counts.saw_all = True


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
            log.warning("Waiting up to %.0f s for the scheduler at %s and its first worker.", timeout_s, address)
        yield opened.enter_context(connected(address, timeout_s, stop, security))


def count_vision_workers(client: Client) -> int:
    """The number of workers that have the resource `VISION`."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return sum(bool(worker.get("resources", {}).get("VISION")) for worker in workers)


def _without_model(spec: RunSpec) -> RunSpec:
    log.warning(
        "No worker has the resource VISION: the texts are made from metadata, without the vision model %s.", spec.model
    )
    # another hash, so that a later run with such a worker describes the pictures
    request = structs.replace(spec.request, options_hash=f"{spec.request.options_hash}-without-model")
    return structs.replace(spec, request=request, model="")


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
            for _ in open_store(source).objects(exclude):
                if ended.is_set():
                    return
                number += 1
        except OSError:
            return  # the listing fails in the same way and ends the run
        counts.listed = number

    threading.Thread(target=count, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
