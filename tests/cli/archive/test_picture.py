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
from imgproc_local.engine.pipeline import Pipeline
from imgproc_local.engine.stage import CODECS_LANE, VISION_LANE, Options, Output, SizedOutput, Stage, WorkItem
from imgproc_local.engine.workers import Workers
from tests.support import pictures
from tests.support.reading import reader_here

KEY = "west wing/red bicycle.JPG"
JPEG = pictures.jpeg(64, 48)
PENDING = PendingPicture(SourceObject(KEY, len(JPEG), "1"))
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
        self.widths: tuple[int, ...] = ()
        stages = (
            Stage(StageName.ANALYZE, VISION_LANE, self._analyze),
            Stage(StageName.OPTIMIZE, CODECS_LANE, self._optimize),
            Stage(StageName.CONVERT, CODECS_LANE, self._convert),
        )
        self.tools = Tools(
            REQUEST,
            load({"data_dir": folder / "data", "max_pixels": 10_000, "max_upload_bytes": 100_000}).config,
            Pipeline(stages, lambda: Options(85.0), cast("Workers", None), reader_here(10_000), 60),
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
        sized = [self.results / f"{width_px}.part" for width_px in self.widths]
        for each in sized:
            each.write_bytes(b"sized")
        variants = (SizedOutput(480, 320, path=str(each)) for each in sized)
        return Output(path=str(path), format=Format.WEBP, variants=tuple(variants))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_results_are_written_once_and_files_of_the_user_are_never_replaced(bench: Bench) -> None:
    first = bench.process()
    assert first.optimized is not None
    name = first.optimized.path.removesuffix(".jpg")
    assert bench.files() == {f"{name}.jpg": JPEG, f"{name}.webp": b"converted"}
    assert (first.outcome, bench.process().files) == ("done", first.files), "a repeated task accepts its own results"

    bench.write(bench.target / f"{name}.webp", b"edited")
    bench.slug = "blue-bicycle"
    renamed = bench.process(earlier=first)
    assert bench.files().keys() == {f"{name}.webp", *(file.path for file in renamed.files)}, "edited ones remain"
    bench.slug = "red-bicycle"
    row = bench.process(earlier=renamed)
    assert bench.files() == {f"{name}.jpg": JPEG, f"{name}.webp": b"edited"}
    assert (row.outcome, row.converted) == ("failed", None)
    assert f"{name}.webp exists" in row.problems[0].message
    with pytest.raises(StorageFailed):
        process_picture(structs.replace(bench.tools, target=LocalStore(bench.source / KEY)), PENDING)


def test_widths_are_written_and_replaced_with_the_converted_file(bench: Bench) -> None:
    bench.widths = (480,)
    first = bench.process()
    assert first.converted is not None
    (sized,) = first.variants
    stem = first.converted.path.removesuffix(".webp")
    assert (sized.path, sized.width_px, sized.height_px) == (f"{stem}-480.webp", 480, 320)
    assert bench.files()[sized.path] == b"sized"
    bench.converted = StageFailed("It is too large.")
    assert bench.process(earlier=first).variants == (sized,), "they remain with the converted file"
    bench.converted, bench.widths = b"converted", ()
    again = bench.process(earlier=first)
    assert (again.variants, sized.path in bench.files()) == ((), False)


def test_a_picture_that_fails_retains_its_earlier_results(bench: Bench) -> None:
    earlier = bench.process()
    before = bench.files()
    bench.write(bench.source / KEY, JPEG[:20])
    damaged = bench.process(earlier=earlier)
    (bench.source / KEY).unlink()
    missing = bench.process(earlier=earlier)
    assert [row.outcome for row in (damaged, missing)] == ["failed"] * 2
    assert damaged.files == missing.files == earlier.files
    assert bench.files() == before

    (bench.target / earlier.files[1].path).unlink()
    pending = structs.replace(PENDING, earlier=earlier)
    row = failed_row(pending, "two", bench.tools.target, "Every worker ended.")
    assert (row.outcome, row.version, row.options) == ("failed", "1", "two")
    assert (row.optimized, row.converted) == (earlier.optimized, None), "it names those that are still there"
    assert (row.translations, row.format) == (earlier.translations, Format.JPEG)


def test_results_and_texts_of_the_same_content_remain_where_nothing_takes_their_place(bench: Bench) -> None:
    earlier = structs.replace(bench.process(), removed=(Removed.GPS,))
    before = bench.files()
    bench.slug = ""
    row = bench.process(earlier=earlier)
    assert (row.translations, row.files) == (earlier.translations, earlier.files), "named after the earlier texts"
    bench.converted = StageFailed("It is too large.")
    row = bench.process(earlier=earlier)
    assert (row.outcome, row.converted, row.removed) == ("failed", earlier.converted, (Removed.GPS,))
    assert bench.files() == before
    bench.slug = "red-bicycle"
    bench.write(bench.source / KEY, pictures.jpeg(64, 48, seed=7))
    assert bench.process(earlier=row).converted is None
    assert [Path(name).suffix for name in bench.files()] == [".jpg"], "results of another content are removed"


def test_what_is_not_processed_has_a_row_that_says_why(bench: Bench) -> None:
    for content, outcome, message in (
        (b"", "skipped", "is empty"),
        (b"%PDF-1.7", "skipped", "a PDF"),
        (pictures.jpeg(128, 96), "failed", "at most 10,000 pixels"),
        (JPEG + bytes(100_000), "failed", "at most 100,000 bytes"),
    ):
        bench.write(bench.source / "one.jpg", content)
        row = bench.process("one.jpg")
        assert (row.outcome, message in row.problems[0].message) == (outcome, True), row
    assert bench.files() == {}
