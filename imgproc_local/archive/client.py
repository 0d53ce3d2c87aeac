"""Submits a task per picture to Dask, a bounded number at a time, and finds the pictures that end their workers.

Dask counts the deaths of the workers of a task (`distributed.scheduler.allowed-failures`). A task that has too many is
submitted once more, because workers also die for other reasons; then its picture is recorded as failed.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

from distributed import Client, Future, KilledWorker, as_completed
from distributed.comm.core import CommClosedError
from msgspec import structs

from imgproc_local.archive.cluster import VISION
from imgproc_local.archive.manifest import PendingPicture, Problem, Row, earlier_row, with_earlier_results
from imgproc_local.archive.stores import Store
from imgproc_local.archive.worker import RunSpec, describe, process
from imgproc_local.batch.files import ResultFile
from imgproc_local.domain.errors import ServiceError
from imgproc_local.domain.job import StageName
from imgproc_local.engine.direct import StageResult
from imgproc_local.system.files import encodable_text

IN_FLIGHT_PER_THREAD = 3
RETRIES = 2
"""How often Dask repeats a task that fails as a whole, for example because the disk of a worker is full."""
KILLED = "Every worker that processed this picture ended without an answer."


class SchedulerLost(Exception):
    """The connection to the scheduler broke. The tasks that were running may still finish."""


class Submitter:
    """Runs the tasks of one cluster. `vision_workers` is the number of its workers that describe for the others.

    These get one task to describe at a time, and the results go to the task that makes the files.
    """

    def __init__(self, client: Client, spec: RunSpec, target: Store, vision_workers: int) -> None:
        self._client = client
        self._spec = spec
        self._target = target
        self._vision_workers = vision_workers
        self._describing = 0
        self._numbers = itertools.count(1)
        self._pictures: dict[str, PendingPicture] = {}
        self._running: Any = as_completed(loop=client.loop)
        threads = max(1, sum(client.nthreads().values()))
        self._most = IN_FLIGHT_PER_THREAD * threads
        # Dask sends a worker one task at a time, so that its death counts for no other, only in groups of tasks with
        # more than two members per thread: these make the group large enough
        self._group = [client.submit(int, key=f"archive-{client.id}-group-{n}") for n in range(2 * threads + 1)]

    def rows(self, pictures: Iterator[PendingPicture], stop: threading.Event) -> Iterator[Row]:
        """The rows of the pictures, in the order in which tasks end; after `stop` was set, those of the running tasks.

        Raises: SchedulerLost; ServiceError.
        """
        is_stopped = False
        try:
            while True:
                while not stop.is_set() and self._has_room and (picture := next(pictures, None)) is not None:
                    self._submit(picture)
                future = next(self._running, None)
                if future is None:
                    return
                if stop.is_set() and not is_stopped:
                    is_stopped = True
                    self._cancel_unbegun()
                if (row := self._ended(future, stop)) is not None:
                    yield row
        except (CommClosedError, CancelledError, TimeoutError) as error:
            raise SchedulerLost from error

    @property
    def in_flight(self) -> set[str]:
        """The keys of the pictures whose tasks have not ended."""
        return {pending.picture.key for pending in self._pictures.values()}

    @property
    def _has_room(self) -> bool:
        is_free = not self._vision_workers or self._describing < self._vision_workers
        return is_free and len(self._pictures) < self._most

    def _submit(self, pending: PendingPicture) -> None:
        key = f"archive-{self._client.id}-{next(self._numbers):07d}"
        options: dict[str, Any] = {"retries": RETRIES, "pure": False}
        if self._vision_workers and pending.described is None:
            self._describing += 1
            key = f"describe-{key}"
            future: Future[Any] = self._client.submit(
                describe, self._spec, pending.picture, key=key, resources=VISION, priority=1, **options
            )
        else:
            future = self._client.submit(process, self._spec, pending, key=key, **options)
        self._pictures[key] = pending
        self._running.add(future)

    def _ended(self, future: Future[Any], stop: threading.Event) -> Row | None:
        """The row of a picture whose task has ended; None if another task of it follows, or if it was stopped."""
        key = str(future.key)
        if future.status in ("cancelled", "lost") and not stop.is_set():
            raise SchedulerLost
        pending = self._pictures.pop(key)
        is_description = key.startswith("describe-")
        self._describing -= is_description
        if future.status in ("cancelled", "lost"):
            return None
        try:
            result = future.result()
        except KilledWorker:
            if not pending.is_repeated:
                result = structs.replace(pending, is_repeated=True)
            elif is_description:
                result = StageResult(StageName.ANALYZE, None, KILLED, 0.0)
            else:
                result = killed_row(self._spec.request.options_hash, pending, self._target)
        except Exception as error:
            if future.status != "error" or isinstance(error, ServiceError):
                raise
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ServiceError(
                f"A worker can't process a task ({reason}). See its log, and install the same version of the program"
                " and of its packages on every machine."
            ) from error
        if isinstance(result, Row):
            return result
        if isinstance(result, StageResult):
            result = structs.replace(pending, described=result, is_repeated=False)
        if not stop.is_set():
            self._submit(result)
        return None

    def _cancel_unbegun(self) -> None:
        running = {key for keys in self._client.processing().values() for key in keys}
        self._client.cancel([future for future in self._running.futures if future.key not in running])


def killed_row(options: str, pending: PendingPicture, target: Store) -> Row:
    """The row of a picture that no worker could process, with the results of an earlier run that are still there.

    A worker that was killed may have replaced some of them, so their SHA-256 is compared.
    """
    picture = pending.picture
    row = Row(
        source=encodable_text(picture.key),
        version=picture.version,
        size_bytes=picture.size_bytes,
        options=options,
        outcome="failed",
        failure="worker",
        problems=(Problem(None, KILLED),),
    )
    earlier = earlier_row(target, pending)
    if earlier is not None:
        fields = ("optimized", "converted", "sidecar")
        unchanged = {field: _if_unchanged(target, getattr(earlier, field)) for field in fields}
        earlier = structs.replace(earlier, **unchanged)
    return with_earlier_results(row, earlier)


def _if_unchanged(target: Store, file: ResultFile | None) -> ResultFile | None:
    try:
        return file if file is not None and target.sha256(file.path) == file.sha256 else None
    except FileNotFoundError:
        return None
