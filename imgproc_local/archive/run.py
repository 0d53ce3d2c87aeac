"""One run of `archive`: lists the source, has what is new processed, and writes the tables."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice

from msgspec import Struct, structs

from imgproc_local.archive.client import Submitter
from imgproc_local.archive.cluster import local_cluster, require_protected
from imgproc_local.archive.describing import Describing, describing_workers, needs_texts
from imgproc_local.archive.grouping import Durations, grouped
from imgproc_local.archive.known import Known, open_known
from imgproc_local.archive.location import absolute, inside_source, open_store, require_folder
from imgproc_local.archive.manifest import finish
from imgproc_local.archive.picture import Task
from imgproc_local.archive.worker import Job, PictureSummary, model_identity, shared_settings
from imgproc_local.batch.request import Request
from imgproc_local.config import Config

log = logging.getLogger(__name__)


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
    """How many objects were done, failed and skipped, and how many were unchanged since an earlier run."""

    done: int = 0
    failed: int = 0
    skipped: int = 0
    unchanged: int = 0
    needing_text: int = 0
    before_bytes: int = 0
    after_bytes: int = 0

    def add(self, summary: PictureSummary) -> None:
        if summary.outcome == "done":
            self.done += 1
        elif summary.outcome == "failed":
            self.failed += 1
        else:
            self.skipped += 1
        self.needing_text += summary.needs_text
        if summary.optimized_bytes is not None:
            self.before_bytes += summary.size_bytes
            self.after_bytes += summary.optimized_bytes


def run_archive(arguments: Arguments, request: Request, config: Config, on_change: Callable[[Counts], None]) -> Counts:
    """Process what is new or changed in the source. Raises: ServiceError; OSError, if a store can't be used."""
    from distributed import Client

    source, target = absolute(arguments.source), absolute(arguments.target)
    require_folder(source)
    exclude = inside_source(source, target)
    model = model_identity(config) if needs_texts(request) else ""
    job = Job(source, target, request, shared_settings(config), model)
    counts, durations = Counts(), Durations()

    def on_done(summaries: Sequence[PictureSummary]) -> None:
        for summary in summaries:
            counts.add(summary)
            durations.add(summary)
        on_change(counts)

    with ExitStack() as opened:
        if arguments.scheduler is not None:
            require_protected(arguments.scheduler, allow_open=arguments.allow_open_tcp)
            address = arguments.scheduler
        else:
            environment = {"IMGPROC_DATA_DIR": str(config.data_dir)}
            address = opened.enter_context(local_cluster(arguments.workers, 1 if model else 0, environment))
        client = opened.enter_context(Client(address, set_as_default=False))
        describing = describing_workers(client) if model else 0
        if model and not describing:
            log.warning(
                "No worker has the resource VISION: the texts are made from metadata, without the vision model %s.",
                model,
            )
            # another hash, so that a later run with such a worker describes the pictures
            request = structs.replace(request, options_hash=f"{request.options_hash}-without-model")
            job = structs.replace(job, request=request, model="")
        store = open_store(target)
        known = opened.enter_context(open_known(store))
        pending: Iterator[Task] = islice(_pending(source, exclude, known, request, counts), arguments.limit)
        if describing:
            pending = Describing(client, job, describing).described(pending)
        Submitter(client, job, store, on_done).run(grouped(pending, durations))
        known.read_parts()
        finish(store, known.rows())
    return counts


def _pending(source: str, exclude: str | None, known: Known, request: Request, counts: Counts) -> Iterator[Task]:
    for page in open_store(source).pages(exclude):
        tasks = list(known.pending(page, request.options_hash))
        counts.unchanged += len(page) - len(tasks)
        yield from tasks
