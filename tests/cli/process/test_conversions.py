"""`process`: which file to serve, and the converted picture in several widths."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from imgproc_local.batch import VariantFile
from imgproc_local.cli.process.report import _smaller_than_wider_ones
from tests.cli.conftest import Program
from tests.support import pictures

NO_TEXTS = ("--only", "optimize", "--only", "convert")
FLAT = pictures.encoded(Image.new("RGB", (16, 16), "teal"), "PNG")
"""An AVIF of it has several times its bytes, for its header alone."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One picture that gets smaller as AVIF, and one that gets larger."""
    root = tmp_path / "pictures"
    root.mkdir()
    (root / "harbour.png").write_bytes(pictures.png())
    (root / "logo.png").write_bytes(FLAT)
    return root


def test_a_conversion_that_is_larger_is_marked_or_with_only_smaller_not_kept(
    program: Program, folder: Path, tmp_path: Path
) -> None:
    command = ("process", folder, "--out", tmp_path / "out", *NO_TEXTS, "--format", "avif")
    result = program.in_process(*command)
    [row] = [line for line in result.stdout.splitlines() if line.endswith(" (larger)")]
    assert "logo.png" in row
    assert "1 picture larger as AVIF than optimized" in result.stderr

    result = program.in_process(*command, "--only-smaller")
    assert (result.exit_code, "larger" in result.stdout + result.stderr) == (0, False)
    assert "    converted: The converted file was not kept, because" in result.stdout
    assert [path.name for path in (tmp_path / "out").glob("*.avif")] == ["harbour.avif"]
    entries = {Path(each["file"]).name: each for each in program.in_process_json(*command, "--only-smaller")}
    assert {each["status"] for each in entries.values()} == {"unchanged"}
    assert entries["logo.png"]["converted_file"] is None
    assert [note["code"] for note in entries["logo.png"]["converted_notes"]] == ["not_smaller"]
    assert entries["harbour.png"]["converted_notes"] == []


CAPTION = 'Three boats with "gulls" & red sails in the old harbour, x < y'
NAME = "Day%201%2C%20east/three-boats-gulls-red-sails-old-harbour-x"
HTML = f"""<picture>
  <source type="image/webp" srcset="{NAME}-40.webp 40w, {NAME}.jpg 200w"\
 sizes="(max-width: 200px) 100vw, 200px">
  <img src="{NAME}.jpg" alt="Three boats with &quot;gulls&quot; &amp; red sails in the old harbour, x &lt; y"\
 width="200" height="150" loading="lazy" decoding="async">
</picture>"""
"""The optimized file is smaller than the converted one in full size and at 80 pixels."""


@pytest.fixture
def boats(tmp_path: Path) -> Path:
    """A folder with a turned picture that has a caption."""
    exif = Image.Exif()
    exif[0x010E], exif[0x0112] = CAPTION, 6
    boats = tmp_path / "Trip" / "Day 1, east" / "boats.jpg"
    boats.parent.mkdir(parents=True)
    boats.write_bytes(pictures.encoded(pictures.photo(150, 200), quality=75, exif=exif.tobytes()))
    return boats.parent.parent


def test_widths_are_files_of_their_own_that_later_runs_know(program: Program, boats: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    page = out / "pictures.html"
    command = ("process", boats, "--out", out, "--widths", "80,40,9999", "--html", page)
    [first] = program.in_process_json(*command)
    assert [(each["width"], each["height"]) for each in first["variants"]] == [(40, 30), (80, 60)]
    for each in first["variants"]:
        with Image.open(each["file"]) as picture:
            assert picture.size == (each["width"], each["height"])
        assert Path(each["file"]).stat().st_size == each["size"]
    assert page.read_text().endswith(f"-->\n\n{HTML}\n")
    page.unlink()
    [again] = program.in_process_json(*command)
    assert again == first | {"status": "unchanged"}
    assert page.read_text().endswith(HTML + "\n")
    Path(first["variants"][0]["file"]).unlink()
    assert program.in_process_json(*command) == [first]
    [without] = program.in_process_json(*command[:4], "--html", page)
    assert (without["variants"], len(list(out.rglob("*.webp")))) == ([], 1)
    assert "srcset" not in page.read_text(), "the optimized file is the smaller one"
    program.output(*command[:4], "--html", page, "--widths", "40", "--max-width", "100")
    program.output(*command[:4], "--html", page, "--only", "analyze")
    assert f"{NAME}-40.webp 40w, {NAME}.jpg 100w" in page.read_text(), "of the files that remain"
    program.output(*command[:4], "--html", page, "--only", "optimize")
    assert ("100w" in page.read_text(), 'width="200"' in page.read_text()) == (False, False), "they differ"


def test_the_html_overwrites_only_its_own_file(program: Program, boats: Path, tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    page.write_text("<!doctype html>")
    message = program.error("process", boats, "--html", page)
    assert "expected a new file in a folder that exists, or the file that --html wrote in an earlier run" in message
    assert page.read_text() == "<!doctype html>"
    both = program.error("process", boats, "--html", tmp_path / "both", "--csv", boats / ".." / "both")
    assert "--csv and --html can't write the same file." in both
    alone = program.error("process", boats, "--html", tmp_path / "new", "--format", "jxl", "--only", "convert")
    assert "for browsers that don't show JPEG XL" in alone
    assert "at most 8 integers from 1 to 65535" in program.error("process", boats, "--widths", "480,0")


def test_a_set_of_widths_has_no_file_that_is_larger_than_a_wider_one() -> None:
    files = [
        VariantFile(path=f"{width}.webp", sha256="", size_bytes=size, width_px=width, height_px=1)
        for width, size in ((100, 9), (200, 40), (300, 30), (400, 60))
    ]
    assert [each.width_px for each in _smaller_than_wider_ones(files, full_bytes=50)] == [100, 300]
