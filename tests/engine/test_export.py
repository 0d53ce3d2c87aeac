"""The names and tables of an archive."""

from __future__ import annotations

import csv
import hashlib
import io
import tracemalloc
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from imgproc_local.domain.export import ExportFields
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.job import Job, StageName, StageRecord, StageState, Status, StoredFile
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.engine.exports import Export, csv_table, make_plan

# ---- names ----

JPEG, WEBP = Format.JPEG, Format.WEBP


def no_damage(_: StoredFile) -> None:
    """No file is damaged."""


def names_of(*images: Job, variants: tuple[Any, ...] = ("optimized", "converted", "original")) -> list[str]:
    return [file.name for file in make_plan(ExportFields(variants=variants), images, no_damage).files]


@pytest.mark.parametrize(
    ("stems", "formats", "expected"),
    [
        (["red-boat"], [JPEG, WEBP], ["red-boat.jpg", "red-boat.webp"]),
        (["a"], [WEBP, WEBP], ["a.webp", "a-converted.webp"]),
        (["a", "A", "a"], [JPEG], ["a.jpg", "A-2.jpg", "a-3.jpg"]),
        (["a", "a-2", "a"], [JPEG], ["a.jpg", "a-2.jpg", "a-3.jpg"]),
        (["a", "a-converted"], [WEBP, WEBP],
         ["a.webp", "a-converted.webp", "a-converted-2.webp", "a-converted-2-converted.webp"]),
        (["\u00e9te\u0301", "e\u0301t\u00e9"], [JPEG], ["\u00e9te\u0301.jpg", "e\u0301t\u00e9-2.jpg"]),
        (["CON", "..", "a:b"], [JPEG], ["_CON.jpg", "image.jpg", "a_b.jpg"]),
        (["x" * 300], [JPEG], ["x" * 120 + ".jpg"]),
    ],
)  # fmt: skip
def test_names_are_unique_and_can_be_created_everywhere(
    stems: list[str], formats: list[Format], expected: list[str]
) -> None:
    images = [image_with(Translation("en", stem, "A.", TextSource.VISION), formats=formats) for stem in stems]
    assert names_of(*images, variants=("optimized", "converted")) == expected


def test_each_of_several_projects_has_a_folder() -> None:
    projects = ["Sommer / 2026.", "sommer _ 2026", "alt.csv", "AUX"]
    images = [image_with(Translation("en", "a", "A.", TextSource.VISION), project=project) for project in projects]
    assert names_of(*images, variants=("optimized",)) == [
        "Sommer _ 2026/a.jpg", "sommer _ 2026-2/a.jpg", "alt.csv-2/a.jpg", "_AUX/a.jpg"
    ]  # fmt: skip


# ---- tables ----


def image_with(
    *texts: Translation, name: str = "a.jpg", project: str = "p", formats: Sequence[Format] = (Format.JPEG,)
) -> Job:
    """A job with texts, and an optimized and perhaps a converted file in `formats`."""
    makers = zip((StageName.OPTIMIZE, StageName.CONVERT), formats, strict=False)
    stages = (
        StageRecord(StageName.ANALYZE, StageState.DONE),
        *(StageRecord(stage, StageState.DONE, file=StoredFile("1", 1, kind)) for stage, kind in makers),
    )
    languages, info = tuple(text.language_code for text in texts), ImageInfo(Format.JPEG, 8, 8)
    return Job("j", "i", "a", "p", "process", name, StoredFile("0", 1, Format.JPEG), stages, "2026-11-22T13:14:16.000Z",
               project, languages, info, Status.COMPLETED, translations=texts)  # fmt: skip


def rows_of(*images: Job) -> list[dict[str, str]]:
    plan = make_plan(ExportFields(variants=("optimized",)), images, no_damage)
    data = b"".join(csv_table(plan.images))
    assert data.startswith(b"\xef\xbb\xbffile,original_filename,language,")
    assert data.count(b"\r\n") > len(images)
    return list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline="")))


@pytest.mark.parametrize(
    "alt",
    ['Ein "Boot", rot;\nzwei Zeilen', "船", "A self-portrait; oil on canvas", "E = mc²; a+b", "5 < 6", "me@home;"],
)
def test_texts_are_unchanged_in_the_table(alt: str) -> None:
    (row,) = rows_of(image_with(Translation("de", "boot", alt, TextSource.VISION), name="ä, b.jpg"))
    assert row == {"file": "boot.jpg", "original_filename": "ä, b.jpg", "language": "de", "seo_filename": "boot",
                   "alt_text": alt, "source": "vision", "needs_text": "false", "variant": "optimized",
                   "needs_text_reason": "", "folder": ""}  # fmt: skip


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
    data = b"".join(csv_table(make_plan(ExportFields(variants=("optimized",)), (image,), no_damage).images))
    cells = [cell for row in csv.reader(io.StringIO(data.decode("utf-8-sig")), delimiter=delimiter) for cell in row]
    assert any("A bridge" in cell for cell in cells)
    assert [cell for cell in cells if cell.lstrip('"').startswith(("=", "+", "-", "@"))] == []


async def test_an_export_does_not_hold_its_tables_in_memory(tmp_path: Path) -> None:
    stored, sent = tmp_path / "stored", 0
    stored.write_bytes(b"a picture")
    texts = [Translation(code, "boot", 3000 * "a", TextSource.VISION) for code in ("de", "en", "es", "fr", "it")]
    image = image_with(*texts)
    file = StoredFile(hashlib.sha256(b"a picture").hexdigest(), 9, Format.JPEG)
    image = msgspec.structs.replace(
        image, stages=(*image.stages[:1], msgspec.structs.replace(image.stages[1], file=file))
    )
    plan = make_plan(ExportFields(variants=("optimized",), write_texts=False), [image] * 1000, no_damage)
    blobs: Any = SimpleNamespace(path=lambda _: stored, incoming_folder=tmp_path)

    async def send(piece: bytes) -> None:
        nonlocal sent
        sent += len(piece)

    export = Export(plan, AsyncExitStack(), blobs, lambda *_: stored)
    tracemalloc.start()
    try:
        await export.write(send)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sent > 30_000_000
    assert peak < sent / 2
