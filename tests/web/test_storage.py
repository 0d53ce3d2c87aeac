"""The disk on the local page: what occupies it, what a prune would remove, and the prune."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from imgproc_local.storage import retention
from imgproc_local.web import storage
from tests.support import pictures
from tests.support.service import Running, running

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def moment() -> list[datetime]:
    """The time of the service, which tests change."""
    return [NOW - timedelta(days=100)]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory, moment: list[datetime]) -> Iterator[Running]:
    """A service with one job that is 100 days old, one of today, and files of every kind."""
    folder = tmp_path_factory.mktemp("data")
    with running(folder, clock=lambda: moment[0]) as service:
        for name, size in (("models/a/text.gguf", 3000), ("thumbnails/aa/x.webp", 200), ("imgproc.db.schema-6", 70)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(bytes(size))
        service.process("optimize", pictures.jpeg(seed=1))
        moment[0] = NOW
        service.process("optimize", pictures.jpeg(seed=2))
        moment[0] = NOW + timedelta(hours=1)
        yield service


@pytest.fixture
def page(old: Running) -> Iterator[httpx.Client]:
    headers = old.page_session()
    with httpx.Client(base_url=old.root, headers=headers, timeout=30) as client:
        yield client


def read(page: httpx.Client, **query: Any) -> dict[str, Any]:
    answer = page.get("/local/storage", params=query)
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json()["data"]
    return data


def stored_bytes(service: Running) -> int:
    folder: Path = service.services.config.data_dir
    return sum(path.stat().st_size for path in (folder / "files").rglob("*") if path.is_file())


def test_every_kind_is_counted(old: Running, page: httpx.Client) -> None:
    data = read(page)
    assert data["jobs"] == 2
    assert (data["originals"]["files"], data["results"]["files"]) == (2, 2)
    assert data["originals"]["size_bytes"] + data["results"]["size_bytes"] == stored_bytes(old)
    assert data["models"] == {"files": 1, "size_bytes": 3000}
    assert data["thumbnails"] == {"files": 1, "size_bytes": 200}
    assert data["backups"] == {"files": 1, "size_bytes": 70}
    assert data["database"]["size_bytes"] >= old.services.config.data_dir.joinpath("imgproc.db").stat().st_size
    assert 0 < data["free_bytes"] < data["disk_bytes"]
    assert data["retention_days"] == {"jobs": 0, "originals": 0, "results": 0}


def test_what_a_prune_would_remove_is_counted(page: httpx.Client) -> None:
    planned = read(page)["prune"]
    assert (planned["older_than_days"], planned["only"]) == (90, "jobs")
    assert (planned["jobs"], planned["files"]) == (1, 2)
    assert read(page, older_than_days=101)["prune"]["jobs"] == 0
    everything = read(page, older_than_days=0)
    assert (
        everything["prune"]["size_bytes"] == everything["originals"]["size_bytes"] + everything["results"]["size_bytes"]
    )
    originals = read(page, older_than_days=0, only="originals")
    assert originals["prune"]["size_bytes"] == originals["originals"]["size_bytes"]


@pytest.mark.parametrize("query", [{"older_than_days": "x"}, {"older_than_days": "40000"}, {"only": "models"}])
def test_an_invalid_query_is_refused(page: httpx.Client, query: dict[str, str]) -> None:
    answer = page.get("/local/storage", params=query)
    assert (answer.status_code, list(answer.json()["errors"])) == (422, list(query))


@pytest.mark.parametrize("body", [{}, {"older_than_days": -1}, {"older_than_days": 1, "only": "models"}, {"days": 3}])
def test_an_invalid_prune_removes_nothing(page: httpx.Client, body: dict[str, Any]) -> None:
    assert page.post("/local/storage/prune", json=body).status_code == 422
    assert read(page)["jobs"] == 2


def test_a_prune_removes_what_was_counted(old: Running, page: httpx.Client) -> None:
    before = stored_bytes(old)
    planned = read(page)["prune"]
    answer = page.post("/local/storage/prune", json={"older_than_days": 90})
    assert (answer.status_code, answer.json()["data"]) == (200, planned)
    assert read(page)["jobs"] == 1
    assert stored_bytes(old) == before - planned["size_bytes"]
    answer = page.post("/local/storage/prune", json={"older_than_days": 0, "only": "originals"})
    assert answer.json()["data"]["files"] == 1
    left = read(page)
    assert (left["jobs"], left["originals"]["files"], left["results"]["files"]) == (1, 0, 1)


def test_a_prune_that_takes_long_is_continued(
    old: Running, page: httpx.Client, moment: list[datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in (3, 4):
        old.process("optimize", pictures.jpeg(64, 48, seed=seed))
    moment[0] += timedelta(hours=1)
    monkeypatch.setattr(retention, "BATCH", 1)
    monkeypatch.setattr(storage, "REMOVE_ROWS_S", 0.0)
    planned = read(page, older_than_days=0)["prune"]
    answers = []
    while not answers or not answers[-1]["is_complete"]:
        answers.append(page.post("/local/storage/prune", json={"older_than_days": 0}).json()["data"])
    assert [answer["jobs"] for answer in answers] == [1] * planned["jobs"] + [0]
    assert sum(answer["files"] for answer in answers) == planned["files"]
    assert read(page)["jobs"] == stored_bytes(old) == 0


def test_a_prune_leaves_what_has_finished_since_it_was_counted(
    old: Running, page: httpx.Client, moment: list[datetime]
) -> None:
    old.process("optimize", pictures.jpeg(64, 48, seed=5))
    moment[0] += timedelta(hours=1)
    counted = read(page, older_than_days=0)
    old.process("optimize", pictures.jpeg(64, 48, seed=6))
    moment[0] += timedelta(hours=1)
    prune = {"older_than_days": 0, "counted_at": counted["counted_at"]}
    assert page.post("/local/storage/prune", json=prune).json()["data"] == counted["prune"]
    assert read(page)["jobs"] == 1
    assert page.post("/local/storage/prune", json={**prune, "counted_at": "yesterday"}).status_code == 422
