"""One run of `archive`: lists the source, has what is new processed, and writes the tables.

If the scheduler is lost, the run goes on from the parts with the next one: a new local cluster, or the same address.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct, field, structs

from imgproc_local.archive.client import SchedulerLost, Submitter
from imgproc_local.archive.cluster import local_cluster, require_protected
from imgproc_local.archive.describing import Describing, describing_workers, needs_texts
from imgproc_local.archive.grouping import Durations, grouped
from imgproc_local.archive.known import Known, open_known
from imgproc_local.archive.location import absolute, inside_source, open_store, require_folder
from imgproc_local.archive.manifest import MARKS_FOLDER, next_run, run_name
from imgproc_local.archive.picture import Task
from imgproc_local.archive.tables import finish
from imgproc_local.archive.worker import Job, PictureSummary, model_identity, shared_settings
from imgproc_local.batch.request import Request
from imgproc_local.config import Config
from imgproc_local.domain.errors import ServiceError

if TYPE_CHECKING:
    from distributed import Client

log = logging.getLogger(__name__)

CONNECT_S = 60.0
"""How long to wait for a scheduler and its first worker."""
RECONNECT_S = 600.0
"""The same after a scheduler was lost: its supervisor has to start it again."""
TRY_S, CLOSE_S, POLL_S = 10.0, 5.0, 1.0
MAX_LOSSES = 5
"""The run fails when the scheduler was lost so many times without a task that ended between."""


class Arguments(Struct, frozen=True):
    """The arguments of the command. Without `scheduler`, `workers` processes are started on this machine.

    `limit` is the most pictures that are processed, None for all.
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
    until all have been counted, and in a run with a limit.
    """

    done: int = 0
    failed: int = 0
    skipped: int = 0
    unchanged: int = 0
    needing_text: int = 0
    before_bytes: int = 0
    after_bytes: int = 0
    listed: int | None = None
    failures: dict[str, int] = field(default_factory=dict)

    @property
    def processed(self) -> int:
        return self.done + self.failed + self.skipped

    def add(self, summary: PictureSummary) -> None:
        if summary.outcome == "done":
            self.done += 1
        elif summary.outcome == "failed":
            self.failed += 1
            self.failures[summary.failure] = self.failures.get(summary.failure, 0) + 1
        else:
            self.skipped += 1
        self.needing_text += summary.needs_text
        if summary.optimized_bytes is not None:
            self.before_bytes += summary.size_bytes
            self.after_bytes += summary.optimized_bytes


def run_archive(
    arguments: Arguments, request: Request, config: Config, on_change: Callable[[Counts], None], stop: threading.Event
) -> Counts:
    """Process what is new or changed in the source, and write the tables of all that is done.

    When `stop` is set, the tasks in work are finished and no others begun. Raises: ServiceError; OSError, if a store
    can't be used.
    """
    source, target = absolute(arguments.source), absolute(arguments.target)
    require_folder(source)
    if arguments.scheduler is not None:
        require_protected(arguments.scheduler, allow_open=arguments.allow_open_tcp)
    exclude = inside_source(source, target)
    model = model_identity(config) if needs_texts(request) else ""
    job = Job(source, target, request, shared_settings(config), model)
    store = open_store(target)
    counts, durations = Counts(), Durations()
    with open_known(store) as known, _counted(source, exclude, counts) if arguments.limit is None else nullcontext():
        for mark in store.keys(MARKS_FOLDER):  # of a run that was killed
            store.remove(mark)

        def on_done(summaries: Sequence[PictureSummary]) -> None:
            known.add_processed(summary.key for summary in summaries)
            for summary in summaries:
                counts.add(summary)
                durations.add(summary)
            on_change(counts)

        run = next_run(known.parts())
        submitter: Submitter | None = None
        losses, timeout_s = 0, CONNECT_S
        while True:
            processed = counts.processed
            try:
                with _connected(arguments, config, bool(model), timeout_s) as client:
                    if submitter is None:
                        job, describing = _with_model(client, job)
                        submitter = Submitter(job, store, run_name(run, secrets.token_hex(4)), on_done, stop)
                    limit = None if arguments.limit is None else arguments.limit - processed
                    pending: Iterator[Task] = islice(_pending(job, exclude, known, counts), limit)
                    if describing:
                        pending = Describing(client, job, describing).described(pending)
                    submitter.run(client, grouped(pending, durations))
                    break
            except (SchedulerLost, CancelledError, ChildProcessError):
                pass
            if submitter is not None:
                submitter.settle()
            losses = losses + 1 if counts.processed == processed else 1
            if losses >= MAX_LOSSES:
                raise ServiceError(f"The scheduler was lost {losses} times while no picture was finished.")
            if stop.is_set():
                break
            log.warning("The scheduler was lost. The run continues with the next one.")
            known.read_parts()
            timeout_s = RECONNECT_S
        known.read_parts()
        finish(store, known, run)
    return counts


@contextmanager
def _connected(arguments: Arguments, config: Config, has_model: bool, timeout_s: float) -> Iterator[Client]:
    """A client of a cluster with at least one worker. Raises: ServiceError, if there is none after `timeout_s`."""
    from distributed import Client

    for name in ("distributed", "distributed.client"):  # what they warn of is handled or reported here
        logging.getLogger(name).setLevel(logging.CRITICAL)
    deadline_s = time.monotonic() + timeout_s
    with ExitStack() as opened:
        address = arguments.scheduler
        if address is None:
            environment = {"IMGPROC_DATA_DIR": str(config.data_dir)}
            address = opened.enter_context(local_cluster(arguments.workers, 1 if has_model else 0, environment))
        while True:
            try:
                # the client also waits so long for a lost scheduler, before its tasks are cancelled
                client = Client(address, set_as_default=False, timeout=TRY_S)
                opened.callback(_close, client)
                client.wait_for_workers(1, timeout=max(TRY_S, deadline_s - time.monotonic()))
                break
            except TypeError as error:  # what Dask raises without the certificates of the client
                raise ServiceError(
                    f"The scheduler at {address} needs certificates, but the settings of Dask name none for the client:"
                    " set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, __CLIENT__CERT and __CLIENT__KEY."
                ) from error
            except (OSError, TimeoutError) as error:
                if time.monotonic() > deadline_s:
                    raise ServiceError(
                        f"Expected a scheduler with a worker at {address}, but after {timeout_s:.0f} s there is none."
                        " Start `dask scheduler` and `dask worker`, and check the certificates. Then run the same"
                        " command again."
                    ) from error
                time.sleep(1)
        yield client


def _close(client: Client) -> None:
    with suppress(OSError, TimeoutError):  # its scheduler may be lost
        client.close(timeout=CLOSE_S)


def _with_model(client: Client, job: Job) -> tuple[Job, int]:
    """The job, without its model if no worker has it, and the number of workers that have it."""
    if not job.model:
        return job, 0
    describing = describing_workers(client)
    if describing:
        return job, describing
    log.warning(
        "No worker has the resource VISION: the texts are made from metadata, without the vision model %s.", job.model
    )
    # another hash, so that a later run with such a worker describes the pictures
    request = structs.replace(job.request, options_hash=f"{job.request.options_hash}-without-model")
    return structs.replace(job, request=request, model=""), 0


@contextmanager
def _counted(source: str, exclude: str | None, counts: Counts) -> Iterator[None]:
    """Inside the block, count the objects of the source for the time that is left, from the first result on.

    It lists the source a second time, because the other listing waits for workers.
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


def _pending(job: Job, exclude: str | None, known: Known, counts: Counts) -> Iterator[Task]:
    """The pictures that this run has to process. Counts the unchanged ones anew."""
    counts.unchanged = 0
    for page in open_store(job.source).pages(exclude):
        for task, is_unchanged in known.compared(page, job.request.options_hash):
            counts.unchanged += is_unchanged
            if task is not None:
                yield task
