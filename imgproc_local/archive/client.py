"""The client: submits tasks to Dask, a bounded number at a time, and finds the pictures that kill their workers.

Dask's own retries do not count the deaths of workers, so each attempt of a task is submitted under a new key. A picture
that was in work at two deaths is processed alone; if its worker dies again, it is listed as failed.
"""

from __future__ import annotations

import collections
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from imgproc_local.archive.manifest import encode_rows, mark_key, part_key
from imgproc_local.archive.picture import Task
from imgproc_local.archive.row import Problem, Row
from imgproc_local.archive.store import Store
from imgproc_local.archive.worker import Job, PictureSummary, run_task
from imgproc_local.system.files import encodable_text

if TYPE_CHECKING:
    from distributed import Client, Future

IN_FLIGHT_PER_THREAD = 3
"""If there are more than two tasks a thread, Dask holds them back on the scheduler, so that a death blames only one."""
STRIKES = 2
"""A picture that was in work at this many deaths of workers is processed alone."""
KILLED = "Every worker that processed this picture ended without an answer."


class _Attempt(Struct, frozen=True):
    name: str
    tasks: tuple[Task, ...]


class Submitter:
    """Runs groups of pictures on a cluster. `on_done` receives the summaries of each task that ended."""

    def __init__(
        self, client: Client, job: Job, target: Store, on_done: Callable[[Sequence[PictureSummary]], None]
    ) -> None:
        self._client = client
        self._job = job
        self._target = target
        self._on_done = on_done
        self._run_id = secrets.token_hex(4)
        self._number = 0
        self._live: dict[str, _Attempt] = {}
        self._strikes: collections.Counter[str] = collections.Counter()

    def run(self, groups: Iterable[Sequence[Task]]) -> None:
        """Return when every picture of the groups has a row. Raises: ServiceError, what a task raised."""
        from distributed import as_completed

        remaining = iter(groups)
        threads = max(1, sum(self._client.nthreads().values()))
        running: Any = as_completed(
            [self._submit(group) for group in islice(remaining, IN_FLIGHT_PER_THREAD * threads)],
            loop=self._client.loop,
        )
        for future in running:
            attempt = self._live.pop(future.key)
            for group in self._ended(future, attempt) or islice(remaining, 1):
                running.add(self._submit(group))

    def _submit(self, tasks: Sequence[Task]) -> Future[list[PictureSummary]]:
        self._number += 1
        name = f"{self._run_id}-{self._number:07d}"
        key = f"archive-{name}"  # one prefix: one group of tasks, so that the scheduler holds them back
        self._live[key] = _Attempt(name, tuple(tasks))
        return self._client.submit(run_task, self._job, tuple(tasks), name, key=key, pure=False)

    def _ended(self, future: Future[list[PictureSummary]], attempt: _Attempt) -> Sequence[Sequence[Task]]:
        """What has to be submitted in place of a task: nothing if it finished."""
        from distributed import KilledWorker

        if future.status == "finished":
            self._on_done(future.result())
            future.release()
            return ()
        error = future.exception()
        future.release()
        if not isinstance(error, KilledWorker):
            raise error
        return list(self._after_death(attempt))

    def _after_death(self, attempt: _Attempt) -> Iterator[Sequence[Task]]:
        suspect = self._marked(attempt)
        if suspect is None:
            yield attempt.tasks
            return
        self._strikes[suspect.picture.key] += 1
        rest = tuple(task for task in attempt.tasks if task is not suspect)
        if self._strikes[suspect.picture.key] < STRIKES:
            yield attempt.tasks
        elif rest:
            yield rest
            yield (suspect,)
        elif self._strikes[suspect.picture.key] == STRIKES:
            yield (suspect,)
        else:
            self._list(suspect, attempt.name)

    def _marked(self, attempt: _Attempt) -> Task | None:
        """The picture that was in work when the worker died; None if the task had not begun."""
        try:
            key = self._target.read(mark_key(attempt.name)).decode("utf-8", "surrogateescape")
        except FileNotFoundError:
            return None
        self._target.remove(mark_key(attempt.name))
        return next((task for task in attempt.tasks if task.picture.key == key), None)

    def _list(self, task: Task, name: str) -> None:
        """Store the row of a picture that kills its workers."""
        picture = task.picture
        row = Row(
            source=encodable_text(picture.key),
            version=picture.version,
            size_bytes=picture.size_bytes,
            options=self._job.request.options_hash,
            outcome="failed",
            failure="worker",
            problems=(Problem(None, KILLED),),
        )
        self._target.replace(part_key(name), encode_rows([row]))
        self._on_done([PictureSummary(row.source, "failed", "worker", row.size_bytes, None, False, 0.0)])
