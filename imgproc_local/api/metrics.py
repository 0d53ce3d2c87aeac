"""What the service counts and measures for Prometheus. `packaging/README.md` says what each metric means.

Invariant: clients can't make new time series: a route is a template, and unknown routes and methods count as one.
"""

from __future__ import annotations

import math
import shutil
from functools import partial
from itertools import product

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector

from imgproc_local import __version__
from imgproc_local.compose import Services
from imgproc_local.domain.errors import StageCancelled, StorageFailed
from imgproc_local.domain.job import StageName
from imgproc_local.engine.pipeline import Outcome
from imgproc_local.engine.stage import Output

UNMATCHED = "unmatched"
"""The `route` of requests that match no route. Clients choose their paths, which would make any number of series."""
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_BUCKETS_S = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_REQUEST = ("method", "route", "status")
_OUTCOMES = {Output: "done", StageCancelled: "cancelled", StorageFailed: "repeated"}
"""The word for each outcome of a stage; all other errors are `failed`. A stage without room or worker runs again."""

prometheus_client.disable_created_metrics()  # a second series for each one, with the time of its first sample


class Metrics:
    """The metrics of one application, in a registry of their own."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._registry = own = CollectorRegistry()
        durations = partial(Histogram, registry=own, buckets=_BUCKETS_S)
        self._requests = Counter("imgproc_requests", "Requests that were answered.", _REQUEST, registry=own)
        self._request_s = durations("imgproc_request_duration_seconds", "Time until the answer began.", _REQUEST)
        self._stage_s = durations("imgproc_stage_duration_seconds", "Time of a stage.", ("stage", "outcome"))
        self._queue = Gauge("imgproc_queue_stages", "Stages that wait or run.", ("lane", "state"), registry=own)
        self._stored = Gauge("imgproc_stored_bytes", "Bytes of the files of jobs, each counted once.", registry=own)
        self._disk = Gauge("imgproc_disk_free_bytes", "Free bytes of the disk of the data folder.", registry=own)
        deaths = Counter("imgproc_worker_deaths", "Workers that crashed or needed too much memory.", registry=own)
        Info("imgproc_build", "The version that runs.", registry=own).info({"version": __version__})
        ProcessCollector(registry=own)
        for stage, word in product(StageName, (*_OUTCOMES.values(), "failed")):
            self._stage_s.labels(stage, word)  # so that there is a zero
        services.engine.stage_observers.append(self._stage_ended)
        services.engine.workers.death_observers.append(deaths.inc)

    def answered(self, method: str, route: str, status: int, duration_s: float) -> None:
        """Count a request whose answer begins."""
        labels = (method if method in _METHODS else "other", route, str(status))
        self._requests.labels(*labels).inc()
        self._request_s.labels(*labels).observe(duration_s)

    def _stage_ended(self, stage: StageName, outcome: Outcome, duration_s: float) -> None:
        word = next((word for kind, word in _OUTCOMES.items() if isinstance(outcome, kind)), "failed")
        self._stage_s.labels(stage, word).observe(duration_s)

    async def read_state(self) -> None:
        """Read the states that the database has. If it can't be read, the queue is left out, and the bytes are NaN."""
        try:
            depths = {(lane, state): count for lane, state, count in await self._services.jobs.queue_depths()}
            self._stored.set(await self._services.jobs.stored_bytes())
        except StorageFailed:
            self._queue.clear()
            self._stored.set(math.nan)
            return
        for lane, state in product(set(self._services.engine.lanes.values()), ("pending", "running")):
            self._queue.labels(lane, state).set(depths.get((lane, state), 0))

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format, version 0.0.4. Without the data folder, the free bytes are NaN."""
        try:
            self._disk.set(shutil.disk_usage(self._services.config.data_dir).free)
        except OSError:
            self._disk.set(math.nan)
        return prometheus_client.generate_latest(self._registry)
