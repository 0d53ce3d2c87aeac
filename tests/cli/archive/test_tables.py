"""The tables of an archive are made from the parts of all runs, also if a run was killed between two steps."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import structs

pytest.importorskip("pyarrow")

from imgproc_local.archive import manifest as manifest_module
from imgproc_local.archive.manifest import (
    PARTS_FOLDER,
    TABLE_NAME,
    TEXTS_NAME,
    PendingPicture,
    Problem,
    Row,
    opened_manifest,
    read_part,
    table_rows,
)
from imgproc_local.archive.stores import LocalStore, SourceObject
from imgproc_local.batch.files import ResultFile
from imgproc_local.domain.image import Format
from imgproc_local.domain.result import TextSource, Translation

PART_ROWS = 10


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_module, "PART_ROWS", PART_ROWS)


@pytest.fixture
def target(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def row(source: str, options: str = "one", outcome: str = "done", version: str = "1") -> Row:
    file = ResultFile(f"{source}.webp", "00", 7, Format.WEBP)
    text = Translation("en", source, f"A text of {source}", TextSource.FACTS)
    done = Row(source=source, version=version, size_bytes=9, options=options, outcome="done")
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
        manifest.flush()
        if not manifest.is_finished:
            for _ in manifest.write_tables():
                pass
            manifest.write_report(b"")
            manifest.remove_merged()


def table(target: LocalStore) -> list[Row]:
    return table_rows(read_part(target, TABLE_NAME))


def parts(target: LocalStore) -> list[list[Row]]:
    return [table_rows(read_part(target, part)) for part in target.keys(PARTS_FOLDER)]


def names(count: int) -> list[str]:
    """Sources of which the order is not that of their numbers."""
    return [f"{number * 7 % count:03}/é.jpg" for number in range(count)]


def test_the_tables_are_sorted_and_parts_are_merged(target: LocalStore) -> None:
    for start in range(0, 36, 3):
        add(target, [row(name) for name in names(36)[start : start + 3]])
    assert len(parts(target)) == 12
    finish(target)
    assert [each.source for each in table(target)] == sorted(names(36))
    lines = list(csv.reader(io.StringIO(target.read(TEXTS_NAME).decode("utf-8-sig"))))
    assert [line[1] for line in lines] == ["original_file", *sorted(names(36))]
    assert [len(part) for part in parts(target)] == [10, 10, 10, 6]
    assert [each for part in parts(target) for each in part] == table(target)


def test_the_row_of_the_last_run_is_in_the_tables(target: LocalStore) -> None:
    finish(target, [row("a.jpg"), row("b.jpg")])
    finish(target, [row("a.jpg", "two"), row("b.jpg", outcome="failed")])
    assert [(each.source, each.options, each.outcome) for each in table(target)] == [
        ("a.jpg", "two", "done"),
        ("b.jpg", "one", "done"),
    ]


def test_the_last_failure_of_a_picture_is_in_the_tables(target: LocalStore) -> None:
    for message in ("The target is full.", "It can't be read."):
        finish(target, [structs.replace(row("a.jpg", outcome="failed"), problems=(Problem(None, message),))])
    assert table(target)[0].problems == (Problem(None, "It can't be read."),)


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


@pytest.mark.parametrize("last", range(10))  # 3 merged parts, 2 tables, the report, and 4 parts that these replace
def test_a_run_continues_after_it_was_killed_between_two_steps(tmp_path: Path, last: int) -> None:
    target = LocalStore(tmp_path)
    finish(target, [row(name) for name in names(24)[:20]])
    add(target, [row(name) for name in names(24)[20:]])
    add(target, [row(names(24)[0], "two")])
    with pytest.raises(Killed):
        finish(KillingStore(tmp_path, last))
    finish(target)
    expected = sorted((name, "two" if name == names(24)[0] else "one") for name in names(24))
    assert [(each.source, each.options) for each in table(target)] == expected
    assert [(each.source, each.options) for part in parts(target) for each in part] == expected


def test_nothing_is_written_where_nothing_has_changed(target: LocalStore, tmp_path: Path) -> None:
    finish(target, [row(name) for name in names(24)])
    finish(KillingStore(tmp_path, 0))
    target.remove(TEXTS_NAME)
    finish(target)
    assert target.read(TEXTS_NAME)


def test_rows_are_stored_when_there_are_enough_or_it_is_time(
    target: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened_manifest(target) as manifest:
        for name in names(24):
            manifest.add(row(name))
        assert [len(part) for part in parts(target)] == [10, 10]
        monkeypatch.setattr(manifest_module, "FLUSH_S", 0.0)
        manifest.flush()
        manifest.add(row("later.jpg"))
        assert [len(part) for part in parts(target)] == [10, 10, 4, 1]


def test_changed_and_failed_pictures_are_processed_once_in_a_run(target: LocalStore) -> None:
    add(target, [row("same.jpg"), row("changed.jpg"), row("failed.jpg", outcome="failed")])
    (part,) = target.keys(PARTS_FOLDER)
    pictures = {name: SourceObject(f"{name}.jpg", 9, "1") for name in ("same", "failed", "new")}
    pictures["changed"] = SourceObject("changed.jpg", 9, "2")
    with opened_manifest(target) as manifest:
        assert {name: manifest.state_of(picture, "one") for name, picture in pictures.items()} == {
            "same": "unchanged",
            "failed": PendingPicture(pictures["failed"], part),
            "new": PendingPicture(pictures["new"]),
            "changed": PendingPicture(pictures["changed"], part),
        }
        assert manifest.state_of(pictures["same"], "two") == PendingPicture(pictures["same"], part)
        manifest.add(row("failed.jpg", outcome="failed"))
        assert manifest.state_of(pictures["failed"], "one") == "processed"
