"""A second run of `process` continues, skips what is unchanged, and never takes results as input."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest
from PIL import Image
from PIL.ExifTags import GPS, IFD, Base

from imgproc_local.batch import MANIFEST_FILE, MANIFEST_HEADER
from imgproc_local.cli.discovery import read_manifest
from imgproc_local.cli.process import results_folder
from imgproc_local.cli.process.results_folder import LOCK_FILE
from imgproc_local.system.files import try_lock
from tests.cli.conftest import SLOWLY, TIMEOUT_S, Program, wait_for
from tests.cli.process.test_process import names
from tests.support import pictures


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four pictures that all get the same name, in two subfolders."""
    root = tmp_path / "pictures"
    for number in range(4):
        file = root / "ab"[number // 2] / str(number) / "green stone.jpg"
        file.parent.mkdir(parents=True)
        file.write_bytes(pictures.jpeg(64, 48, seed=number))
    return root


def content(folder: Path) -> dict[str, bytes]:
    """Every file of an output folder, except the lock."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != LOCK_FILE]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def statuses(images: list[dict[str, str]]) -> list[str]:
    return [image["status"] for image in images]


def planned(program: Program, folder: Path, out: Path, *options: str) -> list[str]:
    """What the next run would do with the pictures."""
    images = program.in_process_json("process", folder, "--out", out, "--dry-run", *options)
    return [status for status in statuses(images) if status != "skipped"]


def test_names_are_numbered_in_the_order_of_the_folder_and_a_second_run_changes_nothing(
    program: Program, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = ("process", folder, "--out", out, "--languages", "en,de")
    assert planned(program, folder, out) == ["pending"] * 4
    assert (out.exists(), program.data.exists()) == (False, False), "a dry run writes nothing"
    images = program.in_process_json(*command)
    [base] = {image["translations"][0]["seo_filename"].removesuffix("-2") for image in images[:2]}
    assert [str(Path(image["optimized_file"]).relative_to(out)) for image in images] == [
        f"a/0/{base}.jpg", f"a/1/{base}-2.jpg", f"b/2/{base}-3.jpg", f"b/3/{base}-4.jpg",
    ]  # fmt: skip
    before = content(out)
    again = program.in_process_json(*command)
    for new, old in zip(again, images, strict=True):
        for field in ("optimized_file", "optimized_size", "converted_size", "compression_percentage"):
            assert new[field] == old[field]
        assert new["status"] == "unchanged"
        assert new["translations"][1]["seo_filename"] == old["translations"][1]["seo_filename"]
    assert content(out) == before
    assert b"Picture." not in before[MANIFEST_FILE], "a text that a person has to write is in no file"
    (folder / "a" / "new.jpg").write_bytes(pictures.jpeg(64, 48, seed=9))
    shown = program.in_process(*command, "--dry-run", tmp_path / "gone.jpg")
    assert "1 to process, 4 unchanged, 1 failed, 0 skipped, 4 in need of a text" in shown.stderr
    assert (shown.exit_code, f"Failed: {tmp_path / 'gone.jpg'}: No such file or folder." in shown.stderr) == (1, True)


def test_what_has_changed_is_processed_again_in_place_of_its_old_results(
    program: Program, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    first = program.in_process_json("process", folder, "--out", out)
    os.utime(folder / "a" / "0" / "green stone.jpg")  # another time, same content
    (folder / "a" / "1" / "green stone.jpg").write_bytes(pictures.jpeg(64, 48, seed=9))
    Path(first[2]["converted_file"]).unlink()
    Path(first[3]["optimized_file"]).write_bytes(b"edited by the user")
    images = program.in_process_json("process", folder, "--out", out)
    status = {image["file"]: image["status"] for image in images}
    assert [status[image["file"]] for image in first] == ["unchanged", "completed", "completed", "unchanged"]
    assert sorted(names(out)) == sorted(
        Path(image[f"{kind}_file"]).name for image in first for kind in ("optimized", "converted")
    )
    assert Path(first[3]["optimized_file"]).read_bytes() == b"edited by the user"
    other = program.in_process_json("process", folder, "--out", out, "--format", "avif")
    assert statuses(other) == ["completed"] * 4
    # of the last picture, the user's file remains, and the new results have the next free name
    endings = [Path(name).suffix for name in names(out)]
    assert (endings.count(".webp"), endings.count(".avif")) == (0, 4)
    assert Path(first[3]["optimized_file"]).read_bytes() == b"edited by the user"


def test_a_picture_that_can_not_be_processed_any_more_retains_its_results(program: Program, tmp_path: Path) -> None:
    picture, out = tmp_path / "stone.png", tmp_path / "out"
    whole = pictures.png(64, 48)
    picture.write_bytes(whole)
    [first] = program.in_process_json("process", picture, "--out", out)
    data_at = whole.index(b"IDAT") + 4
    picture.write_bytes(whole[:data_at] + bytes(len(whole) - data_at - 16) + whole[-16:])
    before = names(out)
    shown = program.in_process("process", picture, "--out", out)
    assert (shown.exit_code, "written to" in shown.stderr) == (1, False)
    assert "0 done, 1 failed, 0 skipped" in shown.stderr
    assert names(out) == before
    picture.write_bytes(whole)
    assert planned(program, picture, out) == ["pending"]
    [again] = program.in_process_json("process", picture, "--out", out)
    assert (again["optimized_file"], names(out)) == (first["optimized_file"], before)


@pytest.mark.parametrize("where", ["inside", "parent", "same", "link"])
def test_results_are_never_taken_as_input(program: Program, tmp_path: Path, where: str) -> None:
    folder = tmp_path / "pictures"
    (folder / "deeper").mkdir(parents=True)
    for number in range(2):
        (folder / "deeper" / f"{number}.jpg").write_bytes(pictures.jpeg(64, 48, seed=number))
    out = {"inside": folder / "b" / "out", "parent": tmp_path, "same": folder, "link": tmp_path / "link"}[where]
    if where == "link":
        (folder / "results").mkdir()
        out.symlink_to(folder / "results")
    only = ("--only", "optimize")
    if where == "same":
        # an original that can't be made smaller: its result, beside it, has the same content
        elsewhere = tmp_path / "elsewhere"
        [small] = program.in_process_json("process", folder / "deeper" / "0.jpg", "--out", elsewhere, *only)
        shutil.move(small["optimized_file"], folder / "deeper" / "0.jpg")
        shutil.rmtree(elsewhere)
    images = program.in_process_json("process", folder, "--out", out, *only)
    assert statuses(images) == ["completed"] * 2
    assert planned(program, folder, out, *only) == ["unchanged"] * 2
    # for another output folder, the results in the first one and copies of them are not input either
    shutil.copy(images[1]["optimized_file"], folder / "a copy.jpg")
    assert planned(program, folder, tmp_path / "second", *only) == ["pending"] * 2


def test_a_damaged_manifest_loses_no_more_than_its_damaged_lines(
    program: Program, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    program.in_process_json("process", folder, "--out", out)
    before = content(out)
    header, *records = before[MANIFEST_FILE].splitlines(keepends=True)
    assert header.rstrip() == MANIFEST_HEADER
    (out / MANIFEST_FILE).write_bytes(b"".join([header, b"\xff\x00garbage\n", *records[:3], records[3][:100]]))
    images = program.in_process_json("process", folder, "--out", out)
    assert sorted(statuses(images)) == ["completed", "unchanged", "unchanged", "unchanged"]
    # the record that named these files is lost, so that they count as the user's
    assert {name: content(out)[name] for name in before if name != MANIFEST_FILE} == {
        name: data for name, data in before.items() if name != MANIFEST_FILE
    }


def test_runs_on_one_folder_take_turns(program: Program, folder: Path, tmp_path: Path) -> None:
    files, out = sorted(folder.rglob("*.jpg")), tmp_path / "out"
    runs = [program.start("process", file, "--out", out, "--format", "avif") for file in files]
    ended = [(run, *run.communicate(timeout=TIMEOUT_S)) for run in runs]
    assert [run.returncode for run, _, _ in ended] == [0] * 4, [stderr for _, _, stderr in ended]
    assert len(set(names(out))) == len(files) * 2
    assert planned(program, folder, out, "--format", "avif") == ["unchanged"] * 4, "the manifest has all of them"
    assert content(out)[MANIFEST_FILE].count(b"\n") == 1 + len(files)


def test_a_run_waits_for_another_one_and_takes_none_of_its_results_as_input(
    program: Program, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.in_process_json("process", folder, "--out", tmp_path / "out")
    # the search of the waiting run finds files of which the manifest of the other run says only later what they are
    shutil.copytree(tmp_path / "out", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*"))
    lock = folder / LOCK_FILE
    with lock.open("ab") as file:
        assert try_lock(file)
        with program.start("process", folder, "--out", folder) as waiting:
            wait_for(lambda: "Waiting until it ends" in (waiting.stderr.readline() if waiting.stderr else ""), waiting)
            shutil.copy(tmp_path / "out" / MANIFEST_FILE, folder)
            file.close()
            assert waiting.wait(TIMEOUT_S) == 0
    assert {Path(source).name for source in read_manifest(folder)} == {"green stone.jpg"}
    with lock.open("ab") as file:
        assert try_lock(file)
        monkeypatch.setattr(results_folder, "_LOCK_WAIT_S", 0.0)
        refused = program.error("process", folder, "--out", folder, "--quiet")
    assert refused == f"Error: Another `process` is writing to {folder}. Choose another folder with --out.\n"


def test_a_table_replaces_only_that_of_an_earlier_run(program: Program, folder: Path, tmp_path: Path) -> None:
    picture, out, table = folder / "a" / "0" / "green stone.jpg", tmp_path / "out", tmp_path / "alt.csv"
    command = ("process", picture, "--out", out, "--csv")
    before = picture.read_bytes()
    table.write_text("my,own,table\n")
    for taken in (picture, table):
        expected = "expected a new file in a folder that exists, or the file that --csv wrote in an earlier run"
        assert expected in program.error(*command, taken)
    assert (picture.read_bytes(), table.read_text(), out.exists()) == (before, "my,own,table\n", False)
    table.unlink()
    for _ in range(2):
        program.output(*command, table)
        assert table.read_bytes().count(b"\r\n") == 3
    program.error("process", tmp_path / "missing", *command[2:], table)
    assert table.read_bytes().count(b"\r\n") == 3
    if Path("/proc/self").is_dir():  # a folder in which nobody can create a file
        unwritable = program.error(*command, "/proc/texts.csv", exit_code=1)
        assert "The file /proc/texts.csv can't be written" in unwritable


def test_flat_csv_and_only(program: Program, folder: Path, tmp_path: Path) -> None:
    out, table = tmp_path / "out", tmp_path / "alt.csv"
    (folder / "=1+1.jpg").write_bytes(pictures.jpeg(64, 48))
    flat = ("process", folder, "--flat", "--out", out)
    shown = program.summary(*flat, "--csv", table, "--only", "analyze", "--only", "optimize")
    assert "5 done, 0 failed, 0 skipped, 5 in need of a text from you" in shown
    assert all(file.parent == out for file in out.rglob("*"))
    assert len(names(out)) == 5
    data = table.read_bytes()
    assert data.startswith(b"\xef\xbb\xbf")
    rows = list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"))))
    assert [row["file"] for row in rows] == [f"{row['seo_filename']}.jpg" for row in rows]
    assert {(row["language"], row["alt_text"], row["needs_text"]) for row in rows} == {("en", "", "true")}
    analyzed = program.in_process("process", folder / "=1+1.jpg", "--out", out, "--only", "analyze")
    assert re.search(rf" {rows[0]['seo_filename']} +\S+ kB +- +- +-$", analyzed.stdout, re.MULTILINE), analyzed.stdout
    assert "1 picture described." in analyzed.stderr
    only = program.in_process_json(*flat, "--only", "convert")
    assert {Path(image["converted_file"]).suffix for image in only} == {".webp"}
    assert len(names(out)) == 10, "the optimized files remain, for nothing takes their place"


def test_only_what_is_made_anew_is_replaced(program: Program, folder: Path, tmp_path: Path) -> None:
    picture, out = next(folder.rglob("*.jpg")), tmp_path / "out"
    (whole,) = program.in_process_json("process", picture, "--out", out)
    files = {path.name: path.read_bytes() for path in out.iterdir() if not path.name.startswith(".")}
    (texts,) = program.in_process_json("process", picture, "--out", out, "--only", "analyze", "--languages", "de")
    assert {name: (out / name).read_bytes() for name in files} == files
    assert (texts["optimized_file"], texts["status"]) == (whole["optimized_file"], "completed")
    (converted,) = program.in_process_json("process", picture, "--out", out, "--only", "convert", "--format", "avif")
    assert [text["language_code"] for text in converted["translations"]] == ["de"]
    assert {Path(name).suffix for name in names(out)} == {".jpg", ".avif"}
    assert (out / Path(whole["optimized_file"]).name).is_file()
    named = converted["translations"][0]["seo_filename"]
    assert Path(converted["converted_file"]).name == f"{named}.avif", "it is named after the texts of the earlier run"
    again = program.in_process("process", picture, "--out", out, "--only", "convert", "--format", "avif")
    assert "1 unchanged" in again.stderr
    picture.write_bytes(pictures.jpeg(80, 60, seed=9))
    program.in_process_json("process", picture, "--out", out, "--only", "convert")
    assert {Path(name).suffix for name in names(out)} == {".webp"}, "results of another content do not remain"


def test_no_two_pictures_have_files_of_one_name_whichever_run_made_them(program: Program, tmp_path: Path) -> None:
    described, other, out = tmp_path / "IMG_1.jpg", tmp_path / "green stone picture.png", tmp_path / "out"
    exif = Image.Exif()
    exif[Base.ImageDescription] = "The green stone"
    exif.get_ifd(IFD.GPSInfo)[GPS.GPSLatitudeRef] = "N"
    described.write_bytes(pictures.encoded(pictures.photo(64, 48), exif=exif))
    other.write_bytes(pictures.png())
    describe = ("process", described, "--only", "analyze", "--only", "optimize", "--sidecar")
    optimize = ("process", other, "--only", "optimize")
    for command in (optimize, describe):
        program.output(*command, "--out", tmp_path / "first")
    assert names(tmp_path / "first") == [f"green-stone-picture{ending}" for ending in ("-2.jpg", "-2.xmp", ".png")]
    for command in (describe, optimize):
        program.output(*command, "--out", out)
    assert names(out) == [f"green-stone-picture{ending}" for ending in ("-2.png", ".jpg", ".xmp")]
    [again] = program.in_process_json("process", described, "--only", "analyze", "--out", out)
    assert again["removed"] == ["gps"], "the file of the first run is still there"


def test_an_edited_result_remains_one(program: Program, folder: Path, tmp_path: Path) -> None:
    picture = next(folder.rglob("*.jpg"))
    (whole,) = program.in_process_json("process", picture, "--out", picture.parent)
    edited = Path(whole["optimized_file"])
    content = pictures.jpeg(64, 48, seed=8)
    edited.write_bytes(content)
    (texts,) = program.in_process_json("process", picture, "--out", picture.parent, "--only", "analyze")
    assert texts["optimized_file"] == whole["optimized_file"]
    command = ("process", picture.parent, "--out", picture.parent)
    assert "0 done, 1 unchanged" in program.summary(*command, "--only", "analyze")
    assert edited.read_bytes() == content
    for _ in range(2):
        images = program.in_process_json(*command, "--max-width", "40")
        assert [image["file"] for image in images if image["status"] != "skipped"] == [str(picture)]
        assert edited.read_bytes() == content, "it remains when a new result is made, and is not taken for an original"
    shown = program.in_process(*command, "--max-width", "40")
    assert f"Skipped: {edited}: It is at the path of a result that was edited." in shown.stderr
    assert "Rename it if it is an original." in program.error("process", edited, "--out", picture.parent)


def test_the_pictures_that_a_data_folder_has_stored_are_left_out(
    program: Program, folder: Path, tmp_path: Path
) -> None:
    data, dry = folder / "service", ("--out", tmp_path / "out", "--dry-run")
    (data / "files" / "ab").mkdir(parents=True)
    (data / "imgproc.db").write_bytes(b"")
    (data / "files" / "ab" / "abcd").write_bytes(pictures.jpeg(64, 48))
    shown = program.in_process("process", folder, *dry)
    assert "4 to process" in shown.stderr
    assert f"Skipped: {data}: It is a data folder of this program:" in shown.stderr
    program.error("process", data / "files" / "..", *dry)
    (data / "own.jpg").write_bytes(pictures.jpeg(64, 48, seed=9))
    assert "1 to process" in program.summary("process", data, *dry)


def test_archive_names_depend_on_no_other_picture(program: Program, folder: Path, tmp_path: Path) -> None:
    program.output("process", folder, "--out", tmp_path / "taken", "--only", "optimize")
    command = ("process", folder, "--only", "convert", "--effort", "fast", "--archive-names", "--out")
    runs = [program.in_process_json(*command, tmp_path / name) for name in ("taken", "empty")]
    first, second = ([Path(image["converted_file"]).name for image in images] for images in runs)
    assert first == second


@pytest.mark.skipif(sys.platform == "win32", reason="kill is SIGKILL only on POSIX")
def test_a_killed_and_an_interrupted_run_end_like_an_undisturbed_one(program: Program, tmp_path: Path) -> None:
    source = tmp_path / "pictures"
    for number in range(20):
        file = source / f"{number // 5}" / f"{number}" / "stone.jpg"
        file.parent.mkdir(parents=True)
        file.write_bytes(pictures.jpeg(64, 48, seed=number % 9))
    program.output("process", source, "--out", tmp_path / "expected")
    out = tmp_path / "out"
    program.command = SLOWLY
    for number, exit_code in ((signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)):
        earlier = len(read_manifest(out))
        with program.start("process", source, "--out", out, "--json", "--jobs", 1) as process:
            wait_for(lambda earlier=earlier: len(read_manifest(out)) > earlier, process)
            process.send_signal(number)
            stdout, stderr = process.communicate(timeout=TIMEOUT_S)
        assert (process.returncode, "Traceback" in stderr) == (exit_code, False), stderr
        if exit_code == 130:
            done = [image for image in json.loads(stdout) if image["status"] in ("completed", "unchanged")]
            assert f"Interrupted. {len(done)} of 20 pictures are done. To continue, run the same command" in stderr
            kinds = ("optimized_file", "converted_file")
            assert names(out) == sorted(Path(image[kind]).name for image in done for kind in kinds)
    (out / ".imgproc-local-of-a-killed-run.part").mkdir()
    program.output("process", source, "--out", out)
    assert content(out) == content(tmp_path / "expected")
    assert list(out.glob(".imgproc-local-*.part")) == []
