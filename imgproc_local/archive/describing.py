"""Sends pictures to the workers that have the vision model, before other workers make their files.

Each of these workers is sent one task at a time. Dask does not queue tasks that need a resource: it would send several
to a worker, and if that died, each of them would count as the cause.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from msgspec import structs

from imgproc_local.archive.cluster import VISION
from imgproc_local.archive.picture import PendingPicture
from imgproc_local.archive.worker import RunSpec, describe
from imgproc_local.batch.request import BatchRequest
from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import STAGES
from imgproc_local.engine.direct import StageResult

if TYPE_CHECKING:
    from distributed import Client

PICTURES_PER_TASK = 4
"""Few, because a model on a CPU takes 5 to 20 s for a picture."""
TASKS_PER_WORKER = 3
"""Tasks that run or wait in this process. More than one, so that no worker waits for the listing."""
MAX_DEATHS = 3
"""A picture is not described after this many workers died while it was the only one of their task."""
KILLED = "Every worker that described this picture ended without an answer."


def needs_texts(request: BatchRequest) -> bool:
    """Whether the request asks for texts."""
    return any(StageName.ANALYZE in STAGES[plan.operation] for plan in request.plans)


def count_vision_workers(client: Client) -> int:
    """The number of workers that have the resource `VISION`."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return sum(bool(worker.get("resources", {}).get("VISION")) for worker in workers)


class DescribingPool:
    """Adds the results of the analyze stage to pictures. `workers` is how many workers have the vision model."""

    def __init__(self, client: Client, spec: RunSpec, workers: int) -> None:
        self._client = client
        self._spec = spec
        self._workers = workers
        self._numbers = itertools.count(1)

    def described(self, pictures: Iterable[PendingPicture]) -> Iterator[PendingPicture]:
        """The pictures with these results, in the order in which tasks end. Raises: what a worker raised."""
        remaining = iter(pictures)
        running: set[Future[list[PendingPicture]]] = set()
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

    def _describe(self, group: Sequence[PendingPicture]) -> list[PendingPicture]:
        """Runs in a thread of its own, one per worker that has the model."""
        from distributed import KilledWorker

        pictures = [each.picture for each in group]
        for _ in range(MAX_DEATHS):
            key = f"describe-{self._client.id}-{next(self._numbers)}"
            future = self._client.submit(
                describe, self._spec, pictures, key=key, resources=VISION, priority=1, pure=False
            )
            try:
                results = future.result()
            except KilledWorker:
                if len(group) > 1:  # it is not known which of them the worker was describing
                    return [described for each in group for described in self._describe((each,))]
                continue
            finally:
                future.release()
            return [structs.replace(each, described=result) for each, result in zip(group, results, strict=True)]
        killed = StageResult(StageName.ANALYZE, None, KILLED, 0.0)
        return [structs.replace(each, described=killed) for each in group]
