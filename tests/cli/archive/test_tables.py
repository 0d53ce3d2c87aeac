"""The tables of an archive are made from the parts of all runs, also if a run was killed between two steps."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from msgspec import structs

from imgproc_local.archive import manifest_steps, merging, tables
from imgproc_local.archive.local_store import LocalStore
from imgproc_local.archive.manifest_index import new_index
from imgproc_local.archive.manifest_process import ManifestProcess
from imgproc_local.archive.row import Problem, Row
from imgproc_local.archive.store import SourceObject
from imgproc_local.archive.summary import Summary
from imgproc_local.batch.files import ResultFile
from imgproc_local.domain.image import Format
from imgproc_local.domain.result import TextSource, Translation

pytest.importorskip("pyarrow")

from imgproc_local.archive.manifest import (
    PARTS_FOLDER,
    TABLE_NAME,
    TEXTS_NAME,
    decode_rows,
    encode_rows,
    next_run,
    part_key,
    run_name,
)

PART_ROWS = 10


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (tables, merging):
        monkeypatch.setattr(module, "PART_ROWS", PART_ROWS)


@pytest.fixture(autouse=True)
def without_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Call the steps in the process of the test, which is faster."""
    monkeypatch.setattr(ManifestProcess, "call", lambda _, step, *arguments, **__: step(*arguments))
    yield
    manifest_steps._opened.cache_clear()


@pytest.fixture
def target(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def row(source: str, options: str = "one", outcome: str = "done", version: str = "1") -> Row:
    file = ResultFile(f"{source}.webp", "00", 7, Format.WEBP)
    text = Translation("en", source, f"A text of {source}", TextSource.FACTS)
    done = Row(source=source, version=version, size_bytes=9, options=options, outcome="done")
    return structs.replace(done, outcome=outcome, optimized=file, translations=(text,))


def store_part(target: LocalStore, run: int, number: int, rows: Sequence[Row], token: str = "ab12cd34") -> None:
    target.replace(part_key(f"{run_name(run, token)}-{number:07d}"), encode_rows(rows))


def finish(target: LocalStore, run: int) -> None:
    """What a run does at its end."""
    with new_index() as index:
        tables.read_new_parts(target, index)
        tables.finish(target, index, run, tables.Report(Summary("one"), lambda _: tables.REPORT_MARK))


def table(target: LocalStore) -> list[Row]:
    return decode_rows(target.read(TABLE_NAME))


def names(count: int) -> list[str]:
    """Sources of which the order is not that of their numbers."""
    return [f"{number * 7 % count:03}/é.jpg" for number in range(count)]


def test_the_tables_are_sorted_and_parts_are_merged(target: LocalStore) -> None:
    for number, start in enumerate(range(0, 36, 3)):
        store_part(target, 1, number, [row(name) for name in names(36)[start : start + 3]])
    finish(target, 1)
    assert [each.source for each in table(target)] == sorted(names(36))
    lines = list(csv.reader(io.StringIO(target.read(TEXTS_NAME).decode("utf-8-sig"))))
    assert [line[1] for line in lines] == ["original_file", *sorted(names(36))]
    parts = [decode_rows(target.read(part)) for part in target.keys(PARTS_FOLDER)]
    assert [len(part) for part in parts] == [10, 10, 10, 6]
    assert [each for part in parts for each in part] == table(target)


@pytest.mark.parametrize("tokens", [("00", "ff"), ("ff", "00")])
def test_the_row_of_the_last_run_is_in_the_tables(target: LocalStore, tokens: tuple[str, str]) -> None:
    store_part(target, 1, 0, [row("a.jpg"), row("b.jpg")], tokens[0])
    finish(target, 1)
    store_part(target, 2, 0, [row("a.jpg", "two"), row("b.jpg", outcome="failed")], tokens[1])
    finish(target, 2)
    assert [(each.source, each.options, each.outcome) for each in table(target)] == [
        ("a.jpg", "two", "done"),
        ("b.jpg", "one", "done"),
    ]
    assert next_run(target.keys(PARTS_FOLDER)) == 3


def test_the_last_failure_of_a_picture_is_in_the_tables(target: LocalStore) -> None:
    for run, message in enumerate(("The target is full.", "It can't be read."), 1):
        failed = structs.replace(row("a.jpg", outcome="failed"), problems=(Problem(None, message),))
        store_part(target, run, 0, [failed])
        finish(target, run)
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

    def replace(self, key: str, data: bytes) -> None:
        self._count()
        super().replace(key, data)

    def replace_by_file(self, key: str, file: Path) -> None:
        self._count()
        super().replace_by_file(key, file)

    def remove(self, key: str) -> None:
        self._count()
        super().remove(key)


@pytest.mark.parametrize("last", range(10))  # 2 tables, the report, 3 merged parts, and 4 parts that these replace
def test_a_run_continues_after_it_was_killed_between_two_steps(tmp_path: Path, last: int) -> None:
    target = LocalStore(tmp_path)
    store_part(target, 1, 0, [row(name) for name in names(24)[:20]])
    finish(target, 1)
    store_part(target, 2, 0, [row(name) for name in names(24)[20:]])
    store_part(target, 2, 1, [row(names(24)[0], "two")])
    with pytest.raises(Killed):
        finish(KillingStore(tmp_path, last), 2)
    finish(target, next_run(target.keys(PARTS_FOLDER)))
    expected = sorted((name, "two" if name == names(24)[0] else "one") for name in names(24))
    assert [(each.source, each.options) for each in table(target)] == expected
    parts = [decode_rows(target.read(part)) for part in target.keys(PARTS_FOLDER)]
    assert [(each.source, each.options) for part in parts for each in part] == expected


def merge_in_run(target: LocalStore) -> None:
    """Store eight parts of three rows in the order in which their tasks end, as a run does."""
    merger = merging.PartMerger(target)
    for number in (0, 2, 1, 3, 5, 4, 7, 6):
        rows = [row(name) for name in names(24)[3 * number : 3 * number + 3]]
        store_part(target, 1, number, rows)
        merger.add(part_key(f"{run_name(1, 'ab12cd34')}-{number:07d}"), len(rows))


def test_parts_are_merged_while_the_run_goes_on(target: LocalStore) -> None:
    merge_in_run(target)
    parts = [decode_rows(target.read(part)) for part in target.keys(PARTS_FOLDER)]
    assert [len(part) for part in parts] == [12, 12]
    finish(target, 1)
    assert [each.source for each in table(target)] == sorted(names(24))


@pytest.mark.parametrize("last", range(1, 18))  # 8 parts, and twice a merged one with 4 that it replaces
def test_no_row_is_lost_or_doubled_if_the_run_is_killed_while_it_merges(tmp_path: Path, last: int) -> None:
    with pytest.raises(Killed):
        merge_in_run(KillingStore(tmp_path, last))
    target = LocalStore(tmp_path)
    stored = {each.source for part in target.keys(PARTS_FOLDER) for each in decode_rows(target.read(part))}
    assert len(stored) == 3 * min(8, last if last < 5 else max(4, last - 5))
    finish(target, 2)
    assert [each.source for each in table(target)] == sorted(stored)
    assert not [part for part in target.keys(PARTS_FOLDER) if "sorted" not in part]


def test_parts_that_can_not_be_merged_remain(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Unreadable(LocalStore):
        def read(self, key: str) -> bytes:
            raise OSError("the store does not answer")

    merge_in_run(Unreadable(tmp_path))
    assert caplog.text.count("could not be merged (the store does not answer)") == 2
    finish(LocalStore(tmp_path), 1)
    assert [each.source for each in table(LocalStore(tmp_path))] == sorted(names(24))


def test_nothing_is_written_where_nothing_has_changed(target: LocalStore, tmp_path: Path) -> None:
    store_part(target, 1, 0, [row(name) for name in names(24)])
    finish(target, 1)
    finish(KillingStore(tmp_path, 0), 2)
    target.remove(TEXTS_NAME)
    finish(target, 3)
    assert target.read(TEXTS_NAME)


class CountingStore(LocalStore):
    reads = 0

    def read(self, key: str) -> bytes:
        self.reads += 1
        return super().read(key)


def test_a_part_is_read_once_in_a_run_and_changed_pictures_name_it(tmp_path: Path) -> None:
    target = CountingStore(tmp_path)
    store_part(target, 1, 0, [row(name) for name in names(24)])
    page = [SourceObject(name, 9, "2" if name < "012" else "1") for name in sorted(names(24))]
    with new_index() as index:
        tables.read_new_parts(target, index)
        tables.read_new_parts(target, index)
        compared = list(index.compared(page, "one"))
        assert target.reads == 1
        assert index.parts() == [task.earlier_part for task, _ in compared[:1] if task is not None]
    assert [unchanged for _, unchanged in compared] == [False] * 12 + [True] * 12
