"""`prune` and the retention settings: old jobs or files are removed, the ledger and shared files are preserved."""

from __future__ import annotations

import json
import shutil
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
from tests.support.service import GatedDescriber, running
from tests.support.worker_pool import wait_until

OLD_DAYS = 100
SHARED, OLD = pictures.jpeg(64, 48, 1), pictures.jpeg(64, 48, 2)


class Clock:
    """A clock of the service that a test sets back."""

    def __init__(self) -> None:
        self.back = timedelta(days=OLD_DAYS)

    def __call__(self) -> Any:
        return utc_now() - self.back


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with two old jobs and a new one, which has the original and the results of the first old one."""
    folder, clock = tmp_path_factory.mktemp("original") / "data", Clock()
    with running(folder, clock=clock) as service:
        service.process("process", SHARED)
        service.process("process", OLD, widths="20")
        clock.back = timedelta(0)
        service.process("process", SHARED)
    return folder


@pytest.fixture
def folder(original: Path, program: Program) -> Path:
    shutil.copytree(original, program.data)
    return program.data


def assert_consistent(program: Program) -> None:
    """`verify` finds nothing but files that belong to no job."""
    document = json.loads(program.in_process("verify", "--json").stdout)
    assert [problem for problem in document["problems"] if problem["area"] != "foreign"] == []


def state(folder: Path) -> tuple[int, int, list[tuple[Any, ...]]]:
    """The number and the bytes of the stored files, and the ledger."""
    sizes = [file.stat().st_size for file in disk.stored_files(folder).values()]
    with disk.database(folder) as rows:
        return len(sizes), sum(sizes), [tuple(row) for row in rows.execute("SELECT * FROM ledger ORDER BY id")]


def pruned(program: Program, *options: str) -> dict[str, Any]:
    """What `prune` removes, which is what its dry run says."""
    command = ("prune", "--older-than", "90d", *options)
    predicted = program.in_process_json(*command, "--dry-run")
    removed: dict[str, Any] = program.in_process_json(*command)
    assert removed == predicted | {"removed": True}
    return removed


def test_old_jobs_and_their_files_are_removed_as_the_dry_run_says(folder: Path, program: Program) -> None:
    before = state(folder)
    removed = pruned(program)
    assert (removed["jobs"], removed["files"]) == (2, 4)
    assert state(folder) == (before[0] - 4, before[1] - removed["size_bytes"], before[2])
    assert disk.count_jobs(folder) == 1
    assert_consistent(program)
    disk.check_folder(folder)
    assert pruned(program) == {"removed": True, "jobs": 0, "files": 0, "size_bytes": 0}


def test_a_thumbnail_is_removed_with_its_original(folder: Path, program: Program) -> None:
    with running(folder) as service:
        for job in service.client.get("/jobs").json()["data"]:
            service.client.get(f"/images/{job['image']['id']}/thumbnail").raise_for_status()
    before = len(disk.stored_files(folder))
    assert pruned(program, "--only", "originals")["files"] == 1 + 1
    assert len(disk.stored_files(folder)) == before - 2
    assert_consistent(program)


@pytest.mark.parametrize(("only", "files"), [("originals", 1), ("results", 3)])
def test_only_originals_or_only_results_are_removed_and_the_job_is_preserved(
    folder: Path, program: Program, only: str, files: int
) -> None:
    assert pruned(program, "--only", only)["files"] == files
    assert disk.count_jobs(folder) == 3
    with running(folder) as service:

        def download(job: dict[str, Any]) -> Any:
            return service.client.get(f"/images/{job['image']['id']}/optimized")

        jobs = service.client.get("/jobs").json()["data"]
        assert {job["status"] for job in jobs} == {"completed"}
        statuses = [download(job).status_code for job in jobs]
        assert statuses == ([200, 200, 200] if only == "originals" else [200, 404, 404])
        if only == "results":
            assert "because of its age" in download(jobs[1]).json()["message"]
            assert download(service.process("process", OLD)).status_code == 200
            assert download(jobs[1]).status_code == 404
    assert_consistent(program)


@pytest.mark.parametrize("only", [(), ("--only", "originals"), ("--only", "results")])
def test_a_job_stays_whole_until_it_and_its_new_texts_are_finished(program: Program, only: tuple[str, ...]) -> None:
    describer = GatedDescriber()
    with running(program.data, lambda: describer, clock=Clock()) as service:
        picture = f"/images/{service.process('process', OLD)['image']['id']}"
        regenerate = f"{picture}/translations/en/regenerate"
        describer.open.clear()
        assert service.client.post(regenerate).status_code == 202
        assert pruned(program, *only) == {"removed": True, "jobs": 0, "files": 0, "size_bytes": 0}
        assert disk.count_jobs(program.data) == 1
        assert service.client.get(f"{picture}/optimized").status_code == 200
        describer.open.set()
        assert service.client.post(regenerate, headers={"Prefer": "wait=20"}).status_code == 202
        service.run(service.services.engine.stop())
        service.dispatch("process", pictures.jpeg())
    files = len(disk.stored_files(program.data))
    assert files - pruned(program, *only)["files"] == len(disk.stored_files(program.data)) < files
    assert disk.count_jobs(program.data) == (2 if only else 1), "the one that is not finished is preserved"


REMOVING_AT_ONCE = (
    sys.executable,
    "-c",
    "from imgproc_local.engine import upkeep; upkeep.FIRST_REMOVAL_AFTER_S = 0; upkeep.DELETE_FILES_EVERY_S = 0.05;"
    "from imgproc_local.cli import main; main()",
)
"""The program, which begins with the removal of old jobs instead of ten minutes after its start."""


@pytest.mark.parametrize("by_settings", [False, True])
def test_a_running_server_deletes_the_files_of_removed_jobs(folder: Path, program: Program, by_settings: bool) -> None:
    files = len(disk.stored_files(folder))
    settings = {"retention_jobs_days": 90} if by_settings else {}
    with serving(folder, program=REMOVING_AT_ONCE, **settings):
        if not by_settings:
            assert "running server" in program.output("prune", "--older-than", "90d")
        assert wait_until(lambda: disk.count_jobs(folder) == 1 and len(disk.stored_files(folder)) == files - 4, 60)
    assert_consistent(program)
    disk.check_folder(folder)


@pytest.mark.parametrize("age", ["90", "d", "-1d", "90 d", "999999d", "1h"])
def test_an_age_without_a_unit_is_refused(program: Program, age: str) -> None:
    assert "90d" in program.error("prune", "--older-than", age)
