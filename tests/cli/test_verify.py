"""`verify` finds each kind of damage, `doctor` those that can be found without reading every file."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from imgproc_local.domain.errors import StageFailed
from imgproc_local.storage.database import SCHEMA
from imgproc_local.storage.inspection import DATABASE_FILE
from tests.cli.conftest import Program
from tests.support import pictures
from tests.support.service import GatedDescriber, running


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with finished, failed and deleted jobs, and a write-ahead log as a killed server leaves it."""
    folder = tmp_path_factory.mktemp("original")
    describer = GatedDescriber()
    with running(folder / "data", lambda: describer) as service:
        for seed in range(3):
            job = service.process("process", pictures.jpeg(64, 48, seed), languages=["en", "de"])
        text = f"/images/{job['image']['id']}/translations/en"
        for words in ("Two boats.", "Three boats."):
            service.client.patch(text, json={"seo_alt_text": words}).raise_for_status()
        service.client.post(f"{text}/undo").raise_for_status()
        deleted = service.process("optimize", pictures.png())["job_id"]
        service.client.delete(f"/jobs/{deleted}").raise_for_status()
        describer.error = StageFailed("No description.")
        assert service.process("analyze", pictures.jpeg())["status"] == "failed"
        service.client.post(f"{text}/regenerate?replace=true", headers={"Prefer": "wait=20"}).raise_for_status()
        shutil.copytree(folder / "data", folder / "killed", ignore=shutil.ignore_patterns("owner*"))
    return folder / "killed"


@pytest.fixture
def data(original: Path, program: Program) -> Path:
    shutil.copytree(original, program.data)
    return program.data


def verify(program: Program) -> dict[str, list[str]]:
    """The details of the problems by area."""
    areas: dict[str, list[str]] = {}
    for problem in json.loads(program.in_process("verify", "--json").stdout)["problems"]:
        areas.setdefault(problem["area"], []).append(problem["detail"])
    return areas


def doctor(program: Program) -> set[str]:
    """The names of the checks of `doctor` that report a problem."""
    checks = json.loads(program.in_process("doctor", "--json").stdout)["checks"]
    return {check["name"] for check in checks if check["state"] == "problem"}


def files(data: Path) -> list[Path]:
    return sorted(path for path in (data / "files").rglob("*") if path.is_file())


def sql(*statements: str) -> Callable[[Path], None]:
    def change(data: Path) -> None:
        with closing(sqlite3.connect(data / DATABASE_FILE)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    change.__name__ = statements[-1]
    return change


def overwrite(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def change_file(data: Path) -> None:
    overwrite(files(data)[0], 1, b"x")


def delete_file(data: Path) -> None:
    files(data)[0].unlink()


def replace_file_by_link(data: Path) -> None:
    file = files(data)[0]
    file.symlink_to(file.rename(data / "elsewhere"))


def misplace_file(data: Path) -> None:
    file = files(data)[0]
    (data / "files" / "zz").mkdir()
    file.rename(data / "files" / "zz" / file.name)


def damage_page(data: Path) -> None:
    sql("PRAGMA wal_checkpoint(TRUNCATE)")(data)  # everything is in the database, as after an orderly end
    path = data / DATABASE_FILE
    for page in range(4, path.stat().st_size // 4096, 3):
        overwrite(path, page * 4096, random.Random(page).randbytes(4096))


def damage_index(data: Path) -> None:
    """Rows that an index does not have: only the complete check notices."""
    sql(
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(sql, '(original_sha256)', '(image_id)')"
        " WHERE name = 'jobs_by_original'",
    )(data)


def no_database(data: Path) -> None:
    for name in (DATABASE_FILE, f"{DATABASE_FILE}-wal", f"{DATABASE_FILE}-shm"):
        (data / name).unlink(missing_ok=True)


def not_a_database(data: Path) -> None:
    no_database(data)
    (data / DATABASE_FILE).write_bytes(b"this is not a database" * 1000)


def change_log(data: Path, change: Callable[[Path], object]) -> None:
    change(data / f"{DATABASE_FILE}-wal")
    (data / f"{DATABASE_FILE}-shm").unlink(missing_ok=True)


def damage_log_header(data: Path) -> None:
    change_log(data, lambda log: overwrite(log, 0, b"damage"))


def no_log(data: Path) -> None:
    change_log(data, Path.unlink)


# name, how, the area in which `verify` reports it, the check in which `doctor` reports it
DAMAGES = [
    (change_file, "files", None),
    (delete_file, "files", "files"),
    (replace_file_by_link, "files", "files"),
    (misplace_file, "files", "files"),
    (damage_page, "database", "database"),
    (damage_index, "database", None),
    (no_database, "database", "database"),
    (not_a_database, "database", "database"),
    (damage_log_header, "database", "database"),
    (no_log, "database", "database"),
    (sql("PRAGMA foreign_keys = OFF", "DELETE FROM projects"), "database", None),
    (sql("PRAGMA user_version = 99"), "database", "database"),
    (sql("UPDATE accounts SET balance = balance + 1"), "credits", "credits"),
    (sql("DELETE FROM ledger WHERE kind = 'release'"), "credits", "credits"),
    (sql("UPDATE jobs SET original_size = original_size + 1"), "files", "files"),
]


def test_an_intact_folder_of_a_killed_server_has_no_problem(data: Path, program: Program) -> None:
    assert (verify(program), doctor(program)) == ({}, set())
    text = program.output("verify")
    assert f" {len(files(data))} files" in text
    assert "No problems found." in text


@pytest.mark.parametrize(("damage", "area", "check"), DAMAGES, ids=[damage.__name__[:60] for damage, _, _ in DAMAGES])
def test_each_damage_is_found(
    data: Path, program: Program, damage: Callable[[Path], None], area: str, check: str | None
) -> None:
    damage(data)
    assert area in verify(program)
    text = program.in_process("verify")
    assert (text.exit_code, "->" in text.stdout) == (1, True), "there is advice"
    assert check is None or check in doctor(program)


def test_files_that_belong_to_no_job_are_a_warning(data: Path, program: Program) -> None:
    """SQLite ignores a log from its first damaged frame on: jobs are as they were before, and newer files left over."""
    change_log(data, lambda log: os.truncate(log, log.stat().st_size // 2))
    assert list(verify(program)) == ["foreign"]
    assert doctor(program) == set()
    with running(data):
        pass
    assert verify(program) == {}, "the next start removes them"
    (data / "incoming" / "upload.part").write_bytes(b"half")
    (data / "files" / "notes.txt").write_bytes(b"a note")
    (data / "files" / "00").mkdir(exist_ok=True)
    (data / "files" / "00" / ("0" * 64)).write_bytes(b"left over")
    found = verify(program)
    assert {area: len(details) for area, details in found.items()} == {"foreign": 3}
    assert "warning" in program.output("verify")


def test_a_database_of_the_version_before_is_not_reported_as_damaged_or_checked(data: Path, program: Program) -> None:
    sql(f"PRAGMA user_version = {SCHEMA - 1}")(data)
    assert (verify(program), doctor(program)) == ({}, set())
    text = program.output("verify")
    assert "the next start updates it" in text
    assert "SHA-256" not in text


def test_a_busy_server_has_no_problem(program: Program) -> None:
    with running(program.data) as service:
        for seed in range(4):
            service.dispatch("process", pictures.jpeg(64, 48, seed))
        assert verify(program) == {}
