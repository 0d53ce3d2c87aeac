"""One run of `archive`: lists the source, has Dask process what is new or changed, and writes the tables.

Dask counts the deaths of the workers of a task. The picture of a task that has too many is recorded as failed. If the
scheduler is lost, the run ends; the same command continues it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

from distributed import Client, Future, KilledWorker, as_completed
from distributed.comm.core import CommClosedError
from msgspec import Struct, structs

from imgproc_local.archive.cluster import VISION, connected, local_cluster, require_protected
from imgproc_local.archive.manifest import PARTS_FOLDER, TABLE_NAME, TEXTS_NAME, Manifest, opened_manifest
from imgproc_local.archive.picture import PendingPicture, Row, failed_row
from imgproc_local.archive.stores import SourceObject, Store, is_url, open_store
from imgproc_local.archive.worker import RunSpec, describe, model_identity, process, shared_settings
from imgproc_local.batch import STATE_FOLDER, BatchRequest, archive_target_above
from imgproc_local.config import Config
from imgproc_local.domain.errors import InvalidRequest, ServiceError
from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import STAGES
from imgproc_local.engine.pipeline import StageResult

_IN_FLIGHT_PER_THREAD = 3
"""One task that runs, and others that the scheduler sends at once when it has ended. A stop waits for all of them."""
_RETRIES = 2
"""How often Dask repeats a task that fails as a whole, for example because the disk of a worker is full."""
_KILLED = "Every worker that processed this picture ended without an answer."
_MISSPELT_URL = re.compile(r"[a-z][a-z0-9]+:/(?!/)|(s3a?|gc?s|az|abfs)//", re.IGNORECASE)
"""A URL that lacks a slash or its colon. A scheme has at least two letters: `C:/` begins a path of Windows."""


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
    """How many objects were done, failed and skipped, and how many were unchanged since an earlier run."""

    done: int = 0
    failed: int = 0
    skipped: int = 0
    unchanged: int = 0
    needing_text: int = 0

    @property
    def processed(self) -> int:
        return self.done + self.failed + self.skipped

    def add(self, row: Row) -> None:
        self.done += row.outcome == "done"
        self.failed += row.outcome == "failed"
        self.skipped += row.outcome == "skipped"
        self.needing_text += row.needs_text


def run_archive(
    arguments: Arguments, request: BatchRequest, config: Config, on_row: Callable[[Row, Counts], None], stop: Event
) -> Counts:
    """Process what is new or changed in the source, and write the tables of the whole archive.

    `on_row` is called with each new row and the counts with it. When `stop` is set, the running tasks are finished and
    no others are begun. Raises: ServiceError; OSError, if a store can't be used.
    """
    source, target, exclude = _locations(arguments.source, arguments.target)
    if arguments.scheduler is not None:
        require_protected(arguments.scheduler, allow_open=arguments.allow_open_tcp)
    asks_for_texts = any(StageName.ANALYZE in STAGES[plan.operation] for plan in request.plans)
    model = model_identity(config) if asks_for_texts else ""
    spec = RunSpec(source, target, request, shared_settings(config), model)
    store = open_store(target)
    counts = Counts()
    with opened_manifest(store) as manifest:
        if not manifest.parts:
            _require_no_tables(store, target)
        objects = open_store(source).objects(exclude)
        pictures = itertools.islice(_pending(objects, manifest, request.options_hash, counts), arguments.limit)
        with _cluster(arguments, config, vision_workers=1 if model else 0) as client:
            for row in _Submitter(client, spec, store, stop).rows(pictures):
                manifest.add(row)
                counts.add(row)
                on_row(row, counts)
        manifest.finish()
    return counts


def _pending(
    objects: Iterator[SourceObject], manifest: Manifest, options: str, counts: Counts
) -> Iterator[PendingPicture]:
    """The pictures that are new or changed, failed in an earlier run, or were processed with other options."""
    for picture in objects:
        row = manifest.row(picture.key)
        if row is None or (row.version, row.options) != (picture.version, options) or row.outcome == "failed":
            yield PendingPicture(picture, row)
        else:
            counts.unchanged += 1


@contextmanager
def _cluster(arguments: Arguments, config: Config, vision_workers: int) -> Iterator[Client]:
    """A client of the cluster that the arguments name, or of one on this machine. Raises: ServiceError."""
    address, security = arguments.scheduler, None
    with ExitStack() as opened:
        if address is None:
            cluster = local_cluster(arguments.workers, vision_workers, {"IMGPROC_DATA_DIR": str(config.data_dir)})
            address, security = opened.enter_context(cluster)
        yield opened.enter_context(connected(address, security))


class _Submitter:
    """Submits a task per picture to Dask, a bounded number at a time, until `stop` is set.

    With a vision model, workers that have it describe the pictures for all. They get one task to describe at a time,
    and the results go to the task that makes the files.
    """

    def __init__(self, client: Client, spec: RunSpec, target: Store, stop: Event) -> None:
        """Raises: ServiceError, if no worker has the vision model, or the scheduler is lost."""
        self._client = client
        self._spec = spec
        self._target = target
        self._stop = stop
        self._numbers = itertools.count(1)
        self._in_flight: dict[str, PendingPicture] = {}
        """The pictures whose tasks have not ended, by the key of the task."""
        self._running: Any = as_completed(loop=client.loop)
        with _connection_errors():
            self._vision_workers = _count_vision_workers(client, spec.model) if spec.model else 0
            threads = max(1, sum(client.nthreads().values()))
            # Dask sends a worker one task at a time, so that its death counts for no other, only in groups of tasks
            # with more than two members per thread: these make the group large enough
            self._group = [client.submit(int, key=f"archive-{client.id}-group-{n}") for n in range(2 * threads + 1)]
        self._most = _IN_FLIGHT_PER_THREAD * threads

    def rows(self, pictures: Iterator[PendingPicture]) -> Iterator[Row]:
        """The rows of the pictures, in the order in which their tasks end. After a stop, the running tasks end.

        Raises: ServiceError, also if the scheduler is lost; what `pictures` raises.
        """
        while True:
            while not self._stop.is_set() and self._has_room and (pending := next(pictures, None)) is not None:
                self._submit(pending)
            with _connection_errors():
                future = next(self._running, None)
                if future is None:
                    return
                result = self._result(future, self._in_flight[future.key])
            del self._in_flight[future.key]
            if isinstance(result, Row):
                yield result
            elif not self._stop.is_set():
                self._submit(result)

    @property
    def _has_room(self) -> bool:
        describing = sum(pending.described is None for pending in self._in_flight.values())
        is_free = not self._vision_workers or describing < self._vision_workers
        return is_free and len(self._in_flight) < self._most

    def _submit(self, pending: PendingPicture) -> None:
        describes = bool(self._vision_workers) and pending.described is None
        key = f"{'describe' if describes else 'archive'}-{self._client.id}-{next(self._numbers):07d}"
        options: dict[str, Any] = {"resources": VISION, "priority": 1} if describes else {}
        task: Any = describe if describes else process
        self._in_flight[key] = pending
        with _connection_errors():
            future = self._client.submit(task, self._spec, pending, key=key, retries=_RETRIES, pure=False, **options)
            self._running.add(future)

    def _result(self, future: Future[Any], pending: PendingPicture) -> Row | PendingPicture:
        """The row of a picture whose task has ended, or what its next task needs."""
        try:
            result = future.result()
        except KilledWorker:
            if not self._vision_workers or pending.described is not None:
                return failed_row(pending, self._spec.request.options_hash, self._target, _KILLED)
            result = StageResult(StageName.ANALYZE, None, _KILLED, 0.0)
        except Exception as error:
            if future.status != "error" or isinstance(error, ServiceError):
                raise
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ServiceError(
                f"A worker can't process a task ({reason}). See its log, and install the same version of the program"
                " and of its packages on every machine."
            ) from error
        return structs.replace(pending, described=result) if isinstance(result, StageResult) else result


def _count_vision_workers(client: Client, model: str) -> int:
    """The number of workers that have the resource `VISION`. Raises: ServiceError, if there is none."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    number = sum(bool(worker.get("resources", {}).get("VISION")) for worker in workers)
    if not number:
        raise ServiceError(
            f"Expected a worker that has the vision model {model}, but none has the resource VISION. Start one with"
            " --resources VISION=1, or use no model: IMGPROC_MODEL=none."
        )
    return number


@contextmanager
def _connection_errors() -> Iterator[None]:
    """Turn what Dask raises if the scheduler is lost into ServiceError. The running tasks may still finish."""
    try:
        yield
    except (CommClosedError, CancelledError, TimeoutError) as error:
        raise ServiceError("The connection to the scheduler was lost. The same command again continues.") from error


# ---- the arguments SOURCE and TARGET: the path of a folder, or the URL of an object store ----


def _locations(source: str, target: str) -> tuple[str, str, str | None]:
    """SOURCE and TARGET as workers need them, and the key of TARGET below SOURCE, if it lies there.

    Raises: InvalidRequest, if one of them can't be used, or if SOURCE has the results of an earlier run; OSError.
    """
    source, target = absolute("SOURCE", source), absolute("TARGET", target)
    if not is_url(source) and not Path(source).is_dir():
        raise _refusal("source", f"Expected a folder or a URL as SOURCE, but there is no folder {source}.")
    key = _inside_source(source, target)
    if is_url(source):
        earlier: str | Path | None = source if open_store(source).keys(PARTS_FOLDER) else None
    else:
        earlier = archive_target_above(Path(source))
    if earlier is not None:
        raise _refusal(
            "source",
            f"Expected originals in SOURCE, but {earlier} has the results of `archive`, as its folder {STATE_FOLDER}"
            " says. Name the folder that the originals are in.",
        )
    return source, target, key


def _refusal(argument: str, message: str) -> InvalidRequest:
    return InvalidRequest({argument: [message]})


def absolute(name: str, location: str) -> str:
    """The location as workers need it: an absolute path, or a URL without a slash at its end.

    `name` is that of the argument. Raises: InvalidRequest, if the location is empty or a misspelt URL.
    """
    if not location or _MISSPELT_URL.match(location):
        raise _refusal(
            name.lower(),
            f"Expected a folder, or a URL such as s3://BUCKET/PATH, as {name}, received “{location}”. Write ./ before"
            " the name of a folder that looks like a URL.",
        )
    location = location.removeprefix("file://")
    if is_url(location):
        protocol, _, rest = location.rstrip("/").partition("://")
        return f"{protocol.lower()}://{rest}"
    return str(Path(location).expanduser().absolute())


def _inside_source(source: str, target: str) -> str | None:
    """The key of `target` below `source`; None if it lies elsewhere.

    Raises: InvalidRequest, if they are the same or the source lies in the target: results would be taken as pictures.
    """
    if not is_url(source):
        source, target = (each if is_url(each) else Path(each).resolve().as_posix() for each in (source, target))
    if f"{source}/".startswith(f"{target}/"):
        raise _refusal("target", "Expected a TARGET outside SOURCE, or a folder in it.")
    return target.removeprefix(f"{source}/") if target.startswith(f"{source}/") else None


def _require_no_tables(store: Store, target: str) -> None:
    """Raises: InvalidRequest, if a target without results has files that the tables would replace; OSError."""
    taken = [name for name in (TABLE_NAME, TEXTS_NAME) if store.exists(name)]
    if taken:
        raise _refusal(
            "target",
            f"TARGET {target} has no results of `archive`, but a file that `archive` would replace: {', '.join(taken)}."
            " Move it away, or name another TARGET.",
        )
