"""Has pictures described on the workers that have the vision model, before other workers make their files.

A worker is given one task at a time: Dask does not hold back tasks that need a resource, so that a second one would
wait on the worker and be blamed if it dies.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from msgspec import structs

from imgproc_local.archive.cluster import VISION
from imgproc_local.archive.picture import Task
from imgproc_local.archive.worker import Job, describe
from imgproc_local.batch.request import Request
from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import STAGES
from imgproc_local.engine.direct import StageResult

if TYPE_CHECKING:
    from distributed import Client

PICTURES_PER_TASK = 4
"""A model on a processor takes 5 to 20 s for a picture."""
TASKS_PER_WORKER = 3
"""Tasks that run or wait in this process, so that a worker need not wait for the listing."""
MAX_DEATHS = 3
"""A picture that was alone in a task when this many workers died is not described."""
KILLED = "Every worker that described this picture ended without an answer."


def needs_texts(request: Request) -> bool:
    """Whether the request asks for texts."""
    return any(StageName.ANALYZE in STAGES[plan.operation] for plan in request.plans)


def describing_workers(client: Client) -> int:
    """The number of workers that have the vision model, by their resources."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return sum(bool(worker.get("resources", {}).get("VISION")) for worker in workers)


class Describing:
    """Adds to tasks what the vision model makes of their pictures. `workers` is the number of workers that have it."""

    def __init__(self, client: Client, job: Job, workers: int) -> None:
        self._client = client
        self._job = job
        self._workers = workers
        self._numbers = itertools.count(1)

    def described(self, tasks: Iterable[Task]) -> Iterator[Task]:
        """The tasks with their texts, as they are described. Raises: what a worker raised."""
        remaining = iter(tasks)
        running: set[Future[list[Task]]] = set()
        pool = ThreadPoolExecutor(self._workers, thread_name_prefix="describing")
        try:
            while True:
                while len(running) < TASKS_PER_WORKER * self._workers:
                    group = tuple(itertools.islice(remaining, PICTURES_PER_TASK))
                    if not group:
                        break
                    running.add(pool.submit(self._describe, group))
                if not running:
                    return
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    yield from future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _describe(self, tasks: Sequence[Task]) -> list[Task]:
        """Runs in a thread of its own, one per worker that has the model."""
        from distributed import KilledWorker

        pictures = [task.picture for task in tasks]
        for _ in range(MAX_DEATHS):
            key = f"describe-{self._client.id}-{next(self._numbers)}"
            future = self._client.submit(
                describe, self._job, pictures, key=key, resources=VISION, priority=1, pure=False
            )
            try:
                results = future.result()
            except KilledWorker:
                if len(tasks) > 1:  # which of them was in work is not known
                    return [described for task in tasks for described in self._describe((task,))]
                continue
            finally:
                future.release()
            return [structs.replace(task, described=result) for task, result in zip(tasks, results, strict=True)]
        killed = StageResult(StageName.ANALYZE, None, KILLED, 0.0)
        return [structs.replace(task, described=killed) for task in tasks]
