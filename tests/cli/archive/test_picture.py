"""One picture of an archive on a worker: its row and its files, with stages that need no codecs."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from msgspec import structs

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

from imgproc_local.archive.picture import PendingPicture, Row, Tools, failed_row, process_picture
from imgproc_local.archive.stores import LocalStore, SourceObject
from imgproc_local.batch import BatchRequest
from imgproc_local.config import load
from imgproc_local.domain.errors import CheckStop, StageFailed, StorageFailed
from imgproc_local.domain.image import Format
from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import Operation, Plan
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.engine.direct import DirectStages
from imgproc_local.engine.stage import CODECS_LANE, VISION_LANE, Options, Output, Stage, WorkItem
from imgproc_local.engine.workers import Workers
from tests.support import pictures
from tests.support.reading import reader_here

KEY = "west wing/red bicycle.JPG"
JPEG = pictures.jpeg(64, 48)
REQUEST = BatchRequest((Plan(Operation.PROCESS),), ("en",), "one", archive_names=True)


class Bench:
    """A source with one picture, an empty target, and stages whose results the test chooses."""

    def __init__(self, folder: Path) -> None:
        self.source, self.target = folder / "source", folder / "target"
        self.results = folder / "results"
        self.results.mkdir()
        self.write(self.source / KEY, JPEG)
        self.slug = "red-bicycle"
        self.converted: bytes | Exception = b"converted"
        stages = (
            Stage(StageName.ANALYZE, VISION_LANE, self._analyze),
            Stage(StageName.OPTIMIZE, CODECS_LANE, self._optimize),
            Stage(StageName.CONVERT, CODECS_LANE, self._convert),
        )
        self.tools = Tools(
            REQUEST,
            load({"data_dir": folder / "data", "max_pixels": 10_000, "max_upload_bytes": 100_000}).config,
            DirectStages(stages, Options(85.0), cast("Workers", None), reader_here(10_000), 60),
            LocalStore(self.source),
            LocalStore(self.target),
            folder,
        )

    def write(self, file: Path, content: bytes) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def process(self, key: str = KEY, earlier: Row | None = None) -> Row:
        size_bytes = (self.source / key).stat().st_size if (self.source / key).exists() else 1
        return process_picture(self.tools, PendingPicture(SourceObject(key, size_bytes, "1"), earlier))

    def files(self) -> dict[str, bytes]:
        shown = (file for file in self.target.rglob("*") if file.is_file())
        return {file.relative_to(self.target).as_posix(): file.read_bytes() for file in shown}

    def _analyze(self, work: WorkItem, check_stop: CheckStop) -> Output:
        if not self.slug:
            raise StageFailed("The model does not answer.")
        return Output(texts=(Translation("en", self.slug, "A red bicycle.", TextSource.EMBEDDED),))

    def _optimize(self, work: WorkItem, check_stop: CheckStop) -> Output:
        return Output(keeps_original=True)

    def _convert(self, work: WorkItem, check_stop: CheckStop) -> Output:
        if isinstance(self.converted, Exception):
            raise self.converted
        path = self.results / "converted.part"
        path.write_bytes(self.converted)
        return Output(path=str(path), format=Format.WEBP)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def name(bench: Bench) -> str:
    """The path of the results, without extension."""
    row = bench.process()
    assert row.optimized is not None
    for file in row.files:
        (bench.target / file.path).unlink()
    return row.optimized.path.removesuffix(".jpg")


def test_a_task_that_is_repeated_accepts_its_own_results(bench: Bench, name: str) -> None:
    first = bench.process()
    again = bench.process()
    assert [again.outcome, again.files] == [first.outcome, first.files]


def test_a_file_of_the_user_is_not_replaced(bench: Bench, name: str) -> None:
    bench.write(bench.target / f"{name}.webp", b"mine")
    row = bench.process()
    assert bench.files() == {f"{name}.jpg": JPEG, f"{name}.webp": b"mine"}
    assert (row.outcome, row.failure, row.converted) == ("failed", "target", None)
    assert f"{name}.webp exists" in row.problems[0].message


def test_earlier_results_are_replaced_unless_the_user_changed_them(bench: Bench, name: str) -> None:
    earlier = bench.process()
    bench.write(bench.target / f"{name}.webp", b"edited")
    bench.slug = "blue-bicycle"
    row = bench.process(earlier=earlier)
    assert sorted(bench.files()) == sorted([f"{name}.webp", *(file.path for file in row.files)])
    assert row.outcome == "done"


@pytest.mark.parametrize("damaged", [True, False])
def test_a_picture_that_fails_retains_its_earlier_results(bench: Bench, name: str, damaged: bool) -> None:
    earlier = bench.process()
    if damaged:
        bench.write(bench.source / KEY, JPEG[:20])
    else:
        (bench.source / KEY).unlink()
    row = bench.process(earlier=earlier)
    assert [row.outcome, row.failure] == ["failed", "picture" if damaged else "source"]
    assert row.files == earlier.files
    assert sorted(bench.files()) == [f"{name}.jpg", f"{name}.webp"]


def test_results_of_the_same_content_remain_where_nothing_takes_their_place(bench: Bench, name: str) -> None:
    earlier = bench.process()
    bench.converted = StageFailed("It is too large.")
    row = bench.process(earlier=earlier)
    assert (row.outcome, row.converted) == ("failed", earlier.converted)
    assert sorted(bench.files()) == [f"{name}.jpg", f"{name}.webp"]
    bench.write(bench.source / KEY, pictures.jpeg(64, 48, seed=7))
    assert bench.process(earlier=row).converted is None
    assert sorted(bench.files()) == [f"{name}.jpg"]


def test_files_are_named_after_earlier_texts_of_the_same_content(bench: Bench) -> None:
    bench.slug = "harbour"
    earlier = structs.replace(bench.process(), removed=(Removed.GPS,))
    bench.slug = ""
    row = bench.process(earlier=earlier)
    assert (row.translations, row.files) == (earlier.translations, earlier.files)
    assert len(bench.files()) == 2
    bench.converted = StageFailed("It is too large.")
    assert bench.process(earlier=earlier).removed == (Removed.GPS,), "the earlier converted file remains"


@pytest.mark.parametrize(
    ("content", "outcome", "message"),
    [
        (b"", "skipped", "is empty"),
        (b"%PDF-1.7", "skipped", "a PDF"),
        (pictures.jpeg(128, 96), "failed", "at most 10,000 pixels"),
        (JPEG + bytes(100_000), "failed", "at most 100,000 bytes"),
    ],
    ids=["empty", "PDF", "pixels", "bytes"],
)
def test_what_is_not_processed_has_a_row_that_says_why(
    bench: Bench, content: bytes, outcome: str, message: str
) -> None:
    bench.write(bench.source / "one.jpg", content)
    row = bench.process("one.jpg")
    assert row.outcome == outcome
    assert message in row.problems[0].message
    assert bench.files() == {}


def test_a_target_that_can_not_be_written_fails_the_task(bench: Bench) -> None:
    bench.target.write_bytes(b"no folder")
    with pytest.raises(StorageFailed):
        bench.process()


def test_the_row_of_a_picture_that_kills_its_workers_names_the_results_that_are_still_there(
    bench: Bench, name: str
) -> None:
    earlier = bench.process()
    (bench.target / f"{name}.webp").unlink()
    pending = PendingPicture(SourceObject(KEY, 1, "2"), earlier)
    row = failed_row(pending, "two", bench.tools.target, "worker", "Every worker ended.")
    assert (row.outcome, row.failure, row.version, row.options) == ("failed", "worker", "2", "two")
    assert (row.optimized, row.converted) == (earlier.optimized, None)
    assert (row.translations, row.format) == (earlier.translations, Format.JPEG)
