"""The results of `process` and of `archive` are never the pictures of another run, whichever command made them."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from imgproc_local.archive.stores import LocalStore, ObjectStore, Store
from imgproc_local.batch import MANIFEST_FILE, STATE_FOLDER, Record, ResultFile
from tests.cli.conftest import Program
from tests.support import pictures

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")


def listed(store: Store) -> list[str]:
    return [each.key for each in store.objects("excluded")]


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"content")


def record(folder: Path, *results: str) -> None:
    """Write the manifest of `process` with a record per result, and with the edited result `edited.jpg`."""
    lines = []
    for name in results:
        made = {"optimized": ResultFile(name, "1" * 64, 7), "edited": ("edited.jpg",)}
        record = Record(source=name, size_bytes=7, modified_ns=0, sha256="0" * 64, options="", **made)
        lines.append(msgspec.json.encode(record) + b"\n")
    (folder / MANIFEST_FILE).write_bytes(b"".join(lines))


def test_results_of_process_are_left_out_of_a_folder_that_has_originals_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = tmp_path / "source"
    write(
        source, "one.jpg", "web/two.jpg", "web/edited.jpg", "web/stone.jpg", "web/wing/stone.webp", "web/wing/old.jpg"
    )
    record(source / "web", "stone.jpg", "wing/stone.webp")
    with (source / "web" / MANIFEST_FILE).open("ab") as manifest:
        manifest.write(b'{"source": "cut off')
    assert listed(LocalStore(source)) == ["one.jpg", "web/two.jpg", "web/wing/old.jpg"]
    assert caplog.messages == ["Results of an earlier run in web are not processed again."]


def test_results_of_process_are_known_in_a_source_inside_their_output_folder(tmp_path: Path) -> None:
    write(tmp_path / "out", "wing/stone.webp", "wing/old.jpg")
    record(tmp_path / "out", "wing/stone.webp")
    assert listed(LocalStore(tmp_path / "out" / "wing")) == ["old.jpg"]


@pytest.mark.skipif(os.name != "posix", reason="creates links")
def test_a_link_to_a_result_is_one(tmp_path: Path) -> None:
    write(tmp_path, "web/stone.webp")
    record(tmp_path / "web", "stone.webp")
    (tmp_path / "web" / "link.webp").symlink_to("stone.webp")
    assert listed(LocalStore(tmp_path)) == []


@pytest.mark.parametrize("is_url", [False, True], ids=["folder", "object store"])
def test_targets_of_other_runs_are_left_out_as_a_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_url: bool
) -> None:
    write(tmp_path, "a.jpg", "wing/web/stone.webp", "wing/web/deeper/b.webp", "wing/web/alt.csv", "wing/webcam.jpg")
    for target in ("wing/web", "excluded"):
        write(tmp_path, f"{target}/{STATE_FOLDER}/parts/000001-0.parquet", f"{target}/c.webp")
    # the store of a folder by its URL, which `archive` itself opens as a folder
    store: Store = ObjectStore(f"file://{tmp_path}") if is_url else LocalStore(tmp_path)
    assert listed(store) == ["a.jpg", "wing/webcam.jpg"]
    assert caplog.messages == ["Results of an earlier run in wing/web are not processed again."]


@pytest.mark.parametrize("source", ["target", "target/wing"])
def test_a_source_of_results_is_refused(program: Program, tmp_path: Path, source: str) -> None:
    write(tmp_path / "target", f"{STATE_FOLDER}/parts/000001-0.parquet", "wing/stone.webp")
    result = program.in_process("archive", tmp_path / source, tmp_path / "other")
    assert result.exit_code == 2
    assert f"Expected originals in SOURCE, but {tmp_path / 'target'} has the results of `archive`" in result.stderr
    assert not (tmp_path / "other").exists()


def test_process_leaves_out_the_target_of_an_archive(program: Program, tmp_path: Path) -> None:
    source = tmp_path / "source"
    write(source, f"web/{STATE_FOLDER}/parts/000001-0.parquet")
    for name in ("one.jpg", "web/stone.jpg", "web/wing/stone.jpg"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_bytes(pictures.jpeg(64, 48))
    out = ("--dry-run", "--out", tmp_path / "out")
    files = {
        Path(each["file"]).relative_to(source).as_posix(): each["status"]
        for each in program.in_process_json("process", source, *out)
    }
    assert files == {"one.jpg": "pending", "web": "skipped"}
    inside = program.in_process("process", source / "web" / "wing", *out)
    assert inside.exit_code == 2
    assert "there are none in" in inside.stderr
