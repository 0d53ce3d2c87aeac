"""A folder as a source or a target of `archive`: its listing, and what somebody else prepared in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from imgproc_local.archive.stores import LocalStore
from imgproc_local.batch import MANIFEST_FILE, STATE_FOLDER
from tests.cli.conftest import Program

pytestmark = pytest.mark.skipif(os.name != "posix", reason="creates links")


def test_entries_that_are_no_readable_files_do_not_end_the_listing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "wing").mkdir()
    (tmp_path / "wing" / "stone.jpg").write_bytes(b"stone")
    (tmp_path / "linked.jpg").symlink_to("wing/stone.jpg")
    (tmp_path / "nowhere.jpg").symlink_to("deleted.jpg")
    (tmp_path / "circle.jpg").symlink_to("circle.jpg")
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / ".hidden.jpg").write_bytes(b"hidden")
    listed = [each.key for each in LocalStore(tmp_path).objects()]
    assert listed == ["linked.jpg", "wing/stone.jpg"]
    assert caplog.text.count("can't be read") == 2, "a link to nothing, and one to itself"


def test_parts_that_lead_out_of_the_target_are_not_read(program: Program, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    pytest.importorskip("pyarrow")
    home, state = tmp_path / "home", tmp_path / "target" / STATE_FOLDER
    for folder in (home, state, tmp_path / "source"):
        folder.mkdir(parents=True)
    (home / "00000001-00000000.jsonl.gz").write_text("known")
    (state / "parts").symlink_to(home)
    ended = program.in_process("archive", tmp_path / "source", tmp_path / "target", "--workers", "1")
    assert ended.exit_code == 2
    assert "leads out of the folder" in ended.stderr
    assert [path.name for path in home.iterdir()] == ["00000001-00000000.jsonl.gz"]


@pytest.mark.parametrize(
    ("link", "change"),
    [
        ("wing", lambda store, file: store.create("wing/new.jpg", file)),
        ("wing", lambda store, file: store.put("wing/known.cfg", file)),
        ("wing", lambda store, _: store.open("wing/known.cfg")),
        ("wing", lambda store, _: store.remove("wing/known.cfg")),
        (STATE_FOLDER, lambda store, file: store.create("new.jpg", file)),  # written in the hidden folder first
        (STATE_FOLDER, lambda store, file: store.put("alt.csv", file)),
    ],
)
def test_links_in_a_target_do_not_lead_out_of_it(
    tmp_path: Path, link: str, change: Callable[[LocalStore, Path], object]
) -> None:
    for folder in ("home", "real"):
        (tmp_path / folder).mkdir()
    (tmp_path / "real" / link).symlink_to("../home")
    (tmp_path / "target").symlink_to("real")  # the target itself may be a link
    (tmp_path / "home" / "known.cfg").write_text("known")
    (tmp_path / "file").write_bytes(b"content")
    with pytest.raises(PermissionError, match="leads out of the folder"):
        change(LocalStore(tmp_path / "target"), tmp_path / "file")
    assert [(path.name, path.read_text()) for path in (tmp_path / "home").iterdir()] == [("known.cfg", "known")]


def test_pipes_and_devices_do_not_block(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(tmp_path / "report.html")
    (tmp_path / "part.parquet").symlink_to("/dev/zero")
    store = LocalStore(tmp_path)
    for key in ("report.html", "part.parquet"):
        with pytest.raises(PermissionError, match="is not a regular file"):
            store.fetch(key, tmp_path / "copy")
    (tmp_path / "out").mkdir()
    os.mkfifo(tmp_path / "out" / MANIFEST_FILE)
    assert list(store.objects()) == []
    assert f"{MANIFEST_FILE} can't be read ({MANIFEST_FILE} is not a regular file)" in caplog.text


def test_a_line_of_nested_lists_does_not_end_the_listing(tmp_path: Path) -> None:
    (tmp_path / MANIFEST_FILE).write_bytes(b'{"x":' + b"[" * 120_000 + b"]" * 120_000 + b"}\n")
    (tmp_path / "stone.jpg").write_bytes(b"stone")
    assert [each.key for each in LocalStore(tmp_path).objects()] == ["stone.jpg"]
