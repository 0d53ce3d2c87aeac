"""A folder as a source or a target of `archive`: its listing without earlier results, and what others put in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

from imgproc_local.archive.stores import LocalStore, ObjectStore, Store
from imgproc_local.batch import MANIFEST_FILE, STATE_FOLDER, ManifestLine, ResultFile
from tests.cli.conftest import Program
from tests.support import pictures

pytestmark = pytest.mark.skipif(os.name != "posix", reason="creates links")

PART = f"{STATE_FOLDER}/parts/00000001-00000000.jsonl.gz"


def listed(store: Store) -> list[str]:
    return [each.key for each in store.objects("excluded")]


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"content")


def write_manifest(folder: Path, *results: str) -> None:
    """Write the manifest of `process` with a record per result, the edited result `edited.jpg`, and damaged lines."""
    lines = [b'{"x":' + b"[" * 120_000 + b"]" * 120_000 + b"}"]
    for name in results:
        made = {"optimized": ResultFile(name, "1" * 64, 7), "edited": ("edited.jpg",)}
        record = ManifestLine(source=name, size_bytes=7, modified_ns=0, sha256="0" * 64, options="", **made)
        lines.append(msgspec.json.encode(record))
    (folder / MANIFEST_FILE).write_bytes(b"\n".join([*lines, b'{"source": "cut off']))


def test_results_of_process_are_left_out_and_links_to_them_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "one.jpg", *(f"web/{name}" for name in ("two.jpg", "edited.jpg", "stone.jpg")))
    write(tmp_path, "web/wing/stone.webp", "web/wing/old.jpg")
    write_manifest(tmp_path / "web", "stone.jpg", "wing/stone.webp")
    (tmp_path / "web" / "link.webp").symlink_to("stone.jpg")
    assert listed(LocalStore(tmp_path)) == ["one.jpg", "web/two.jpg", "web/wing/old.jpg"]
    assert caplog.messages == ["Results of an earlier run in web are not processed again."]
    assert listed(LocalStore(tmp_path / "web" / "wing")) == ["old.jpg"], "the manifest is above the source"


@pytest.mark.parametrize("is_url", [False, True], ids=["folder", "object store"])
def test_targets_of_other_runs_are_left_out_as_a_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_url: bool
) -> None:
    write(tmp_path, "a.jpg", "wing/web/stone.webp", "wing/web/deeper/b.webp", "wing/web/alt.csv", "wing/webcam.jpg")
    for target in ("wing/web", "excluded"):
        write(tmp_path, f"{target}/{PART}", f"{target}/c.webp")
    # the store of a folder by its URL, which `archive` itself opens as a folder
    store: Store = ObjectStore(f"file://{tmp_path}") if is_url else LocalStore(tmp_path)
    assert listed(store) == ["a.jpg", "wing/webcam.jpg"]
    assert caplog.messages == ["Results of an earlier run in wing/web are not processed again."]


def test_neither_command_takes_the_target_of_an_archive_as_its_source(program: Program, tmp_path: Path) -> None:
    source = tmp_path / "source"
    write(source, f"web/{PART}", "one.jpg", "web/wing/stone.jpg")
    for name in ("one.jpg", "web/wing/stone.jpg"):
        (source / name).write_bytes(pictures.jpeg(64, 48))
    out = ("--dry-run", "--out", tmp_path / "out")
    images = program.in_process_json("process", source, *out)
    assert {Path(each["file"]).name: each["status"] for each in images} == {"one.jpg": "pending", "web": "skipped"}
    inside = program.in_process("process", source / "web" / "wing", *out)
    assert (inside.exit_code, "there are none in" in inside.stderr) == (2, True)
    for folder in ("web", "web/wing"):
        refused = program.in_process("archive", source / folder, tmp_path / "other")
        assert refused.exit_code == 2
        expected = f"Expected originals in SOURCE, but {source / 'web'} has the results of `archive`"
        assert expected in refused.stderr
        assert not (tmp_path / "other").exists()


def test_entries_that_are_no_readable_files_do_not_end_the_listing_or_block(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "wing/stone.jpg", ".hidden.jpg")
    for name, target in (("linked", "wing/stone"), ("nowhere", "deleted"), ("circle", "circle")):
        (tmp_path / f"{name}.jpg").symlink_to(f"{target}.jpg")
    (tmp_path / "device.jpg").symlink_to("/dev/zero")
    for pipe in ("pipe.jpg", f"wing/{MANIFEST_FILE}"):
        os.mkfifo(tmp_path / pipe)
    store = LocalStore(tmp_path)
    assert listed(store) == ["linked.jpg", "wing/stone.jpg"]
    assert caplog.text.count("can't be read") == 3, "a link to nothing, one to itself, and the manifest"
    for key in ("pipe.jpg", "device.jpg"):
        with pytest.raises(PermissionError, match="is not a regular file"):
            store.fetch(key, tmp_path / "copy")


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
    write(tmp_path, "home/known.cfg", "file")
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / link).symlink_to("../home")
    (tmp_path / "target").symlink_to("real")  # the target itself may be a link
    with pytest.raises(PermissionError, match="leads out of the folder"):
        change(LocalStore(tmp_path / "target"), tmp_path / "file")
    assert [(path.name, path.read_bytes()) for path in (tmp_path / "home").iterdir()] == [("known.cfg", b"content")]


def test_parts_that_lead_out_of_the_target_are_not_read(program: Program, tmp_path: Path) -> None:
    write(tmp_path, f"home/{Path(PART).name}")
    (tmp_path / "target" / STATE_FOLDER).mkdir(parents=True)
    (tmp_path / "target" / STATE_FOLDER / "parts").symlink_to(tmp_path / "home")
    ended = program.in_process("archive", tmp_path, tmp_path / "target", "--workers", "1")
    assert (ended.exit_code, "leads out of the folder" in ended.stderr) == (2, True)
    assert [path.name for path in (tmp_path / "home").iterdir()] == [Path(PART).name]
