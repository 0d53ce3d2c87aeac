"""Pictures are described by the workers that have the vision model, also if these die. Dask is replaced by a double."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import pytest

from imgproc_local.archive.describing import KILLED, MAX_DEATHS, DescribingPool
from imgproc_local.archive.picture import PendingPicture
from imgproc_local.archive.store import SourceObject
from imgproc_local.archive.worker import RunSpec
from imgproc_local.batch.request import BatchRequest
from imgproc_local.domain.job import StageName
from imgproc_local.engine.direct import StageResult
from imgproc_local.engine.stage import Output

distributed = pytest.importorskip("distributed")

SPEC = RunSpec("/source", "/target", BatchRequest((), ("en",), ""), {}, "tiny")
PICTURES = [PendingPicture(SourceObject(f"{number:02}.jpg", 1, "")) for number in range(20)]
Describe = Callable[[Sequence[SourceObject]], list[StageResult]]


class Answer:
    """A future of Dask that is resolved in the thread that asks for its result."""

    def __init__(self, client: Cluster, pictures: Sequence[SourceObject]) -> None:
        self.client = client
        self.pictures = pictures

    def result(self) -> list[StageResult]:
        with self.client.lock:
            self.client.running += 1
            self.client.most_running = max(self.client.most_running, self.client.running)
        try:
            time.sleep(0.02)
            return self.client.describe(self.pictures)
        finally:
            with self.client.lock:
                self.client.running -= 1

    def release(self) -> None:
        pass


class Cluster:
    """A client of Dask whose workers describe by `describe`."""

    id = "double"

    def __init__(self, describe: Describe) -> None:
        self.describe = describe
        self.lock = threading.Lock()
        self.running = self.most_running = 0
        self.keys: list[str] = []

    def submit(
        self, _function: object, _spec: RunSpec, pictures: Sequence[SourceObject], *, key: str, **options: object
    ) -> Answer:
        assert options["resources"] == {"VISION": 1}
        self.keys.append(key)
        return Answer(self, pictures)


def described(pictures: Sequence[SourceObject]) -> list[StageResult]:
    return [StageResult(StageName.ANALYZE, Output(), picture.key, 1.0) for picture in pictures]


def killed() -> Exception:
    return distributed.KilledWorker("describe", None, 0)


def test_every_picture_is_described_once_and_each_worker_has_one_task_at_a_time() -> None:
    cluster = Cluster(described)
    results = list(DescribingPool(cluster, SPEC, workers=2).described(iter(PICTURES)))
    assert sorted(each.picture.key for each in results) == [each.picture.key for each in PICTURES]
    assert all(each.described is not None and each.described.error == each.picture.key for each in results)
    assert cluster.most_running == 2


def test_a_picture_that_kills_its_workers_is_not_described_and_the_others_are() -> None:
    def describe(pictures: Sequence[SourceObject]) -> list[StageResult]:
        if any(picture.key == "07.jpg" for picture in pictures):
            raise killed()
        return described(pictures)

    cluster = Cluster(describe)
    results = {each.picture.key: each.described for each in DescribingPool(cluster, SPEC, 1).described(PICTURES)}
    assert len(results) == len(PICTURES)
    failed = {key: result.error for key, result in results.items() if result is not None and result.output is None}
    assert failed == {"07.jpg": KILLED}
    assert len(cluster.keys) == len(set(cluster.keys)), "each attempt has a key of its own"


def test_an_innocent_picture_is_described_after_its_workers_died() -> None:
    deaths = iter([True] * (MAX_DEATHS - 1))

    def describe(pictures: Sequence[SourceObject]) -> list[StageResult]:
        if next(deaths, False):
            raise killed()
        return described(pictures)

    results = list(DescribingPool(Cluster(describe), SPEC, 1).described(PICTURES[:1]))
    assert [each.described.output for each in results if each.described is not None] == [Output()]


def test_other_errors_end_the_run() -> None:
    def describe(_: Sequence[SourceObject]) -> list[StageResult]:
        raise OSError("the target is full")

    with pytest.raises(OSError, match="the target is full"):
        list(DescribingPool(Cluster(describe), SPEC, 1).described(PICTURES))
