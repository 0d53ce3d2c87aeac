"""The tables of an archive are made from the parts of all runs, also if a run was killed between two steps."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import structs

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

import pyarrow.parquet as pq

from imgproc_local.archive import manifest as manifest_module
from imgproc_local.archive.manifest import PARTS_FOLDER, TABLE_NAME, TEXTS_NAME, opened_manifest
from imgproc_local.archive.picture import PendingPicture, Row
from imgproc_local.archive.run import Counts, _pending
from imgproc_local.archive.stores import LocalStore, SourceObject
from imgproc_local.batch import ResultFile
from imgproc_local.domain.image import Format
from imgproc_local.domain.result import TextSource, Translation


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_module, "PART_ROWS", 10)


@pytest.fixture
def target(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def row(source: str, options: str = "one", outcome: str = "done") -> Row:
    file = ResultFile(f"{source}.webp", "00", 7, Format.WEBP)
    text = Translation("en", source, f"A text of {source}", TextSource.FACTS)
    done = Row(source=source, version="1", size_bytes=9, options=options, outcome="done")
    return structs.replace(done, outcome=outcome, optimized=file, translations=(text,))


def add(target: LocalStore, rows: Sequence[Row]) -> None:
    """A run that is killed before it writes the tables."""
    with opened_manifest(target) as manifest:
        for each in rows:
            manifest.add(each)


def finish(target: LocalStore, rows: Sequence[Row] = ()) -> None:
    """A run that adds the rows, to its end."""
    with opened_manifest(target) as manifest:
        for each in rows:
            manifest.add(each)
        manifest.finish(lambda _: b"")


def table(folder: Path) -> list[tuple[str, str]]:
    """The sources of `archive.parquet` with their options."""
    return [(each["source"], each["options"]) for each in pq.read_table(folder / TABLE_NAME).to_pylist()]


def parts(folder: Path) -> list[list[str]]:
    """The sources of the rows of each part."""
    files = sorted((folder / PARTS_FOLDER).iterdir())
    return [[json.loads(line)["source"] for line in gzip.decompress(file.read_bytes()).splitlines()] for file in files]


def names(count: int) -> list[str]:
    """Sources of which the order is not that of their numbers."""
    return [f"{number * 7 % count:03}/é.jpg" for number in range(count)]


def test_the_tables_are_sorted_and_one_part_remains(target: LocalStore, tmp_path: Path) -> None:
    for start in range(0, 36, 3):
        add(target, [row(name) for name in names(36)[start : start + 3]])
    assert len(parts(tmp_path)) == 12
    finish(target)
    assert [source for source, _ in table(tmp_path)] == sorted(names(36))
    lines = list(csv.reader(io.StringIO((tmp_path / TEXTS_NAME).read_text("utf-8-sig"))))
    assert [line[1] for line in lines] == ["original_file", *sorted(names(36))]
    assert parts(tmp_path) == [sorted(names(36))]


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


@pytest.mark.parametrize("last", range(7))  # one part, 2 tables, the report, and 3 parts that the first one replaces
def test_a_run_continues_after_it_was_killed_between_two_steps(tmp_path: Path, last: int) -> None:
    target = LocalStore(tmp_path)
    finish(target, [row(name) for name in names(24)[:20]])
    add(target, [row(name) for name in names(24)[20:]])
    add(target, [row(names(24)[0], "two")])
    with pytest.raises(Killed):
        finish(KillingStore(tmp_path, last))
    finish(target)
    assert table(tmp_path) == sorted((name, "two" if name == names(24)[0] else "one") for name in names(24))
    assert parts(tmp_path) == [sorted(names(24))]


def test_nothing_is_written_where_nothing_has_changed(target: LocalStore, tmp_path: Path) -> None:
    finish(target, [row(name) for name in names(24)])
    finish(KillingStore(tmp_path, 0))
    (tmp_path / TEXTS_NAME).unlink()
    finish(target)
    assert (tmp_path / TEXTS_NAME).exists()


def test_rows_are_stored_when_there_are_enough_or_it_is_time(
    target: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened_manifest(target) as manifest:
        for name in names(24):
            manifest.add(row(name))
        assert [len(part) for part in parts(tmp_path)] == [10, 10]
        monkeypatch.setattr(manifest_module, "FLUSH_S", 0.0)
        manifest.flush()
        manifest.add(row("later.jpg"))
        assert [len(part) for part in parts(tmp_path)] == [10, 10, 4, 1]


def test_new_changed_and_failed_pictures_are_processed(target: LocalStore) -> None:
    rows = {name: row(name) for name in ("changed.jpg", "same.jpg")}
    rows["failed.jpg"] = row("failed.jpg", outcome="failed")
    add(target, list(rows.values()))
    objects = [SourceObject(name, 9, "2" if name == "changed.jpg" else "1") for name in (*rows, "new.jpg")]
    counts = Counts()
    with opened_manifest(target) as manifest:
        pending = list(_pending(iter(objects), manifest, "one", counts))
        assert pending == [PendingPicture(each, rows.get(each.key)) for each in objects if each.key != "same.jpg"]
        assert (counts.unchanged, counts.saw_all) == (1, True)
        assert len(list(_pending(iter(objects), manifest, "two", counts))) == 4, "all, with other options"


def test_parts_of_other_versions_lack_fields_and_have_more(target: LocalStore, tmp_path: Path) -> None:
    add(target, [row("a.jpg")])
    (part,) = (tmp_path / PARTS_FOLDER).iterdir()
    content = json.loads(gzip.decompress(part.read_bytes()))
    del content["format"]
    part.write_bytes(gzip.compress(json.dumps({**content, "cpu_s": 0.5}).encode()))
    (tmp_path / PARTS_FOLDER / "000001-ab-0000001.parquet").write_bytes(b"of a version that is older")
    with opened_manifest(target) as manifest:
        assert manifest.row("a.jpg") == row("a.jpg")
