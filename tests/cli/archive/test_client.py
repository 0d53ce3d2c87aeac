"""Which tasks follow each other when workers die, and when some workers have the vision model. Dask is a double."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

from distributed import Client, KilledWorker

from imgproc_local.archive import client as client_module
from imgproc_local.archive import run as run_module
from imgproc_local.archive.client import KILLED, SchedulerLost, Submitter
from imgproc_local.archive.manifest import PendingPicture, Row
from imgproc_local.archive.run import Arguments, Counts, _Processing
from imgproc_local.archive.stores import LocalStore, SourceObject
from imgproc_local.archive.worker import RunSpec, describe, process
from imgproc_local.batch.request import BatchRequest
from imgproc_local.domain.errors import ServiceError, StorageFailed
from imgproc_local.domain.job import StageName
from imgproc_local.engine.direct import StageResult
from imgproc_local.engine.stage import Output

SPEC = RunSpec("/source", "/target", BatchRequest((), ("en",), "options"), {}, "tiny")
PICTURES = [PendingPicture(SourceObject(f"{number:02}.jpg", 1, "1")) for number in range(20)]
Answer = Callable[[str], Any]


class Task:
    """A future of Dask whose task runs when its result is asked for."""

    status = "finished"

    def __init__(self, cluster: Cluster, key: str, function: object, argument: Any) -> None:
        self.cluster, self.key, self.function = cluster, key, function
        self.pending = argument if isinstance(argument, PendingPicture) else PendingPicture(argument)

    def result(self) -> Any:
        source = self.pending.picture.key
        answer = (self.cluster.describe if self.function is describe else self.cluster.process)(source)
        if isinstance(answer, Exception):
            self.status = "error"
            raise answer
        described = self.pending.described.error if self.pending.described is not None else "by itself"
        if self.function is process:
            return Row(source=source, version=described, size_bytes=1, options="", outcome="done")
        return StageResult(StageName.ANALYZE, Output(), f"described {source}", 1.0)


class Cluster:
    """A client of Dask. `describe` and `process` return what a task raises for a source, or None."""

    id, loop = "double", None

    def __init__(self) -> None:
        self.describe: Answer = lambda _: None
        self.process: Answer = lambda _: None
        self.waiting: list[Task] = []
        self.keys: list[str] = []
        self.most_described = self.most_waiting = 0

    def nthreads(self) -> dict[str, int]:
        return {"tcp://one": 1, "tcp://two": 1}

    def submit(self, function: object, *arguments: Any, key: str, **options: Any) -> Task:
        assert ("resources" in options) == (function is describe)
        self.keys.append(key)
        return Task(self, key, function, arguments[-1] if arguments else SourceObject("", 0, ""))

    def add(self, task: Task) -> None:
        self.waiting.append(task)
        self.most_waiting = max(self.most_waiting, len(self.waiting))
        describing = sum(each.function is describe for each in self.waiting)
        self.most_described = max(self.most_described, describing)

    def __iter__(self) -> Iterator[Task]:
        return self

    def __next__(self) -> Task:
        if not self.waiting:
            raise StopIteration
        return self.waiting.pop(0)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    monkeypatch.setattr(client_module, "as_completed", lambda loop: cluster)
    return cluster


def run(cluster: Cluster, folder: Path, vision_workers: int = 0) -> dict[str, Row]:
    submitter = Submitter(cast(Client, cluster), SPEC, LocalStore(folder), vision_workers)
    rows = list(submitter.rows(iter(PICTURES), threading.Event()))
    assert sorted(row.source for row in rows) == [each.picture.key for each in PICTURES]
    assert len(cluster.keys) == len(set(cluster.keys)), "each attempt has a key of its own"
    return {row.source: row for row in rows}


def killed() -> Exception:
    return KilledWorker("task", cast(Any, None), 1)


def test_a_bounded_number_of_tasks_is_submitted_and_each_picture_has_a_row(cluster: Cluster, tmp_path: Path) -> None:
    assert {row.version for row in run(cluster, tmp_path).values()} == {"by itself"}
    assert cluster.most_waiting == 6


def test_pictures_are_described_by_the_workers_that_have_the_model(cluster: Cluster, tmp_path: Path) -> None:
    rows = run(cluster, tmp_path, vision_workers=1)
    assert all(row.version == f"described {source}" for source, row in rows.items())
    assert cluster.most_described == 1


def test_a_picture_that_ends_its_workers_is_recorded_and_the_others_are_done(cluster: Cluster, tmp_path: Path) -> None:
    cluster.process = lambda source: killed() if source == "07.jpg" else None
    rows = run(cluster, tmp_path)
    assert [row.problems[0].message for row in rows.values() if row.failure == "worker"] == [KILLED]
    assert rows["07.jpg"].outcome == "failed"
    assert len(cluster.keys) == 5 + 20 + 1, "a task that has killed its workers is submitted once more"


def test_a_picture_that_ends_the_workers_that_describe_is_processed(cluster: Cluster, tmp_path: Path) -> None:
    cluster.describe = lambda source: killed() if source == "07.jpg" else None
    assert run(cluster, tmp_path, vision_workers=2)["07.jpg"].version == KILLED


def test_a_picture_whose_workers_died_once_is_done(cluster: Cluster, tmp_path: Path) -> None:
    deaths = iter([killed()])
    cluster.process = lambda source: next(deaths, None) if source == "00.jpg" else None
    assert run(cluster, tmp_path)["00.jpg"].outcome == "done"


@pytest.mark.parametrize(
    ("error", "message"),
    [(StorageFailed("The target is full."), "The target is full"), (KeyError("x"), "can't process a task .KeyError")],
)
def test_other_errors_of_a_task_end_the_run(cluster: Cluster, tmp_path: Path, error: Exception, message: str) -> None:
    cluster.process = lambda _: error
    with pytest.raises(ServiceError, match=message):
        run(cluster, tmp_path)


def test_a_task_that_was_lost_with_its_scheduler_is_no_failure(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Task, "status", "cancelled")
    with pytest.raises(SchedulerLost):
        run(cluster, tmp_path)


@pytest.mark.parametrize(
    ("workers", "scheduler", "with_model", "describing", "model"),
    [(4, None, 1, 1, "tiny"), (1, None, 1, 0, "tiny"), (1, "tls://a:1", 1, 1, "tiny"), (4, None, 0, 0, "")],
    ids=["some", "the only one", "the first to connect", "none"],
)
def test_workers_that_have_the_model_describe_for_the_others(
    monkeypatch: pytest.MonkeyPatch, workers: int, scheduler: str | None, with_model: int, describing: int, model: str
) -> None:
    submitted: list[tuple[str, int]] = []

    class Double:
        def __init__(self, _client: object, spec: RunSpec, _target: object, vision_workers: int) -> None:
            submitted.append((spec.model, vision_workers))

        def rows(self, *_: object) -> Iterator[Row]:
            return iter(())

    monkeypatch.setattr(run_module, "Submitter", Double)
    monkeypatch.setattr(run_module, "dashboard_link", lambda _: None)
    counts = iter((with_model, 0))
    monkeypatch.setattr(run_module, "count_vision_workers", lambda _: next(counts))
    arguments = Arguments("/source", "/target", workers, scheduler)
    none = cast(Any, None)
    processing = _Processing(arguments, none, SPEC, none, none, None, Counts(), lambda _: None, threading.Event())
    for _ in range(2):  # the second time after the scheduler was lost
        processing._run_on(none)
    assert submitted == [(model, describing)] * 2
