"""Submits tasks to Dask, a bounded number at a time, and finds the pictures that kill their workers.

Dask's own retries do not count the deaths of workers, so each attempt of a task is submitted under a new key. A picture
whose worker died twice while processing it is processed alone; after two more deaths it is recorded as failed. One
death is not enough, because workers also die for other reasons.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from imgproc_local.archive.manifest import decode_rows, encode_rows, mark_key, part_key, rows_of
from imgproc_local.archive.manifest_process import ManifestProcess
from imgproc_local.archive.picture import PendingPicture
from imgproc_local.archive.row import Problem, Row, with_earlier_results
from imgproc_local.archive.store import SourceObject, Store
from imgproc_local.archive.worker import PictureSummary, RunSpec, run_task, summary_of
from imgproc_local.batch.files import ResultFile
from imgproc_local.domain.errors import ServiceError, SettingInvalid
from imgproc_local.system.files import encodable_text

if TYPE_CHECKING:
    from distributed import Client, Future

IN_FLIGHT_PER_THREAD = 3
"""Dask queues tasks on the scheduler only if there are more than two per thread. A death affects no queued tasks."""
DEATHS_IN_GROUP = 2
"""A picture is processed alone after this many workers died while processing it."""
DEATHS_ALONE = 2
"""A picture that is processed alone is recorded as failed after this many more deaths."""
MAX_ATTEMPTS = 3
"""Attempts of a task that fails as a whole, for example because the disk of a worker is full."""
MAX_UNBEGUN = 10
"""Attempts of a task whose workers die before its first picture."""
KILLED = "Every worker that processed this picture ended without an answer."


class SchedulerLost(Exception):
    """The connection to the scheduler broke. The tasks that were running may still finish."""


class Attempt(Struct, frozen=True):
    """An attempt to process a group of pictures as one task of Dask.

    `failures` counts the attempts in a row before this one that failed, `unbegun` those whose worker died before the
    first picture. `name` is that of the task's part and mark; it is "" until the attempt is submitted.
    """

    pictures: tuple[PendingPicture, ...]
    failures: int = 0
    unbegun: int = 0
    name: str = ""


class Submitter:
    """Runs groups of pictures on the clusters of one run, one cluster after the other.

    `on_done` receives the name of the part of each task that finished, and the summaries of its pictures. The names of
    parts and marks begin with `run_id`. When `stop` is set, no more tasks are begun.
    """

    def __init__(
        self,
        spec: RunSpec,
        target: Store,
        run_id: str,
        on_done: Callable[[str, Sequence[PictureSummary]], None],
        stop: threading.Event,
    ) -> None:
        self._spec = spec
        self._target = target
        self._run_id = run_id
        self._on_done = on_done
        self._stop = stop
        self._number = 0
        self._in_flight: dict[str, Attempt] = {}
        self._deaths: collections.Counter[str] = collections.Counter()

    def run(self, client: Client, groups: Iterable[Sequence[PendingPicture]]) -> None:
        """Return when every picture of the groups has a row, or when the running tasks have ended after a stop.

        Raises: SchedulerLost; ServiceError, or what a task raised at its last attempt.
        """
        from distributed import as_completed
        from distributed.comm.core import CommClosedError

        remaining = (Attempt(tuple(group)) for group in groups)
        threads = max(1, sum(client.nthreads().values()))
        try:
            futures = [self._submit(client, each) for each in islice(remaining, IN_FLIGHT_PER_THREAD * threads)]
            running: Any = as_completed(futures, loop=client.loop)
            for future in running:
                attempt = self._in_flight.pop(future.key)
                following = list(self._following(future, attempt))
                future.release()
                if self._stop.is_set():
                    self._cancel_unbegun(client, running.futures)
                    continue
                for each in following or islice(remaining, 1):
                    running.add(self._submit(client, each))
        except (CommClosedError, TimeoutError) as error:
            raise SchedulerLost from error

    def forget_in_flight(self) -> None:
        """After `SchedulerLost`: report the tasks that have stored their part, and forget all of them."""
        attempts = list(self._in_flight.values())
        self._in_flight.clear()
        with ManifestProcess() as process:
            for attempt in attempts:
                if not self._report_stored(process, attempt):
                    self._target.remove(mark_key(attempt.name))

    def _report_stored(self, process: ManifestProcess, attempt: Attempt) -> bool:
        """Report a task whose answer was lost, from the part that it stored. False if it stored none."""
        try:
            content = self._target.read(part_key(attempt.name))
        except FileNotFoundError:
            return False
        self._on_done(attempt.name, [summary_of(row) for row in process.call(decode_rows, content)])
        return True

    def _submit(self, client: Client, attempt: Attempt) -> Future[list[PictureSummary]]:
        self._number += 1
        name = f"{self._run_id}-{self._number:07d}"
        key = f"archive-{name}"  # the scheduler queues only tasks that share a prefix
        self._in_flight[key] = structs.replace(attempt, name=name)
        return client.submit(run_task, self._spec, attempt.pictures, name, key=key, pure=False)

    def _cancel_unbegun(self, client: Client, futures: Iterable[Future[list[PictureSummary]]]) -> None:
        running = {key for keys in client.processing().values() for key in keys}
        client.cancel([future for future in futures if future.key not in running])

    def _following(self, future: Future[list[PictureSummary]], attempt: Attempt) -> Iterator[Attempt]:
        """The attempts to submit after one has ended; none if it finished."""
        from distributed import KilledWorker

        error: BaseException | None
        if future.status == "finished":
            try:
                # the answer is still on the worker, and if that has died meanwhile, the task is run once more
                summaries = future.result()
            except KilledWorker as killed:
                error = killed
            else:
                self._on_done(attempt.name, summaries)
                return
        elif future.status in ("cancelled", "lost"):
            if self._stop.is_set():
                return
            self._in_flight[str(future.key)] = attempt
            raise SchedulerLost
        else:
            error = future.exception()
        if isinstance(error, KilledWorker):
            yield from self._after_death(attempt)
        elif isinstance(error, SettingInvalid):
            raise error
        elif attempt.failures + 1 >= MAX_ATTEMPTS:
            if error is None or isinstance(error, ServiceError):
                raise error or ServiceError("A task of Dask ended without an answer.")
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ServiceError(
                f"A worker can't process a task ({reason}). See its log, and install the same version of the program"
                " and of its packages on every machine."
            ) from error
        else:
            yield Attempt(attempt.pictures, attempt.failures + 1)

    def _after_death(self, attempt: Attempt) -> Iterator[Attempt]:
        """The attempts to submit after a worker died; none if it had stored the part of its task."""
        with ManifestProcess() as process:
            is_stored = self._report_stored(process, attempt)
        if is_stored:
            self._target.remove(mark_key(attempt.name))
            return
        suspect = self._marked(attempt)
        if suspect is None:
            if attempt.unbegun + 1 >= MAX_UNBEGUN:
                raise ServiceError("Workers end before they begin a picture. See the log of a worker for the reason.")
            yield Attempt(attempt.pictures, unbegun=attempt.unbegun + 1)
            return
        self._deaths[suspect.picture.key] += 1
        deaths = self._deaths[suspect.picture.key]
        others = tuple(each for each in attempt.pictures if each is not suspect)
        if deaths >= DEATHS_IN_GROUP + DEATHS_ALONE:
            options = self._spec.request.options_hash
            self._on_done(attempt.name, [record_killed(self._target, options, suspect, attempt.name)])
            if others:
                yield Attempt(others)
        elif deaths >= DEATHS_IN_GROUP and others:
            yield Attempt(others)
            yield Attempt((suspect,))
        else:
            yield Attempt(attempt.pictures)

    def _marked(self, attempt: Attempt) -> PendingPicture | None:
        """The picture that the worker was processing when it died; None if the task had not begun."""
        try:
            key = self._target.read(mark_key(attempt.name)).decode("utf-8", "surrogateescape")
        except FileNotFoundError:
            return None
        self._target.remove(mark_key(attempt.name))
        return next((each for each in attempt.pictures if each.picture.key == key), None)


def record_killed(target: Store, options: str, pending: PendingPicture, name: str) -> PictureSummary:
    """Store the row of a picture that kills its workers, as the part `name`."""
    source = encodable_text(pending.picture.key)
    earlier: list[Row] = []
    with ManifestProcess() as process:
        if pending.earlier_part:
            earlier = process.call(rows_of, target.read(pending.earlier_part), (source,))
        row = killed_row(options, pending.picture, earlier[0] if earlier else None, target)
        target.replace(part_key(name), process.call(encode_rows, [row]))
    return summary_of(row)


def killed_row(options: str, picture: SourceObject, earlier: Row | None, target: Store) -> Row:
    """The row of a picture that no worker could process, with the results of an earlier run that are still there.

    A worker that was killed may have replaced some of them, so their SHA-256 is compared.
    """
    row = Row(
        source=encodable_text(picture.key),
        version=picture.version,
        size_bytes=picture.size_bytes,
        options=options,
        outcome="failed",
        failure="worker",
        problems=(Problem(None, KILLED),),
    )
    if earlier is not None:
        earlier = structs.replace(
            earlier,
            optimized=_if_unchanged(target, earlier.optimized),
            converted=_if_unchanged(target, earlier.converted),
            sidecar=_if_unchanged(target, earlier.sidecar),
        )
    return with_earlier_results(row, earlier)


def _if_unchanged(target: Store, file: ResultFile | None) -> ResultFile | None:
    try:
        return file if file is not None and target.sha256(file.path) == file.sha256 else None
    except FileNotFoundError:
        return None
