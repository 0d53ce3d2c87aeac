"""The tables of an archive are made from the parts of all runs, also if a run was killed between two steps."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
from msgspec import structs

from imgproc_local.archive import manifest as manifest_module
from imgproc_local.archive.manifest import PARTS_FOLDER, TABLE_NAME, TEXTS_NAME, opened_manifest
from imgproc_local.archive.picture import PendingPicture, Row
from imgproc_local.archive.run import Counts, _pending
from imgproc_local.archive.stores import LocalStore, SourceObject
from imgproc_local.batch import ResultFile
from imgproc_local.domain.image import Format
from imgproc_local.domain.result import NeedsTextReason, RoleSuggestion, SuggestedRole, TextSource, Translation

NAMES = [f"{number * 7 % 24:02}/é.jpg" for number in range(24)]
"""Sources of which the order is not that of their numbers."""


def row(source: str = "wing/a.jpg", **changes: object) -> Row:
    """A picture of 4,000 bytes that is done: its optimized file has 3,000 and its WebP file 1,000."""
    done = Row(
        source=source,
        version="1",
        size_bytes=4000,
        options="one",
        format=Format.JPEG,
        optimized=ResultFile(f"{source}-1.jpg", "00", 3000, Format.JPEG),
        converted=ResultFile(f"{source}-1.webp", "00", 1000, Format.WEBP),
        translations=(Translation("en", "a", f"A text of {source}", TextSource.FACTS),),
    )
    return structs.replace(done, **changes)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_module, "_PART_ROWS", 10)


def run(target: LocalStore, rows: Sequence[Row] = (), *, to_its_end: bool = True) -> None:
    """A run that adds the rows, and is killed before it writes the tables or goes on `to_its_end`."""
    with opened_manifest(target) as manifest:
        for each in rows:
            manifest.add(each)
        if to_its_end:
            manifest.finish()


def parts(folder: Path) -> list[list[str]]:
    """The sources of the rows of each part."""
    files = sorted((folder / PARTS_FOLDER).iterdir())
    return [[json.loads(line)["source"] for line in gzip.decompress(file.read_bytes()).splitlines()] for file in files]


class Killed(BaseException):
    pass


class KillingStore(LocalStore):
    """A store whose client is killed before its call number `last` that changes an object."""

    def __init__(self, root: Path, last: int) -> None:
        super().__init__(root)
        self._last = last

    def _count(self) -> None:
        self._last -= 1
        if self._last < 0:
            raise Killed

    def put(self, key: str, file: Path) -> None:
        self._count()
        super().put(key, file)

    def remove(self, key: str) -> None:
        self._count()
        super().remove(key)


@pytest.mark.parametrize("last", range(6))  # one part, 2 tables, and 3 parts that the first one replaces
def test_a_run_continues_after_it_was_killed_between_two_steps(tmp_path: Path, last: int) -> None:
    target = LocalStore(tmp_path)
    run(target, [row(name) for name in NAMES[:20]])
    run(target, [row(name) for name in NAMES[20:]], to_its_end=False)
    run(target, [row(NAMES[0], options="two")], to_its_end=False)
    with pytest.raises(Killed):
        run(KillingStore(tmp_path, last))
    run(target)
    table = [(each["source"], each["options"]) for each in pq.read_table(tmp_path / TABLE_NAME).to_pylist()]
    assert table == sorted((name, "two" if name == NAMES[0] else "one") for name in NAMES)
    texts = list(csv.reader(io.StringIO((tmp_path / TEXTS_NAME).read_text("utf-8-sig"))))
    assert [line[1] for line in texts] == ["original_file", *sorted(NAMES * 2)], "each has two results"
    assert parts(tmp_path) == [sorted(NAMES)], "one part remains"
    run(KillingStore(tmp_path, 0))  # nothing is written where nothing has changed
    (tmp_path / TEXTS_NAME).unlink()
    run(target)
    assert (tmp_path / TEXTS_NAME).exists()


def test_the_tables_have_reasons_suggestions_and_long_descriptions(tmp_path: Path) -> None:
    texts = (
        Translation("en", "a", "Sales.", TextSource.VISION, None, "Sales rose.", "tiny-1"),
        Translation("de", "a", "", TextSource.FACTS, NeedsTextReason.OTHER_LANGUAGE),
    )
    suggestion = RoleSuggestion(SuggestedRole.CHART, "It has axes.")
    run(LocalStore(tmp_path), [row(), row("b.jpg", translations=texts, suggestion=suggestion)])
    one, other = reversed(pq.read_table(tmp_path / TABLE_NAME).to_pylist())
    assert (one["suggestion"], other["suggestion"]) == (None, {"role": "chart", "reason": "It has axes."})
    last = [tuple(text.values())[4:] for text in other["translations"]]
    assert last == [(None, "Sales rose.", "tiny-1"), ("other_language", "", "")]
    lines = list(csv.reader(io.StringIO((tmp_path / TEXTS_NAME).read_text("utf-8-sig"))))
    assert [line[6:] for line in lines[1:3]] == [
        ["false", "", "Sales rose.", "chart", "It has axes."],
        ["true", "other_language", "", "chart", "It has axes."],
    ]
    assert lines[-1][6:] == ["false", "", "", "", ""]


def test_rows_are_stored_when_there_are_enough_or_it_is_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened_manifest(LocalStore(tmp_path)) as manifest:
        for name in NAMES:
            manifest.add(row(name))
        assert [len(part) for part in parts(tmp_path)] == [10, 10]
        monkeypatch.setattr(manifest_module, "_FLUSH_S", 0.0)
        manifest.flush()
        manifest.add(row("later.jpg"))
        assert [len(part) for part in parts(tmp_path)] == [10, 10, 4, 1]


def test_new_changed_and_failed_pictures_are_processed(tmp_path: Path) -> None:
    rows = {name: row(name) for name in ("changed.jpg", "same.jpg")}
    rows["failed.jpg"] = row("failed.jpg", outcome="failed")
    run(LocalStore(tmp_path), list(rows.values()), to_its_end=False)
    objects = [SourceObject(name, 9, "2" if name == "changed.jpg" else "1") for name in (*rows, "new.jpg")]
    counts = Counts()
    with opened_manifest(LocalStore(tmp_path)) as manifest:
        pending = list(_pending(iter(objects), manifest, "one", counts))
        assert pending == [PendingPicture(each, rows.get(each.key)) for each in objects if each.key != "same.jpg"]
        assert counts.unchanged == 1
        assert len(list(_pending(iter(objects), manifest, "two", counts))) == 4, "all, with other options"


def test_parts_of_other_versions_lack_fields_and_have_more(tmp_path: Path) -> None:
    run(LocalStore(tmp_path), [row("a.jpg", format=None)], to_its_end=False)
    (part,) = (tmp_path / PARTS_FOLDER).iterdir()
    content = json.loads(gzip.decompress(part.read_bytes()))
    content.pop("format", None)
    part.write_bytes(gzip.compress(json.dumps({**content, "cpu_s": 0.5}).encode()))
    (tmp_path / PARTS_FOLDER / "000001-ab-0000001.parquet").write_bytes(b"of a version that is older")
    with opened_manifest(LocalStore(tmp_path)) as manifest:
        assert manifest.row("a.jpg") == row("a.jpg", format=None)
