"""Which tasks follow each other when workers die, and when some workers have the vision model. Dask is a double."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
from msgspec import structs

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

from distributed import Client, KilledWorker
from distributed.comm.core import CommClosedError

from imgproc_local.archive import run as run_module
from imgproc_local.archive.picture import PendingPicture, Row
from imgproc_local.archive.run import _KILLED, _Submitter
from imgproc_local.archive.stores import LocalStore, SourceObject
from imgproc_local.archive.worker import RunSpec, describe
from imgproc_local.batch import BatchRequest
from imgproc_local.domain.errors import ServiceError, StorageFailed
from imgproc_local.domain.job import StageName
from imgproc_local.engine.pipeline import StageResult
from imgproc_local.engine.stage import Output

PICTURES = [PendingPicture(SourceObject(f"{number:02}.jpg", 1, "1")) for number in range(20)]
SPEC = RunSpec("/source", "/target", BatchRequest((), ("en",), "options"), {})
Answer = Callable[[str], Any]


class Task:
    """A future of Dask whose task runs when its result is asked for."""

    status = "finished"

    def __init__(self, key: str, answer: Answer, function: object, pending: PendingPicture) -> None:
        self.key, self.answer, self.function, self.pending = key, answer, function, pending

    def result(self) -> Any:
        source, described = self.pending.picture.key, self.pending.described
        answer = self.answer(source)
        if isinstance(answer, Exception):
            self.status = "cancelled" if isinstance(answer, CancelledError) else "error"
            raise answer
        if self.function is describe:
            return StageResult(StageName.ANALYZE, Output(), f"described {source}", 1.0)
        version = described.error if described is not None else "by itself"
        return Row(source=source, version=version, size_bytes=1, options="")


class Cluster:
    """A client of Dask. `describe` and `process` return what a task raises for a source, or None."""

    id, loop = "double", None

    def __init__(self) -> None:
        self.describe: Answer = lambda _: None
        self.process: Answer = lambda _: None
        self.waiting: list[Task] = []
        self.most_described = self.most_waiting = 0
        self.resources: list[dict[str, int]] = [{}, {}]

    def nthreads(self) -> dict[str, int]:
        return {"tcp://one": 1, "tcp://two": 1}

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {str(number): {"resources": each} for number, each in enumerate(self.resources)}}

    def submit(self, function: object, *arguments: Any, key: str, **options: Any) -> Task:
        assert ("resources" in options) == (function is describe)
        answer = self.describe if function is describe else self.process
        return Task(key, answer, function, arguments[-1] if arguments else PICTURES[0])

    def add(self, task: Task) -> None:
        self.waiting.append(task)
        self.most_waiting = max(self.most_waiting, len(self.waiting))
        self.most_described = max(self.most_described, sum(each.function is describe for each in self.waiting))

    def __next__(self) -> Task:
        if not self.waiting:
            raise StopIteration
        return self.waiting.pop(0)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    monkeypatch.setattr(run_module, "as_completed", lambda loop: cluster)
    return cluster


def run(cluster: Cluster, folder: Path, model: str = "") -> dict[str, Row]:
    spec = structs.replace(SPEC, model=model)
    submitter = _Submitter(cast(Client, cluster), spec, LocalStore(folder), threading.Event())
    rows = list(submitter.rows(iter(PICTURES)))
    assert sorted(row.source for row in rows) == [each.picture.key for each in PICTURES]
    return {row.source: row for row in rows}


def test_a_bounded_number_of_tasks_is_submitted_and_errors_that_are_no_pictures_end_the_run(
    cluster: Cluster, tmp_path: Path
) -> None:
    assert {row.version for row in run(cluster, tmp_path).values()} == {"by itself"}
    assert cluster.most_waiting == 6
    full = StorageFailed("The target is full.")
    for error, message in ((full, "The target is full"), (KeyError("x"), "can't process a task .KeyError")):
        cluster.process = lambda _, error=error: error  # type: ignore[misc]
        with pytest.raises(ServiceError, match=message):
            run(cluster, tmp_path)
        cluster.waiting.clear()


def test_pictures_are_described_by_the_workers_that_have_the_model(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="none has the resource VISION"):
        run(cluster, tmp_path, "tiny")
    cluster.resources[0]["VISION"] = 1
    killed = KilledWorker("task", cast(Any, None), 1)
    cluster.describe = lambda source: killed if source == "07.jpg" else None
    rows = run(cluster, tmp_path, "tiny")
    assert cluster.most_described == 1
    assert rows.pop("07.jpg").version == _KILLED, "it is processed without a description"
    assert all(row.version == f"described {source}" for source, row in rows.items())


def test_a_run_whose_scheduler_is_lost_ends_and_says_that_it_can_be_continued(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.process = lambda source: CancelledError() if source == "05.jpg" else None
    with pytest.raises(ServiceError, match="The same command again continues"):
        run(cluster, tmp_path)
    monkeypatch.setattr(cluster, "submit", Mock(side_effect=CommClosedError))  # before the first picture
    with pytest.raises(ServiceError, match="The same command again continues"):
        run(cluster, tmp_path)
