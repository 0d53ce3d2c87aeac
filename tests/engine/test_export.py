"""The names and tables of an archive."""

from __future__ import annotations

import csv
import io

import pytest

from imgproc_local.domain.export import ExportFields
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.job import Job, JobDetails, StageName, StageRecord, StageState, StoredFile
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.engine.export_plan import ArchiveNames, csv_table, make_plan

# ---- names ----

JPEG_AND_WEBP = {"optimized": "jpg", "converted": "webp"}


@pytest.mark.parametrize(
    ("stems", "extensions", "expected"),
    [
        (["red-boat"], JPEG_AND_WEBP, ["red-boat.jpg", "red-boat.webp"]),
        (["a"], {"optimized": "webp", "converted": "webp"}, ["a.webp", "a-converted.webp"]),
        (["a"], {"optimized": "jpg", "original": "jpg"}, ["a.jpg", "a-original.jpg"]),
        (["a", "A", "a"], {"optimized": "jpg"}, ["a.jpg", "A-2.jpg", "a-3.jpg"]),
        (["a", "a-2", "a"], {"optimized": "jpg"}, ["a.jpg", "a-2.jpg", "a-3.jpg"]),
        (["a", "a-converted"], {"optimized": "webp", "converted": "webp"},
         ["a.webp", "a-converted.webp", "a-converted-2.webp", "a-converted-2-converted.webp"]),
        (["e\u0301t\u00e9", "\u00e9te\u0301"], {"optimized": "jpg"}, ["e\u0301t\u00e9.jpg", "\u00e9te\u0301-2.jpg"]),
        (["CON", "..", "a:b"], {"optimized": "jpg"}, ["_CON.jpg", "image.jpg", "a_b.jpg"]),
        (["x" * 300], {"optimized": "jpg"}, ["x" * 120 + ".jpg"]),
    ],
)  # fmt: skip
def test_names_are_unique_and_can_be_created_everywhere(
    stems: list[str], extensions: dict[str, str], expected: list[str]
) -> None:
    names = ArchiveNames(["p"], mark_originals=True)
    assert [name for stem in stems for name in names.add("p", stem, extensions).values()] == expected  # type: ignore[arg-type]


def test_each_of_several_projects_has_a_folder() -> None:
    projects = ["Sommer / 2026.", "sommer _ 2026", "alt.csv", "AUX"]
    names = ArchiveNames(projects, mark_originals=False)
    listed = [names.add(project, "a", {"optimized": "jpg"})["optimized"] for project in projects]
    assert listed == ["Sommer _ 2026/a.jpg", "sommer _ 2026-2/a.jpg", "alt.csv-2/a.jpg", "_AUX/a.jpg"]


# ---- tables ----


def image_with(*texts: Translation, name: str = "a.jpg") -> Job:
    optimized = StoredFile("1", 1, Format.JPEG)
    stages = (
        StageRecord(StageName.ANALYZE, StageState.DONE),
        StageRecord(StageName.OPTIMIZE, StageState.DONE, file=optimized),
    )
    details = JobDetails("p", tuple(text.language_code for text in texts), ImageInfo(Format.JPEG, 8, 8))
    return Job("j", "i", "a", "p", "process", name, StoredFile("0", 1, Format.JPEG), stages, "2026-11-22T13:14:16.000Z",
               translations=texts, details=details)  # fmt: skip


def rows_of(*images: Job) -> list[dict[str, str]]:
    plan = make_plan(ExportFields(variants=("optimized",)), images, {})
    data = b"".join(csv_table(plan.images))
    assert data.startswith(b"\xef\xbb\xbffile,original_filename,language,")
    assert data.count(b"\r\n") > len(images)
    return list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline="")))


@pytest.mark.parametrize("alt", ['Ein "Boot", rot;\nzwei Zeilen', "船", "a boat"])
def test_texts_are_unchanged_in_the_table(alt: str) -> None:
    (row,) = rows_of(image_with(Translation("de", "boot", alt, TextSource.VISION), name="ä, b.jpg"))
    assert row == {"file": "boot.jpg", "original_filename": "ä, b.jpg", "language": "de", "seo_filename": "boot",
                   "alt_text": alt, "source": "vision", "needs_text": "false", "variant": "optimized"}  # fmt: skip


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "＝", "\t", "\r", "\n"])
def test_a_text_is_no_formula_in_the_table(start: str) -> None:
    formula = f'{start}HYPERLINK("//evil")'
    (row,) = rows_of(image_with(Translation("en", "a", formula, TextSource.EMBEDDED), name=f"{start}1.jpg"))
    assert row["alt_text"] == f"'{formula}"
    assert row["original_filename"] == f"'{start}1.jpg"


@pytest.mark.parametrize("inside", ["=1+1", '"=1+1;"', "\t=1+1", "@SUM(A1)", "=cmd|' /C calc'!A0;end"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_text_is_no_formula_where_the_list_separator_is_another(inside: str, delimiter: str) -> None:
    image = image_with(Translation("en", "a", f"A bridge;{inside}", TextSource.EMBEDDED), name=f"a;{inside}.jpg")
    data = b"".join(csv_table(make_plan(ExportFields(variants=("optimized",)), (image,), {}).images))
    cells = [cell for row in csv.reader(io.StringIO(data.decode("utf-8-sig")), delimiter=delimiter) for cell in row]
    assert any("A bridge" in cell for cell in cells)
    assert [cell for cell in cells if cell.lstrip('"').startswith(("=", "+", "-", "@"))] == []


@pytest.mark.parametrize("alt", ["A self-portrait; oil on canvas", "E = mc²; a+b", "Rot - grün; 5 < 6", "me@home;"])
def test_signs_inside_a_text_are_unchanged(alt: str) -> None:
    (row,) = rows_of(image_with(Translation("en", "a", alt, TextSource.EMBEDDED)))
    assert row["alt_text"] == alt


def test_a_text_that_says_nothing_about_the_content_is_not_in_the_table() -> None:
    (row,) = rows_of(image_with(Translation("en", "photo", "A photo in blue.", TextSource.PIXELS)))
    assert (row["alt_text"], row["source"], row["needs_text"]) == ("", "pixels", "true")
