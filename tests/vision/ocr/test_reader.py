"""The process that reads text: whatever happens to it, only the words of one picture are lost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from imgproc_local.domain.errors import StageCancelled
from imgproc_local.vision.ocr import reader
from imgproc_local.vision.ocr.reader import TextReader
from tests.support import ocr_double
from tests.support.ocr_double import LINE, picture


def proceed() -> None:
    """A `check_stop` that lets the work go on."""


def wait_until(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def make_reader(tmp_path: Path) -> Iterator[Callable[..., TextReader]]:
    made = []

    def make(models: Path | None = tmp_path, **options: float) -> TextReader:
        made.append(TextReader(lambda: models, tmp_path / "work", ocr_double.COMMAND, os.environ, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_one_process_reads_all_pictures_and_ends_when_it_is_idle(make_reader: Callable[..., TextReader]) -> None:
    text_reader = make_reader(idle_s=2)
    assert text_reader.pid is None
    assert text_reader.read(picture(ocr_double.READS), proceed) == (LINE,)
    first = text_reader.pid
    assert text_reader.read(picture(ocr_double.READS), proceed) == (LINE,)
    assert text_reader.pid == first
    wait_until(lambda: text_reader.pid is None)


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        pytest.param(ocr_double.CRASHES, "SIGABRT", marks=pytest.mark.skipif(os.name == "nt", reason="POSIX signals")),
        (ocr_double.HANGS, "took longer than"),
        (ocr_double.GROWS, "MB"),
        (ocr_double.BABBLES, "was not read"),
    ],
)
def test_a_failure_costs_the_words_of_one_picture(
    make_reader: Callable[..., TextReader],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    order: int,
    reason: str,
) -> None:
    monkeypatch.setattr(reader, "MAX_MEMORY_BYTES", ocr_double.GROWS_TO_BYTES)
    text_reader = make_reader(read_timeout_s=3 if order == ocr_double.HANGS else 60)
    assert text_reader.read(picture(order), proceed) == ()
    assert reason in caplog.text
    assert text_reader.pid is None
    if order == ocr_double.CRASHES:
        assert text_reader.read(picture(ocr_double.READS), proceed) == (LINE,)


def test_a_cancelled_stage_ends_the_process(make_reader: Callable[..., TextReader]) -> None:
    text_reader = make_reader()
    text_reader.read(picture(ocr_double.READS), proceed)

    def cancelled() -> None:
        raise StageCancelled("deleted")

    with pytest.raises(StageCancelled):
        text_reader.read(picture(ocr_double.HANGS), cancelled)
    assert text_reader.pid is None


def test_without_networks_no_process_is_started(make_reader: Callable[..., TextReader]) -> None:
    text_reader = make_reader(None)
    assert not text_reader.is_available
    assert text_reader.read(picture(ocr_double.READS), proceed) == ()
    assert text_reader.pid is None


def test_a_process_that_does_not_start_is_not_started_for_every_picture(
    make_reader: Callable[..., TextReader],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    text_reader = make_reader(tmp_path / "broken")
    for _ in range(3):
        assert text_reader.read(picture(ocr_double.READS), proceed) == ()
    assert caplog.text.count("the networks can't be loaded") == 1
    started = time.monotonic()
    monkeypatch.setattr(reader.time, "monotonic", lambda: started + 2 * reader.RETRY_S)
    text_reader.read(picture(ocr_double.READS), proceed)
    assert caplog.text.count("the networks can't be loaded") == 2
