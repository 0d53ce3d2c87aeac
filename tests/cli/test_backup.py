"""`backup` beside a running server and `restore` elsewhere: every invariant holds, a damaged backup is refused."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import shutil
import sqlite3
import stat
import sys
import tarfile
import threading
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from imgproc_local.storage import backup
from imgproc_local.system.folder_lock import FolderLock
from tests.cli.conftest import Program, use_link
from tests.faults import disk
from tests.faults.server_process import ROOT, serving
from tests.support import pictures
from tests.support.service import GatedDescriber, Running, running
from tests.support.worker_pool import wait_until


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with finished jobs, of a server that has ended."""
    folder = tmp_path_factory.mktemp("original")
    with running(folder / "data") as service:
        for seed in range(3):
            service.process("process", pictures.jpeg(64, 48, seed), widths="20")
    return folder / "data"


@pytest.fixture
def data(original: Path, program: Program) -> Path:
    shutil.copytree(original, program.data)
    return program.data


@pytest.fixture
def archive(data: Path, program: Program, tmp_path: Path) -> Path:
    program.output("backup", tmp_path / "backup.tar")
    return tmp_path / "backup.tar"


def problems(program: Program, folder: Path) -> list[str]:
    """The areas of the problems that `verify` finds."""
    found = json.loads(program.in_process("verify", "--json", "--data-dir", folder).stdout)
    return [problem["area"] for problem in found["problems"]]


def test_a_server_goes_on_with_a_restored_folder_in_which_no_browser_is_signed_in(
    data: Path, program: Program, tmp_path: Path
) -> None:
    archive, target = tmp_path / "backup.tar", tmp_path / "elsewhere"
    with running(data) as service:
        session, token, key = service.page_session(), service.page_token(), service.key
        program.output("backup", archive)
        valid = [each["id"] for each in program.in_process_json("keys", "list") if each["revoked_at"] is None]
        for key_id in valid:
            program.output("keys", "revoke", key_id)
    assert sys.platform == "win32" or stat.S_IMODE(archive.stat().st_mode) == 0o600
    with tarfile.open(archive) as tar:  # other programs can unpack it
        names = tar.getnames()
    assert (names[-2:], len(names)) == (["imgproc.db", "manifest.json"], 2 + len(disk.stored_files(data)))
    target.mkdir(mode=0o755)
    restored = program.output("restore", archive, "--data-dir", target)
    assert f"{len(valid)} API keys are valid as they were then, also those revoked since" in restored
    assert "keys revoke ID" in restored
    assert sys.platform == "win32" or stat.S_IMODE(target.stat().st_mode) == 0o700
    assert problems(program, target) == []
    assert disk.stored_files(target).keys() == disk.stored_files(data).keys()

    def status(headers: dict[str, str]) -> int:
        return httpx.get(f"{service.url}/credits/balance", headers=headers).status_code

    with running(target) as service:
        assert (status({"X-API-Key": key}), status(session)) == (200, 401)
        assert httpx.get(f"{service.root}/local/keys", headers=session).status_code == 401
        assert use_link(f"{service.root}/?token={token}").status_code == 401
        assert len(disk.stored_files(target)) == len(disk.stored_files(data))
        service.process("optimize", pictures.png())
    disk.check_folder(target)


def test_a_backup_holds_no_context_of_a_waiting_job(program: Program, tmp_path: Path) -> None:
    describer = GatedDescriber()
    describer.open.clear()
    with running(program.data, lambda: describer) as service:
        for context in ("Zebrafinken", "Zebrafinken " * 41):
            service.dispatch("analyze", pictures.jpeg(64, 48), context=context)
        program.output("backup", tmp_path / "backup.tar")
    assert b"Zebrafinken" in (program.data / "imgproc.db").read_bytes()
    assert b"Zebrafinken" not in (tmp_path / "backup.tar").read_bytes()


def test_a_backup_under_load_is_whole(program: Program, tmp_path: Path) -> None:
    """Pictures are uploaded and deleted all the time; each backup passes every invariant when it is restored."""
    stop = threading.Event()
    with running(program.data) as service:
        clients = [threading.Thread(target=upload_and_delete, args=(service, seed, stop)) for seed in range(3)]
        for client in clients:
            client.start()
        try:
            assert wait_until(lambda: disk.count_jobs(program.data) > 0, 60)
            for number in range(4):
                stop.wait(0.5)
                program.output("backup", tmp_path / f"{number}.tar")
        finally:
            stop.set()
            for client in clients:
                client.join()
    for number in range(4):
        target = tmp_path / str(number)
        program.output("restore", tmp_path / f"{number}.tar", "--data-dir", target)
        assert problems(program, target) == []
    with running(target) as service:
        for job in service.client.get("/jobs", params={"limit": 100}).json()["data"]:
            service.final(job["job_id"])
    disk.check_folder(target)


def upload_and_delete(service: Running, seed: int, stop: threading.Event) -> None:
    rng = random.Random(seed)
    mine: list[str] = []
    with service.client_for(service.key) as client:
        while not stop.is_set():
            if len(mine) > 4:
                client.delete(f"/jobs/{mine.pop(rng.randrange(len(mine)))}")
            picture = pictures.jpeg(64, 48, rng.randrange(4))
            answer = client.post("/images/process", files={"image": ("a.jpg", picture)})
            if answer.status_code == httpx.codes.ACCEPTED:
                mine.append(answer.json()["data"]["job_id"])


def test_a_cut_or_changed_backup_is_refused_and_nothing_is_restored(
    archive: Path, program: Program, tmp_path: Path
) -> None:
    content, rng = archive.read_bytes(), random.Random(1)
    with tarfile.open(archive) as tar:
        members = {member.name: member for member in tar.getmembers()}
    manifest = members["manifest.json"].offset_data
    changed = [*range(0, 500, 100), content.index(b'"database_sha256":"') + 25, manifest]
    for name, member in members.items():
        if name != "manifest.json":
            changed += [member.offset_data + rng.randrange(member.size) for _ in range(1 if "/" in name else 5)]
    cuts = [0, 1, 511, 512, manifest - 512, manifest, manifest + 1, *(rng.randrange(manifest) for _ in range(8))]
    damages = [content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :] for at in changed]
    damages += [content[:end] for end in cuts] + [b"not a backup" * 1000]
    target, damaged = tmp_path / "target", tmp_path / "damaged.tar"
    for damage in damages:
        damaged.write_bytes(damage)
        assert "Nothing was restored" in program.error("restore", damaged, "--data-dir", target)
        assert sorted(path.name for path in target.iterdir()) == ["owner.lock"]
    program.output("restore", archive, "--data-dir", target)


SPARSE = "sparse, by an extended header"
"""A member whose header says that it has 3 GiB of zeros."""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("imgproc.db", SPARSE),
        *((name, tarfile.REGTYPE) for name in ("../outside", "/tmp/outside", "files/../../outside")),
        ("files/aa/" + "b" * 64, tarfile.REGTYPE),
        *(("files/aa/" + "a" * 64, kind) for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.GNUTYPE_SPARSE)),
        ("imgproc.db", tarfile.DIRTYPE),
        ("imgproc.db", tarfile.XHDTYPE),
    ],
)
def test_an_archive_with_anything_but_files_of_a_backup_is_refused(
    program: Program, tmp_path: Path, name: str, kind: bytes | str
) -> None:
    member = tarfile.TarInfo(name)
    header = tarfile.GNU_FORMAT
    if isinstance(kind, bytes):
        member.type, member.linkname = kind, "/etc/passwd" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
    else:
        member.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(3 << 30)}
        header = tarfile.PAX_FORMAT
    (tmp_path / "bad.tar").write_bytes(member.tobuf(header) + bytes(1024))
    assert "not a backup" in program.error("restore", tmp_path / "bad.tar")
    assert [path.name for path in program.data.iterdir()] == ["owner.lock"]


def test_a_backup_of_0_1_0_is_restored(archive: Path, program: Program, tmp_path: Path) -> None:
    """It has a digest as its last member, and the database of the schema before."""
    old, database, restored = tmp_path / "old.tar", tmp_path / "old.db", tmp_path / "target"
    with closing(sqlite3.connect(database)) as rows:
        rows.executescript((ROOT / "tests/storage/schema_7.sql").read_text(encoding="utf-8"))
    with tarfile.open(archive) as tar:
        manifest = json.loads(tar.extractfile("manifest.json").read())  # type: ignore[union-attr]
    content = database.read_bytes()
    manifest |= {"schema": 7, "database_sha256": hashlib.sha256(content).hexdigest(), "files": {}}
    parts = {"imgproc.db": content, "manifest.json": json.dumps(manifest).encode(), "sha256": b"0" * 64 + b"\n"}
    with tarfile.open(old, "w", format=tarfile.GNU_FORMAT) as target:
        for name, data in parts.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            target.addfile(member, io.BytesIO(data))
    program.output("restore", old, "--data-dir", restored)
    program.output("credits", "grant", 5, "--data-dir", restored)
    assert problems(program, restored) == []


def test_a_damaged_file_is_left_out_and_reported(data: Path, program: Program, tmp_path: Path) -> None:
    changed, cut, missing = sorted(disk.stored_files(data).values())[:3]
    changed.write_bytes(bytes(changed.stat().st_size))
    cut.write_bytes(b"cut")
    missing.unlink()
    reported = program.error("backup", tmp_path / "backup.tar", exit_code=1)
    assert all(file.name in reported for file in (changed, cut, missing))
    program.output("restore", tmp_path / "backup.tar", "--data-dir", tmp_path / "target")
    assert problems(program, tmp_path / "target") == ["files"] * 3


def test_a_restore_that_was_killed_is_begun_anew(archive: Path, program: Program, tmp_path: Path) -> None:
    target = tmp_path / "target"
    (target / backup.RESTORING / "files").mkdir(parents=True)
    (target / "files" / "aa").mkdir(parents=True)
    (target / "files" / "aa" / "half").write_bytes(b"half")

    def assert_unusable(problem: str, advice: str) -> None:
        """Commands that use the folder refuse it, and those that check it report the same."""
        assert f"{problem} {advice}" in program.error("credits", "balance", "--data-dir", target)
        for command in ("doctor", "verify"):
            found = program.in_process(command, "--data-dir", target)
            assert (found.exit_code, f"  {problem}\n" in found.stdout) == (1, True), found.output
            assert f"-> {advice}\n" in found.stdout, found.output

    assert_unusable(f"`restore` was interrupted in the data folder {target}.", "Run it again.")
    lock = FolderLock(target, "restore")
    assert_unusable(f"A backup is being restored to the data folder {target}.", "Wait until this has ended.")
    lock.release()
    program.output("restore", archive, "--data-dir", target)
    assert problems(program, target) == []
    (target / backup.RESTORING).mkdir()
    with serving(target):
        pass
    assert not (target / backup.RESTORING).exists(), "what a restore left that was killed at its very end"


def test_what_a_killed_backup_left_is_deleted_after_a_day(data: Path, program: Program, tmp_path: Path) -> None:
    old_s, now_s = time.time() - 25 * 3600, time.time()
    for name, files in {
        "old": {"archive.tar": old_s, "imgproc.db": old_s},
        "renamed": {"imgproc.db": old_s},
        "empty": {},
        "running": {"archive.tar": now_s, "imgproc.db": old_s},
        "begun": {"imgproc.db": now_s},
    }.items():
        folder = tmp_path / f".imgproc-local-backup-{name}"
        folder.mkdir()
        for file, written_s in files.items():
            (folder / file).write_bytes(b"half")
            os.utime(folder / file, (written_s, written_s))
        os.utime(folder, (old_s, old_s))
    program.output("backup", tmp_path / "backup.tar")
    left = [f".imgproc-local-backup-{name}" for name in ("begun", "running")]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*left, "backup.tar", "data"]


def test_what_can_not_be_written_or_replaced_is_refused(
    archive: Path, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    before, new, missing = archive.read_bytes(), tmp_path / "new.tar", tmp_path / "missing"
    assert "not empty" in program.error("restore", archive)
    assert "exists already" in program.error("backup", archive)
    assert archive.read_bytes() == before
    assert f"The folder {missing} does not exist." in program.error("backup", missing / "backup.tar")
    empty = tmp_path / "empty"
    empty.mkdir()
    program.output("credits", "balance", "--data-dir", empty)
    assert "no job and no key" in program.error("backup", new, "--data-dir", empty)
    monkeypatch.setattr(tarfile.TarFile, "addfile", full)
    assert "No space left" in program.error("backup", new)
    with closing(sqlite3.connect(program.data / "imgproc.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    assert "schema 99" in program.error("backup", new)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.tar", "data", "empty"]
