"""`process`: its results and messages, and that it leaves no job and no file in the data folder."""

from __future__ import annotations

import errno
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from imgproc_local import batch
from imgproc_local.cli.process import run
from imgproc_local.codecs.picture import formats
from imgproc_local.domain.image import Format
from imgproc_local.engine import pipeline as pipeline_module
from tests.cli.conftest import Program
from tests.remote.tinify_server import tinify_server
from tests.support import pictures
from tests.support.reading import probe

FIELDS = [
    "file", "status", "original_filename", "original_size", "optimized_size", "converted_format",
    "converted_size", "compression_percentage", "translations", "suggested_role", "suggested_role_reason", "removed",
    "optimized_notes", "converted_notes", "variants", "optimized_file", "converted_file", "errors",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Pictures of four formats, two in a subfolder, with another file and hidden files."""
    root = tmp_path / "pictures"
    (root / "deeper").mkdir(parents=True)
    (root / ".hidden").mkdir()
    (root / "red bicycle.JPG").write_bytes(pictures.jpeg())
    (root / "old harbour.png").write_bytes(pictures.png())
    (root / "deeper" / "spinning wheel.gif").write_bytes(pictures.gif())
    (root / "deeper" / "green hill.webp").write_bytes(pictures.webp())
    (root / "notes.txt").write_text("no picture")
    (root / ".hidden" / "secret.jpg").write_bytes(pictures.jpeg(seed=9))
    (root / ".secret.jpg").write_bytes(pictures.jpeg(seed=9))
    return root


def names(folder: Path) -> list[str]:
    """The results in a folder and its subfolders, without hidden files such as the manifest."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def test_all_pictures_of_a_folder_are_processed(program: Program, folder: Path, tmp_path: Path) -> None:
    """Both folders are named relative to the working directory, as people do."""
    noise = np.random.default_rng(1).integers(0, 256, (120, 160, 3), np.uint8)
    Image.fromarray(noise).save(folder / "coarse.jpg", quality=20)
    program.working_directory = tmp_path
    out = tmp_path / "out"
    result = program("process", folder.name, "--languages", "en,de", "--out", "out")
    assert result.returncode == 0, result.stderr
    written = names(out)
    assert sorted(Path(name).suffix for name in written) == [".gif", *[".jpg"] * 2, ".png", *[".webp"] * 6]
    for name in written:
        assert name == name.lower()
        assert name in result.stdout or Path(name).suffix == ".webp"
        [file] = out.rglob(name)
        in_subfolder = name.startswith(("spinning-wheel", "green-hill"))
        assert file.parent == (out / "deeper" if in_subfolder else out)
        with Image.open(file) as picture:
            picture.load()
    for expected in ("red-bicycle", "en (", "de ("):
        assert expected in result.stdout
    for expected in ("5 pictures written", " larger as WEBP than optimized", "5 done, 0 failed"):
        assert (expected in result.stderr, expected in result.stdout) == (True, False)
    assert f"Skipped: {Path(folder.name, 'notes.txt')}: " in result.stderr
    assert "secret" not in result.stdout + result.stderr
    assert "[" not in result.stderr, "there is no progress line without a terminal"


def test_tiff_and_heic_become_jpeg_an_avif_remains_one_and_a_raw_file_is_skipped_by_name(
    program: Program, tmp_path: Path
) -> None:
    pillow_heif = pytest.importorskip("pillow_heif", reason="needs imgproc-local[heic]")
    folder = tmp_path / "pictures"
    folder.mkdir()
    picture = Image.open(io.BytesIO(pictures.jpeg()))
    options = {"compression": "tiff_lzw", "save_all": True, "append_images": [picture.resize((20, 20))]}
    picture.save(folder / "boat.tif", **options)
    pillow_heif.from_pillow(picture).save(folder / "lake.heic")
    (folder / "hill.avif").write_bytes(pictures.avif())
    (folder / "raw.cr2").write_bytes(b"II*\0\x10\0\0\0CR\x02\0" + bytes(100))
    result = program("process", folder, "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert sorted(Path(name).suffix for name in names(tmp_path / "out")) == [".avif", ".jpg", ".jpg", *[".webp"] * 3]
    assert "a camera raw file: export it as JPEG first" in result.stdout + result.stderr
    assert "boat.tif: only the first of its 2 pages is processed." in result.stderr


def test_a_jpeg_becomes_a_jpeg_xl_and_that_a_jpeg(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "boat.jpg").write_bytes(pictures.jpeg())
    out = ("--out", tmp_path / "out", "--archive-names")
    (made,) = program.in_process_json("process", tmp_path / "boat.jpg", "--only", "convert", "--format", "jxl", *out)
    assert made["converted_file"].endswith(".jxl")
    assert made["converted_size"] < made["original_size"]
    (again,) = program.in_process_json("process", made["converted_file"], "--only", "optimize", "--out", tmp_path / "2")
    assert again["optimized_file"].endswith(".jpg")
    monkeypatch.setattr(formats, "can_use_jxl", lambda: False)
    assert "pylibjxl is not installed" in program.error("process", tmp_path / "boat.jpg", "--format", "jxl")


def test_json_is_one_document_with_the_fields_of_the_api(program: Program, folder: Path, tmp_path: Path) -> None:
    command = ("process", folder, "--languages", "en_US,de-AT,en", "--out", tmp_path / "out", "--format", "avif")
    images = program.in_process_json(*command)
    assert all(list(image) == FIELDS for image in images)
    done = {Path(image["file"]).name: image for image in images if image["status"] == "completed"}
    assert set(done) == {"red bicycle.JPG", "old harbour.png", "spinning wheel.gif", "green hill.webp"}
    for name, image in done.items():
        assert image["original_filename"] == name
        assert image["errors"] == []
        assert image["optimized_notes"] == []
        is_larger = image["converted_size"] >= image["optimized_size"]
        assert [note["code"] for note in image["converted_notes"]] == ["larger_than_optimized"] * is_larger
        assert Path(image["optimized_file"]).stat().st_size == image["optimized_size"] <= image["original_size"]
        assert Path(image["converted_file"]).stat().st_size == image["converted_size"]
        assert image["converted_format"] == "avif"
        assert [text["language_code"] for text in image["translations"]] == ["en", "de"]
        assert Path(image["optimized_file"]).stem == image["translations"][0]["seo_filename"]
        assert probe(Path(image["converted_file"]), 10**6).format is Format.AVIF
    assert [Path(image["file"]).name for image in images if image["status"] == "skipped"] == ["notes.txt"]


def test_a_picture_named_twice_has_one_result_and_files_of_the_user_are_not_overwritten(
    program: Program, folder: Path, tmp_path: Path
) -> None:
    out, picture = tmp_path / "out", (folder / "red bicycle.JPG").rename(folder / "red bicycle.png")
    out.mkdir()
    (out / "red-bicycle-picture.webp").write_bytes(b"mine")
    [image] = program.in_process_json(
        "process", picture, picture, folder / "deeper" / ".." / picture.name, "--out", out
    )
    assert Path(image["optimized_file"]).name == "red-bicycle-picture-2.jpg", "the extension follows the content"
    assert (out / "red-bicycle-picture.webp").read_bytes() == b"mine"


def test_a_quiet_run_prints_only_what_failed_and_the_json(program: Program, folder: Path, tmp_path: Path) -> None:
    command = ("process", folder / "red bicycle.JPG", "--out", tmp_path / "out", "--quiet")
    done = program.in_process(*command)
    assert (done.exit_code, done.output) == (0, "")
    failed = program.in_process(*command, folder / "notes.txt", "--json")
    assert (failed.exit_code, [image["status"] for image in json.loads(failed.stdout)]) == (1, ["unchanged", "failed"])
    assert re.fullmatch(rf"Failed: {folder / 'notes.txt'}: [^\n]+\n", failed.stderr)


# ---- failures and refusals ----


def test_what_can_not_be_processed_fails_and_the_others_are_done(
    program: Program, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken pictures, named files that are no pictures or do not exist, and one that is removed meanwhile."""

    def run_stages(pipeline: Any, plan: Any, file: Path, *rest: Any) -> Any:
        if file.name == "old harbour.png":
            file.unlink()
        return pipeline_module.run_stages(pipeline, plan, file, *rest)

    monkeypatch.setattr(batch, "run_stages", run_stages)
    missing = folder / "red bicylce.JPG"
    for name, content in (
        ("broken.jpg", pictures.broken_jpeg()),
        ("cut.png", pictures.png()[:20]),
        ("x.bmp", b"BM" + bytes(60)),
        ("large.jpg", pictures.jpeg(400, 300)),
    ):
        (folder / name).write_bytes(content)
    if os.name == "posix":
        os.mkfifo(folder / "pipe.jpg")
        (folder / "dangling.jpg").symlink_to(folder / "nowhere")
        (folder / "loop.jpg").symlink_to("loop.jpg")
    named = (folder / "notes.txt", folder / "x.bmp", missing)
    command = ("process", folder, *named, "--out", tmp_path / "out", "--json")
    result = program.in_process(*command, max_pixels=100_000)
    assert result.exit_code == 1
    status = {Path(image["file"]).name: image["status"] for image in json.loads(result.stdout)}
    assert sum(each == "completed" for each in status.values()) == 3
    reasons = {"old harbour.png": "It was removed while it was processed.", missing.name: "No such file or folder."}
    reasons |= dict.fromkeys(("broken.jpg", "cut.png", "notes.txt"), "") | {"x.bmp": "", "large.jpg": "100,000"}
    if os.name == "posix":
        reasons |= {"dangling.jpg": "", "loop.jpg": "It can't be read"}
        assert f"Skipped: {folder / 'pipe.jpg'}: " in result.stderr
    for name, reason in reasons.items():
        assert status[name] == "failed"
        (line,) = [line for line in result.stderr.splitlines() if line.startswith(f"Failed: {folder / name}: ")]
        assert reason in line
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.jpg",), "missing.jpg"),
        ((), "Expected a FILE, a FOLDER, or --files-from"),
        (("--files-from", os.devnull), "there are none in the list of --files-from"),
        (("{}", "--languages", "german"), "Did you mean de (German)?"),
        (("{}", "--languages", "qq"), "en, de, fr"),
        (("{}", "--languages", "en,zh-Hant"), "Chinese is written in the script Hans only, not in Hant."),
        (("{}", "--languages", ","), "expected language codes"),
        (("{}", "--languages", "en,de,fr,es,it,pt,nl,da,sv,nb,fi"), "at most 10"),
        (("{}", "--context", "x" * 501), "at most 500 characters, received 501"),
        (("{}", "--format", "png"), "'webp', 'avif', 'jxl'"),
        (("{}", "--out", "{}/notes.txt"), "notes.txt"),
        (("{}", "--out", "{}/notes.txt/below"), "--out"),
        (("{}/empty",), "there are none in"),
        (("{}/notes.txt", "missing.jpg"), "Failed: missing.jpg: No such file or folder."),
        (("{}", "--csv", "{}/missing/texts.csv"), "'--csv': expected a new file in a folder"),
        (("{}", "--quality", "best"), "visually-lossless (90), web (85), small (75), or a score"),
        (("{}", "--quality", "49"), "quality_target (--quality) can't be '49'"),
        (("{}", "--overwrite"), "--overwrite needs --write-metadata"),
        (("{}", "--only", "analyze", "--write-metadata"), "needs files to write to"),
        (("{}", "--only", "convert", "--sidecar"), "add --only analyze"),
        (("{}", "--only", "optimize", "--widths", "100"), "add --only convert"),
    ],
)
def test_invalid_arguments_are_refused_before_anything_is_done(
    program: Program, folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    (folder / "empty").mkdir()
    assert message in program.error("process", *(argument.format(folder) for argument in arguments))
    assert not program.data.exists()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read and write everything")
def test_files_and_folders_without_permission_are_reported(program: Program, folder: Path, tmp_path: Path) -> None:
    (folder / "old harbour.png").chmod(0)
    (folder / "deeper").chmod(0)
    result = program("process", folder, "--out", tmp_path / "out")
    (folder / "deeper").chmod(0o700)
    assert result.returncode == 1
    assert f"Failed: {folder / 'old harbour.png'}: It can't be read" in result.stderr
    assert f"Failed: {folder / 'deeper'}: The folder can't be opened" in result.stderr


def test_a_full_output_disk_ends_the_run(
    program: Program, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(run, "hidden_copy", full)
    result = program.in_process("process", folder, "--out", tmp_path / "out")
    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    assert "The disk of the output folder is full." in result.stderr
    assert "0 of 4 pictures are done" in result.stderr
    assert "4 failed" not in result.stderr
    assert names(tmp_path / "out") == []


def test_the_outside_compression_service_is_used_if_it_is_set(program: Program, folder: Path, tmp_path: Path) -> None:
    command = ("process", folder / "red bicycle.JPG", "--out", tmp_path / "out")
    with tinify_server() as service:
        settings = {"compression_service": "tinify", "compression_url": service.url, "compression_key": "secret"}
        program.output(*command, **settings)
    assert len(service.requests) > 0
