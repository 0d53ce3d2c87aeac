"""`backup` beside a running server and `restore` elsewhere: every invariant holds, a damaged backup is refused."""

from __future__ import annotations

import hashlib
import io
import json
import random
import shutil
import sqlite3
import stat
import sys
import tarfile
import threading
from collections.abc import Callable
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


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with finished jobs, of a server that has ended."""
    folder = tmp_path_factory.mktemp("original")
    with running(folder / "data") as service:
        for seed in range(3):
            service.process("process", pictures.jpeg(64, 48, seed))
    return folder / "data"


@pytest.fixture
def data(original: Path, program: Program) -> Path:
    shutil.copytree(original, program.data)
    return program.data


@pytest.fixture
def archive(data: Path, program: Program, tmp_path: Path) -> Path:
    result = program.in_process("backup", tmp_path / "backup.tar")
    assert result.exit_code == 0, result.output
    return tmp_path / "backup.tar"


def verified(program: Program, folder: Path) -> bool:
    result = program.in_process("verify", "--json", "--data-dir", folder)
    assert json.loads(result.stdout)["problems"] == [], result.stdout
    return result.exit_code == 0


def test_a_backup_is_private_and_a_server_goes_on_with_the_restored_folder(
    archive: Path, data: Path, program: Program, tmp_path: Path
) -> None:
    assert sys.platform == "win32" or stat.S_IMODE(archive.stat().st_mode) == 0o600
    with tarfile.open(archive) as tar:  # other programs can unpack it
        names = tar.getnames()
    assert (names[-2:], len(names)) == (["imgproc.db", "manifest.json"], 2 + len(disk.stored_files(data)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.tar", "data"]
    target = tmp_path / "elsewhere"
    target.mkdir(mode=0o755)
    result = program.in_process("restore", archive, "--data-dir", target)
    assert result.exit_code == 0, result.output
    assert sys.platform == "win32" or stat.S_IMODE(target.stat().st_mode) == 0o700
    assert verified(program, target)
    assert disk.stored_files(target).keys() == disk.stored_files(data).keys()
    with running(target) as service:
        assert len(disk.stored_files(target)) == len(disk.stored_files(data))
        service.process("optimize", pictures.png())
    disk.check_folder(target)


def test_a_backup_holds_no_context_of_a_waiting_job(program: Program, tmp_path: Path) -> None:
    describer = GatedDescriber()
    describer.open.clear()
    with running(program.data, lambda: describer) as service:
        for context in ("Zebrafinken", "Zebrafinken " * 41):
            service.dispatch("analyze", pictures.jpeg(64, 48), context=context)
        assert program.in_process("backup", tmp_path / "backup.tar").exit_code == 0
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
            for number in range(4):
                stop.wait(0.5)
                result = program.in_process("backup", tmp_path / f"{number}.tar")
                assert result.exit_code == 0, result.output
        finally:
            stop.set()
            for client in clients:
                client.join()
    finished = 0
    for number in range(4):
        target = tmp_path / str(number)
        assert program.in_process("restore", tmp_path / f"{number}.tar", "--data-dir", target).exit_code == 0
        assert verified(program, target)
        finished += disk.count_jobs(target)
    assert finished > 0
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


def flip(position: int) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        return content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]

    return change


def test_a_cut_or_changed_backup_is_refused_and_nothing_is_restored(
    archive: Path, data: Path, program: Program, tmp_path: Path
) -> None:
    content = archive.read_bytes()
    with tarfile.open(archive) as tar:
        members = {member.name: member for member in tar.getmembers()}
    manifest = members["manifest.json"].offset_data
    rng = random.Random(1)
    positions = [*range(0, 500, 100), content.index(b'"database_sha256":"') + 25, manifest]
    positions += [member.offset_data + rng.randrange(member.size) for name, member in members.items() if "/" in name]
    positions += [members["imgproc.db"].offset_data + rng.randrange(members["imgproc.db"].size) for _ in range(5)]
    changes: list[Callable[[bytes], bytes]] = [flip(position) for position in positions]
    cuts = [0, 1, 511, 512, manifest - 512, manifest, manifest + 1]
    cuts += [rng.randrange(manifest) for _ in range(8)]
    changes += [lambda whole, end=end: whole[:end] for end in cuts]
    changes += [lambda _: b"not a backup" * 1000]
    target = tmp_path / "target"
    damaged = tmp_path / "damaged.tar"
    for number, change in enumerate(changes):
        damaged.write_bytes(change(content))
        result = program.in_process("restore", damaged, "--data-dir", target)
        assert result.exit_code == 2, (number, result.output)
        assert "Nothing was restored" in result.stderr
        assert sorted(path.name for path in target.iterdir()) == ["owner.lock"]
    assert program.in_process("restore", archive, "--data-dir", target).exit_code == 0


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
    result = program.in_process("restore", tmp_path / "bad.tar")
    assert result.exit_code == 2
    assert "not a backup" in result.stderr
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
    assert program.in_process("restore", old, "--data-dir", restored).exit_code == 0
    assert program.in_process("credits", "grant", 5, "--data-dir", restored).exit_code == 0
    assert verified(program, restored)


def test_a_damaged_file_is_left_out_and_reported(data: Path, program: Program, tmp_path: Path) -> None:
    changed, cut, missing = sorted(disk.stored_files(data).values())[:3]
    changed.write_bytes(bytes(changed.stat().st_size))
    cut.write_bytes(b"cut")
    missing.unlink()
    result = program.in_process("backup", tmp_path / "backup.tar")
    assert result.exit_code == 1
    for file in (changed, cut, missing):
        assert file.name in result.stderr
    assert program.in_process("restore", tmp_path / "backup.tar", "--data-dir", tmp_path / "target").exit_code == 0
    found = json.loads(program.in_process("verify", "--json", "--data-dir", tmp_path / "target").stdout)["problems"]
    assert {problem["area"] for problem in found} == {"files"}
    assert len(found) == 3


def test_a_restore_that_was_killed_is_begun_anew(archive: Path, program: Program, tmp_path: Path) -> None:
    target = tmp_path / "target"
    (target / backup.RESTORING / "files").mkdir(parents=True)
    (target / "files" / "aa").mkdir(parents=True)
    (target / "files" / "aa" / "half").write_bytes(b"half")
    assert_unusable(program, target, f"`restore` was interrupted in the data folder {target}.", "Run it again.")
    lock = FolderLock(target, "restore")
    busy = f"A backup is being restored to the data folder {target}."
    assert_unusable(program, target, busy, "Wait until this has ended.")
    lock.release()
    assert program.in_process("restore", archive, "--data-dir", target).exit_code == 0
    assert verified(program, target)
    (target / backup.RESTORING).mkdir()
    with serving(target):
        pass
    assert not (target / backup.RESTORING).exists(), "what a restore left that was killed at its very end"


def assert_unusable(program: Program, folder: Path, problem: str, advice: str) -> None:
    """Commands that use the folder refuse it, and those that check it report the same."""
    refused = program.in_process("credits", "balance", "--data-dir", folder)
    assert (refused.exit_code, f"{problem} {advice}" in refused.stderr) == (2, True), refused.stderr
    for command in ("doctor", "verify"):
        found = program.in_process(command, "--data-dir", folder)
        assert (found.exit_code, f"  {problem}\n" in found.stdout) == (1, True), found.output
        assert f"-> {advice}\n" in found.stdout, found.output


def test_restored_browsers_and_links_do_not_sign_in_and_valid_keys_are_counted(
    data: Path, program: Program, tmp_path: Path
) -> None:
    with running(data) as service:
        session, token, key = service.page_session(), service.page_token(), service.key
        assert program.in_process("backup", tmp_path / "backup.tar").exit_code == 0
        valid = [each["id"] for each in program.in_process_json("keys", "list") if each["revoked_at"] is None]
        for key_id in valid:
            assert program.in_process("keys", "revoke", key_id).exit_code == 0
    shutil.rmtree(data)
    result = program.in_process("restore", tmp_path / "backup.tar")
    assert f"{len(valid)} API keys are valid as they were then, also those revoked since" in result.stdout
    assert "keys revoke ID" in result.stdout

    def status(headers: dict[str, str]) -> int:
        return httpx.get(f"{service.url}/credits/balance", headers=headers).status_code

    with running(data) as service:
        assert (status({"X-API-Key": key}), status(session)) == (200, 401)
        assert httpx.get(f"{service.root}/local/keys", headers=session).status_code == 401
        assert use_link(f"{service.root}/?token={token}").status_code == 401


def test_what_can_not_be_written_or_replaced_is_refused(
    archive: Path, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: object) -> str:
        result = program.in_process(*arguments)
        assert result.exit_code == 2, result.output
        assert ".part" not in result.stderr
        return result.stderr

    before, new = archive.read_bytes(), tmp_path / "new.tar"
    assert "not empty" in refused("restore", archive)
    assert "exists already" in refused("backup", archive)
    assert archive.read_bytes() == before
    missing = tmp_path / "missing"
    assert f"The folder {missing} does not exist." in refused("backup", missing / "backup.tar")
    nowhere = tmp_path / "nowhere"
    assert f"The data folder {nowhere} does not exist" in refused("backup", new, "--data-dir", nowhere)
    nowhere.mkdir()
    assert program.in_process("credits", "balance", "--data-dir", nowhere).exit_code == 0
    assert "no job and no key" in refused("backup", new, "--data-dir", nowhere)

    def full(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "addfile", full)
    assert "No space left" in refused("backup", new)
    with closing(sqlite3.connect(program.data / "imgproc.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    assert "schema 99" in refused("backup", new)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.tar", "data", "nowhere"]
