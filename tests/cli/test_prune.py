"""`prune` and the retention settings: old jobs or files are removed, the ledger and shared files are preserved."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.storage.database import utc_now
from tests.cli.conftest import Program
from tests.faults import disk
from tests.faults.server_process import serving
from tests.support import pictures
from tests.support.service import GatedDescriber, Running, running

OLD_DAYS = 100
SHARED, OLD = pictures.jpeg(64, 48, 1), pictures.jpeg(64, 48, 2)


class Clock:
    """A clock of the service that a test sets back."""

    def __init__(self) -> None:
        self.back = timedelta(days=OLD_DAYS)

    def __call__(self) -> Any:
        return utc_now() - self.back


@pytest.fixture
def folder(program: Program) -> Path:
    """Two old jobs and a new one. The new one and the first old one have the same original and result."""
    clock = Clock()
    with running(program.data, clock=clock) as service:
        service.process("process", SHARED)
        service.process("process", OLD)
        clock.back = timedelta(0)
        service.process("process", SHARED)
    return program.data


def problems(program: Program) -> list[Any]:
    document = json.loads(program.in_process("verify", "--json").stdout)
    return [problem for problem in document["problems"] if problem["area"] != "foreign"]


def size_of_files(folder: Path) -> int:
    return sum(file.stat().st_size for file in disk.stored_files(folder).values())


def ledger(folder: Path) -> list[tuple[Any, ...]]:
    with disk.database(folder) as rows:
        return [tuple(row) for row in rows.execute("SELECT * FROM ledger ORDER BY id")]


def test_old_jobs_and_their_files_are_removed_as_the_dry_run_says(folder: Path, program: Program) -> None:
    before, movements = disk.stored_files(folder), ledger(folder)
    size_before = size_of_files(folder)
    predicted = program.in_process_json("prune", "--older-than", "90d", "--dry-run")
    assert disk.stored_files(folder) == before
    assert predicted["removed"] is False
    assert (predicted["jobs"], predicted["files"]) == (2, 3)
    removed = program.in_process_json("prune", "--older-than", "90d")
    assert removed == predicted | {"removed": True}
    assert len(before) - len(disk.stored_files(folder)) == removed["files"]
    assert size_before - size_of_files(folder) == removed["size_bytes"]
    assert disk.count_jobs(folder) == 1
    assert ledger(folder) == movements
    assert problems(program) == []
    disk.check_folder(folder)
    assert program.in_process_json("prune", "--older-than", "90d") == {
        "removed": True,
        "jobs": 0,
        "files": 0,
        "size_bytes": 0,
    }


@pytest.mark.parametrize(("only", "files"), [("originals", 1), ("results", 2)])
def test_only_originals_or_only_results_are_removed_and_the_job_is_preserved(
    folder: Path, program: Program, only: str, files: int
) -> None:
    predicted = program.in_process_json("prune", "--older-than", "90d", "--only", only, "--dry-run")
    removed = program.in_process_json("prune", "--older-than", "90d", "--only", only)
    assert removed["files"] == predicted["files"] == files
    assert disk.count_jobs(folder) == 3
    assert problems(program) == []
    with running(folder) as service:
        jobs = service.client.get("/jobs").json()["data"]
        assert {job["status"] for job in jobs} == {"completed"}
        statuses = [download(service, job).status_code for job in jobs]
        assert statuses == ([200, 200, 200] if only == "originals" else [200, 404, 404])
        if only == "results":
            assert "because of its age" in download(service, jobs[1]).json()["message"]
            again = service.process("process", OLD)
            assert download(service, again).status_code == 200
            assert download(service, jobs[1]).status_code == 404
    assert problems(program) == []


def download(service: Running, job: dict[str, Any]) -> Any:
    return service.client.get(f"/images/{job['image']['id']}/optimized")


def test_unfinished_jobs_are_preserved(program: Program) -> None:
    with running(program.data, clock=Clock()) as service:
        service.run(service.services.engine.stop())
        service.dispatch("process", pictures.jpeg())
    assert program.in_process_json("prune", "--older-than", "0d")["jobs"] == 0
    assert disk.count_jobs(program.data) == 1


@pytest.mark.parametrize("only", [(), ("--only", "originals"), ("--only", "results")])
def test_a_job_stays_whole_while_its_text_is_regenerated_and_nothing_else_is_reported(
    program: Program, only: tuple[str, ...]
) -> None:
    describer = GatedDescriber()
    with running(program.data, lambda: describer, clock=Clock()) as service:
        picture = f"/images/{service.process('process', OLD)['image']['id']}"
        regenerate = f"{picture}/translations/en/regenerate"
        describer.open.clear()
        assert service.client.post(regenerate).status_code == 202
        before = disk.stored_files(program.data)
        for arguments in (("--dry-run",), ()):
            found = program.in_process_json("prune", "--older-than", "90d", *only, *arguments)
            assert (found["jobs"], found["files"], found["size_bytes"]) == (0, 0, 0)
        assert disk.count_jobs(program.data) == 1
        assert service.client.get(f"{picture}/optimized").status_code == 200
        describer.open.set()
        assert service.client.post(regenerate, headers={"Prefer": "wait=20"}).status_code == 202
    predicted = program.in_process_json("prune", "--older-than", "90d", *only, "--dry-run")
    assert predicted == program.in_process_json("prune", "--older-than", "90d", *only) | {"removed": False}
    assert len(before) - len(disk.stored_files(program.data)) == predicted["files"] > 0


def test_beside_a_server_the_server_deletes_the_files(
    folder: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imgproc_local.engine.upkeep.DELETE_FILES_EVERY_S", 0.05)
    with running(folder) as service:
        files = disk.stored_files(folder)
        result = program.in_process("prune", "--older-than", "90d")
        assert result.exit_code == 0, result.output
        assert "running server" in result.stdout
        for _ in range(200):
            if len(disk.stored_files(folder)) == len(files) - 3:
                break
            service.job(service.client.get("/jobs").json()["data"][0]["job_id"])
        assert len(disk.stored_files(folder)) == len(files) - 3
    disk.check_folder(folder)


REMOVING_AT_ONCE = (
    sys.executable,
    "-c",
    "from imgproc_local.engine import upkeep; upkeep.FIRST_REMOVAL_AFTER_S = 0;"
    "from imgproc_local.cli import main; main()",
)
"""The program, which begins with the removal of old jobs instead of ten minutes after its start."""


def test_a_server_removes_old_jobs_by_its_settings(folder: Path, program: Program) -> None:
    with serving(folder, program=REMOVING_AT_ONCE, retention_jobs_days=90) as server:
        for _ in range(200):
            if disk.count_jobs(folder) == 1:
                break
            server.wait_ready()
    assert disk.count_jobs(folder) == 1
    assert problems(program) == []


@pytest.mark.parametrize("age", ["90", "d", "-1d", "90 d", "999999d", "1h"])
def test_an_age_without_a_unit_is_refused(program: Program, age: str) -> None:
    result = program.in_process("prune", "--older-than", age)
    assert result.exit_code == 2
    assert "90d" in result.stderr
