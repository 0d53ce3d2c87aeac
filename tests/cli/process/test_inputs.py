"""What `process` takes: lists of paths, folders without what is excluded, and one picture through a pipe."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from PIL import Image

from imgproc_local.cli import process
from tests.cli.conftest import TIMEOUT_S, Program
from tests.faults.server_process import ROOT, clean_environment
from tests.support import pictures


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "pictures"
    for name in ("a.jpg", "b.gif", "drafts/c.jpg", "drafts/old/d.jpg", "deeper/drafts/e.jpg", "deeper/f [1].jpg"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(pictures.gif() if name.endswith("gif") else pictures.jpeg(64, 48))
    return root


def planned(program: Program, *arguments: object, folder: Path) -> list[str]:
    images = program.in_process_json("process", *arguments, "--out", folder.parent / "out", "--dry-run")
    assert {image["status"] for image in images} <= {"pending"}, "what is excluded is not listed as skipped"
    return sorted(Path(image["file"]).relative_to(folder).as_posix() for image in images)


@pytest.mark.parametrize(
    ("patterns", "remaining"),
    [
        (["*.gif", "drafts"], ["a.jpg", "deeper/f [1].jpg"]),
        (["drafts/"], ["a.jpg", "b.gif", "deeper/f [1].jpg"]),
        (["drafts/*"], ["a.jpg", "b.gif", "deeper/drafts/e.jpg", "deeper/f [1].jpg"]),
        (["*/d*"], ["a.jpg", "b.gif", "deeper/f [1].jpg", "drafts/c.jpg"]),
        (["?.jpg", "*[[]1]*"], ["b.gif"]),
    ],
)
def test_files_and_folders_are_excluded_by_name_or_by_path(
    program: Program, folder: Path, patterns: list[str], remaining: list[str]
) -> None:
    exclude = [argument for pattern in patterns for argument in ("--exclude", pattern)]
    assert planned(program, folder, *exclude, folder=folder) == remaining
    [named] = planned(program, folder / "a.jpg", *exclude, folder=folder)
    assert named == "a.jpg", "a file that is named is not excluded"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")
def test_a_list_has_a_path_per_line_or_per_nul(program: Program, folder: Path) -> None:
    names = [os.fsencode(folder / name) for name in ("a.jpg", "deeper/f [1].jpg")]
    odd = folder / os.fsdecode(b"line\nbreak \xff.jpg")
    odd.write_bytes(pictures.jpeg(64, 48))
    by_nul = [*names, os.fsencode(odd)]
    file = folder.parent / "list"
    for content, expected in (
        (b"\n".join(names), 2),
        (b"\r\n".join([*names, b"", b""]), 2),
        (b"\0".join(by_nul), 3),
        (b"\0".join([*by_nul, b""]), 3),
    ):
        file.write_bytes(content)
        assert len(planned(program, "--files-from", file, folder=folder)) == expected
    assert len(planned(program, folder / "b.gif", "--files-from", file, folder=folder)) == 4
    file.write_bytes(os.fsencode(folder / "gone.jpg"))
    assert "gone.jpg: No such file or folder." in program.error("process", "--files-from", file)
    file.write_text(str(folder / "a.jpg"), encoding="utf-8-sig")
    assert len(planned(program, "--files-from", file, folder=folder)) == 1
    file.write_text(str(folder / "a.jpg"), encoding="utf-16")  # whose NULs would make a path of each character
    assert "expected a list in UTF-8, received UTF-16." in program.error("process", "--files-from", file)


def test_in_place_a_list_names_only_files(program: Program, folder: Path) -> None:
    file = folder.parent / "list"
    file.write_bytes(b"\n".join(map(os.fsencode, (folder, folder / "a.jpg"))))
    refused = program.error("process", "--in-place", "--files-from", file)
    assert f"a list may name only files; {folder} is a folder." in refused


def test_a_list_is_read_from_standard_input_up_to_a_size(
    program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = os.fsencode(folder / "a.jpg")
    monkeypatch.setattr(process, "_MAX_LIST_BYTES", len(listed))
    command = ("process", "--files-from", "-", "--dry-run", "--out", folder.parent / "out")
    assert program.in_process(*command, stdin=listed).stdout == f"Would process: {folder / 'a.jpg'}\n"
    too_long = program.in_process(*command, stdin=listed + b"\n")
    assert (too_long.exit_code, f"expected at most {len(listed)} bytes" in too_long.stderr) == (2, True)


# ---- one picture through a pipe ----


@pytest.mark.parametrize(
    ("only", "expected"), [((), "JPEG"), (("analyze", "optimize"), "JPEG"), (("convert",), "WEBP")]
)
def test_one_picture_goes_through_a_pipe(program: Program, only: tuple[str, ...], expected: str) -> None:
    data = pictures.jpeg(320, 240)
    stages = [argument for stage in only for argument in ("--only", stage)]
    result = program.in_process("process", "-", *stages, stdin=data)
    assert result.exit_code == 0, result.stderr
    with Image.open(io.BytesIO(result.stdout_bytes)) as picture:
        assert (picture.format, picture.size) == (expected, (320, 240))
    assert len(result.stdout_bytes) < len(data)
    assert "1 picture written to standard output" in result.stderr
    assert ("en (needs text" in result.stderr) is ("convert" not in only)
    quiet = program.in_process("process", "-", *stages, "--quiet", stdin=data)
    assert (quiet.stdout_bytes, quiet.stderr) == (result.stdout_bytes, "")
    again = program.in_process("process", "-", "--quiet", stdin=quiet.stdout_bytes)
    assert expected == "WEBP" or again.stdout_bytes == result.stdout_bytes, "what can't get smaller comes back as it is"


@pytest.mark.parametrize(
    ("data", "exit_code", "message"),
    [
        (b"", 2, "Failed: -: "),
        (b"no picture", 2, "Failed: -: "),
        (pictures.broken_jpeg(), 1, "Failed: -: "),
        (pictures.jpeg(320, 240), 1, "Failed: -: Expected at most 20,000 bytes"),
    ],
)
def test_nothing_is_written_for_a_picture_that_fails(
    program: Program, data: bytes, exit_code: int, message: str
) -> None:
    result = program.in_process("process", "-", stdin=data, max_upload_bytes=20_000)
    assert (result.exit_code, result.stdout_bytes) == (exit_code, b"")
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--json",), "can't be combined with --json"),
        (("--in-place",), "can't be combined with --in-place"),
        (("a.jpg",), "Expected no other path beside -"),
        (("--only", "analyze"), "Expected one file for standard output"),
        (("--only", "convert", "--only", "optimize"), "Expected one file for standard output"),
    ],
)
def test_what_has_no_meaning_in_a_pipe_is_refused(program: Program, arguments: tuple[str, ...], message: str) -> None:
    assert message in " ".join(program.error("process", "-", *arguments).split())


@pytest.mark.skipif(sys.platform == "win32", reason="there, no shell closes a stream")
def test_a_closed_standard_output_is_refused() -> None:
    """The picture would be lost: the null device takes the place of a stream that is missing."""
    command = 'exec "$0" -m imgproc_local process - >&-'
    ended = subprocess.run(
        ["sh", "-c", command, sys.executable],
        input=pictures.jpeg(64, 48),
        env=clean_environment(),
        cwd=ROOT,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 2
    assert b"Expected an open pipe or file" in ended.stderr


@pytest.mark.parametrize("mode", ["-", "--in-place"])
def test_a_folder_for_temporary_files_is_asked_for_if_there_is_none(
    program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "missing"))
    arguments = [mode] if mode == "-" else [mode, folder / "a.jpg"]
    refused = program.error("process", *arguments)
    assert "No temporary file can be written" in refused
    assert "TMPDIR" in refused
    assert "--out" not in refused


def test_a_terminal_is_refused_and_a_file_of_that_name_is_not_meant(
    program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
        assert "Expected an open pipe or file, not a terminal" in program.error("process", "-")
    monkeypatch.chdir(folder)
    (folder / "-").write_bytes(pictures.jpeg(64, 48))
    assert program.output("process", "./-", "--dry-run") == "Would process: -\n"
