"""`process --in-place` replaces pictures in one step or leaves them as they are; `--preserve` keeps mode and times."""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from imgproc_local.cli.process import in_place
from tests.cli.conftest import SLOWLY, TIMEOUT_S, Program, wait_for
from tests.codecs.pictures import jpeg_with_metadata
from tests.support import pictures

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such links, modes and signals")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One picture of each format, one with private data, and one in a subfolder."""
    root = tmp_path / "pictures"
    (root / "deeper").mkdir(parents=True)
    for name, content in (
        ("photo.JPG", pictures.jpeg(320, 240)),
        ("private.jpg", jpeg_with_metadata()),
        ("deeper/drawing.png", pictures.png()),
        ("moving.gif", pictures.gif()),
        ("w.webp", pictures.webp()),
        ("v.avif", pictures.encoded(pictures.photo(160, 120), "AVIF", quality=60)),
        ("notes.txt", b"no picture"),
    ):
        (root / name).write_bytes(content)
    return root


@pytest.fixture
def small_folder(folder: Path) -> Path:
    """Three of these pictures, for tests with many runs."""
    for name in ("private.jpg", "moving.gif", "v.avif"):
        (folder / name).unlink()
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def visible(folder: Path) -> dict[str, bytes]:
    """The same without the hidden files that a run creates and renames meanwhile."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.startswith(".")}


def test_pictures_are_replaced_where_that_helps_and_a_second_run_changes_nothing(
    program: Program, folder: Path, tmp_path: Path
) -> None:
    originals = content(folder)
    shown = program.in_process("process", folder, "--in-place")
    assert shown.exit_code == 0, shown.stderr
    replaced = content(folder)
    assert replaced.keys() == originals.keys(), "no other file is written"
    changed = {name for name in originals if replaced[name] != originals[name]}
    assert changed == {"photo.JPG", "private.jpg", "deeper/drawing.png", "moving.gif"}
    assert all(len(replaced[name]) < len(originals[name]) for name in changed)
    assert "4 pictures written in place: " in shown.stderr
    assert "4 done, 2 unchanged, 0 failed, 1 skipped." in shown.stderr
    images = program.in_process_json("process", folder, "--in-place")
    assert [image["status"] for image in images] == ["unchanged"] * 6 + ["skipped"]
    assert all(image["file"] == image["optimized_file"] for image in images[:6])
    assert content(folder) == replaced
    assert not (tmp_path / "imgproc-out").exists()
    assert not program.data.exists()


def test_originals_of_an_earlier_run_are_still_originals_after_they_were_replaced(
    program: Program, small_folder: Path, tmp_path: Path
) -> None:
    command = ("process", small_folder, "--out", tmp_path / "out")
    before = program.in_process_json(*command)
    program.output("process", small_folder, "--in-place")
    after = program.in_process_json(*command)
    assert [image["file"] for image in after] == [image["file"] for image in before]
    assert {image["status"] for image in after} == {"completed", "unchanged", "skipped"}
    assert "Skipped: 6 results of earlier runs" in program.error("process", tmp_path / "out", "--in-place")


def test_an_original_is_kept_under_a_name_that_no_later_run_touches(program: Program, small_folder: Path) -> None:
    folder = small_folder
    originals = content(folder)
    command = ("process", folder, "--in-place", "--backup-suffix")
    program.output(*command, "_original")
    backups = {name.removesuffix("_original"): data for name, data in content(folder).items() if name.endswith("l")}
    assert len(backups) == 2
    assert backups == {name: originals[name] for name in backups}
    once = content(folder)
    shown = program.in_process("process", folder, "--in-place")
    assert content(folder) == once
    assert "photo.JPG_original: Its name does not end like that of a picture" in shown.stderr
    edited = pictures.jpeg(320, 240, seed=5)
    (folder / "photo.JPG").write_bytes(edited)
    assert "photo.JPG_original exists already, as a link or with another content" in program.error(
        *command, "_original", exit_code=1
    )
    assert content(folder) == once | {"photo.JPG": edited}
    (folder / "photo.JPG").write_bytes(originals["photo.JPG"])  # as after a kill just before the replacement
    program.output(*command, "_original")
    assert content(folder) == once


@posix
def test_mode_owner_and_with_preserve_the_time_remain(program: Program, folder: Path, tmp_path: Path) -> None:
    picture, old_s = folder / "photo.JPG", 978307200
    picture.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(picture, 12345, 12346)
    for preserve in ((), ("--preserve",)):
        picture.write_bytes(pictures.jpeg(320, 240))
        os.utime(picture, (old_s, old_s))
        before = picture.stat()
        program.output("process", picture, "--in-place", *preserve)
        after = picture.stat()
        assert after.st_size < before.st_size
        assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
        assert (after.st_mtime == old_s) is bool(preserve)
    picture.chmod(0o440)
    for preserve in ((), ("--preserve",)):
        [image] = program.in_process_json("process", picture, "--out", tmp_path / f"out{len(preserve)}", *preserve)
        for kind in ("optimized_file", "converted_file"):
            status = Path(image[kind]).stat()
            assert (stat.S_IMODE(status.st_mode) == 0o440) is (status.st_mtime == old_s) is bool(preserve)


@posix
def test_links_read_only_files_and_other_formats_are_left_alone(program: Program, folder: Path, tmp_path: Path) -> None:
    outside, hard = tmp_path / "outside.jpg", tmp_path / "hard.jpg"
    data = pictures.jpeg(320, 240, seed=3)
    outside.write_bytes(data)
    (folder / "link.jpg").symlink_to(outside)
    (folder / "read-only.jpg").write_bytes(data)
    (folder / "read-only.jpg").chmod(0o444)
    (folder / "scan.tif").write_bytes(pictures.encoded(pictures.photo(64, 48), "TIFF"))
    hard.hardlink_to(folder / "photo.JPG")
    original = hard.read_bytes()
    shown = program.in_process("process", folder, folder / "link.jpg", "--in-place", "--exclude", "private.jpg")
    assert shown.exit_code == 1
    assert f"Failed: {folder / 'link.jpg'}: It is a link, which is not replaced." in shown.stderr
    assert f"Skipped: {folder / 'read-only.jpg'}: It is read-only." in shown.stderr
    assert f"Skipped: {folder / 'scan.tif'}: The result of a TIFF file would have another format." in shown.stderr
    assert (folder / "link.jpg").is_symlink()
    (folder / "private.jpg.orig").symlink_to("private.jpg")
    private = (folder / "private.jpg").read_bytes()
    failed = program.error("process", folder / "private.jpg", "--in-place", "--backup-suffix", ".orig", exit_code=1)
    assert "private.jpg.orig exists already, as a link or with another content" in failed
    assert (folder / "private.jpg").read_bytes() == private
    assert outside.read_bytes() == (folder / "read-only.jpg").read_bytes() == data
    assert hard.read_bytes() == original != (folder / "photo.JPG").read_bytes(), "the other name has the original"


def test_a_picture_that_changes_meanwhile_or_can_not_be_replaced_is_left_as_it_is(
    program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture, edited = folder / "photo.JPG", pictures.jpeg(320, 240, seed=5)
    copy_durably, replace = in_place.copy_durably, Path.replace

    def edit(source: Path, target: Path) -> None:
        copy_durably(source, target)
        picture.write_bytes(edited)

    def edit_after_backup(source: Path, target: Path) -> None:
        copy_durably(source, target)
        if source == picture:
            picture.write_bytes(edited)

    def refuse(path: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied") if target == picture else OSError(28, "No space left on device")

    def fails(*options: str, **replaced: Callable[..., object]) -> str:
        with monkeypatch.context() as patched:
            for name, function in replaced.items():
                patched.setattr(Path if name == "replace" else in_place, name, function)
            return program.error("process", picture, "--in-place", *options, exit_code=1)

    for change in (edit_after_backup, edit):
        original = pictures.jpeg(320, 240)
        picture.write_bytes(original)
        failed = fails("--backup-suffix", ".orig", copy_durably=change)
        assert "It was not replaced: it was changed while it was processed." in failed
        assert picture.read_bytes() == edited
        assert (folder / "photo.JPG.orig").read_bytes() == original
    assert "It was not replaced: Permission denied" in fails(replace=refuse)
    assert picture.read_bytes() == edited
    assert [file for file in folder.iterdir() if file.name.startswith(".")] == []
    assert Path.replace is replace


def test_what_a_killed_run_left_is_deleted_later(
    program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = folder / ".imgproc-in-place-0123.part"
    left.write_bytes(b"half")
    program.output("process", folder / "photo.JPG", "--in-place")
    assert left.exists(), "it may be of another run that still works"
    monkeypatch.setattr(in_place, "_LEFTOVER_AGE_S", 0.0)
    program.output("process", folder / "private.jpg", "--in-place")
    assert not left.exists()


@posix
def test_a_kill_leaves_each_picture_whole(program: Program, tmp_path: Path) -> None:
    for root in ("pictures", "expected"):
        (tmp_path / root).mkdir()
        for number in range(6):
            (tmp_path / root / f"{number}.jpg").write_bytes(pictures.jpeg(160, 120, seed=number))
    folder = tmp_path / "pictures"
    originals = visible(folder)
    program.output("process", tmp_path / "expected", "--in-place")
    finished = visible(tmp_path / "expected")
    program.command = SLOWLY
    with program.start("process", folder, "--in-place", "--jobs", 1) as process:
        wait_for(lambda: visible(folder) != originals, process)  # at least one is replaced
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=TIMEOUT_S)
    time.sleep(0.1)  # its workers end too
    for name, data in visible(folder).items():
        assert data in (originals[name], finished[name]), name
    program.output("process", folder, "--in-place")
    assert visible(folder) == finished


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--in-place", "--out", "x"), "--in-place can't be combined with --out"),
        (("--in-place", "--only", "convert"), "--in-place can't be combined with --only"),
        (("--in-place", "--max-width", "40"), "--in-place can't be combined with --max-width"),
        (("--in-place", "--write-metadata"), "--in-place can't be combined with --write-metadata"),
        (("--backup-suffix", ".orig"), "--backup-suffix needs --in-place"),
        (("--in-place", "--backup-suffix", ".orig.jpg"), "expected the end of a file name, such as .orig"),
        (("--in-place", "--backup-suffix", "/x"), "expected the end of a file name, such as .orig"),
        (("--in-place", "--backup-suffix", ":x"), "expected the end of a file name, such as .orig"),
        (("--in-place", "--backup-suffix", ". "), "expected the end of a file name, such as .orig"),
        (("--in-place", "--backup-suffix", ""), "expected the end of a file name, such as .orig"),
    ],
)
def test_options_without_meaning_in_place_are_refused(
    program: Program, folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    before = content(folder)
    assert message in " ".join(program.error("process", folder, *arguments).split())
    assert content(folder) == before


def test_no_outside_service_works_in_place(program: Program, folder: Path) -> None:
    service = {"compression_service": "tinify", "compression_key": "secret"}
    assert "set compression_service to 'local'" in program.error("process", folder, "--in-place", **service)
