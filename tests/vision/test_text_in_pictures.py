"""Text in pictures through the whole service: read by a substitute of the networks, and by the real ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from imgproc_local import compose
from imgproc_local.config import Config
from imgproc_local.domain.errors import CheckStop, StageCancelled
from imgproc_local.domain.image import Pixels
from imgproc_local.engine import analyze
from imgproc_local.engine.analyze import TextReader
from imgproc_local.vision.models.networks import installed_folder
from imgproc_local.vision.models.store import can_read_text
from imgproc_local.vision.ocr import lines
from imgproc_local.vision.ocr.lines import ReadLine
from tests.support import ocr_double, pictures
from tests.support.service import running

MODELS = os.environ.get("IMGPROC_MODELS_DIR", "")


@pytest.fixture
def make_reader(monkeypatch: pytest.MonkeyPatch) -> Callable[[Config, Path], TextReader]:
    """Makes a reader with a substitute of the networks, for which the first byte of a picture says what to do."""
    monkeypatch.setattr(lines, "read_lines", ocr_double.read_lines)
    return lambda config, folder: TextReader(compose.codec_workers(config, folder, folder), lambda: folder)


def poster(text: str, order: int = ocr_double.READS) -> bytes:
    """White letters on black; the first pixel tells the substitute what to do."""
    picture = Image.new("RGB", (640, 200), (order, 0, 0))
    ImageDraw.Draw(picture).text((60, 60), text, fill="white", font=ImageFont.load_default(60))
    return pictures.encoded(picture, "PNG")


def test_text_is_the_alt_text_of_an_image_of_text_and_a_crash_costs_only_the_words(
    tmp_path: Path,
    make_reader: Callable[[Config, Path], TextReader],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(compose, "text_reader", make_reader)
    with running(tmp_path / "data") as service:
        job = service.process("analyze", poster("Road closed"), "IMG_0001.png", languages="en,de")
        english, german = job["image"]["translations"]
        assert english["seo_alt_text"] == "Road closed"
        assert "„Road closed“" in german["seo_alt_text"], "text in another language is quoted"
        for entry in (english, german):
            assert (entry["source"], entry["needs_text"]) == ("facts", entry is german)
            assert entry["seo_filename"].startswith("road-closed")
        crash = poster("Road closed", ocr_double.CRASHES)
        job = service.process("analyze", crash, "IMG_0002.png", languages="en")
        assert job["status"] == "completed"
        assert job["image"]["translations"][0]["needs_text"]
    assert "The text in a picture was not read" in caplog.text


def test_a_failure_costs_the_words_of_one_picture(
    tmp_path: Path,
    make_reader: Callable[[Config, Path], TextReader],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def read(order: int, check_stop: CheckStop = lambda: None) -> tuple[ReadLine, ...] | None:
        return reader.read(Pixels(1, 1, bytes((order, 0, 0))), check_stop)

    def cancelled() -> None:
        raise StageCancelled("deleted")

    with closing(make_reader(Config(data_dir=tmp_path / "data"), tmp_path / "ocr")) as reader:
        for order, reason in (
            (ocr_double.CRASHES, "SIGABRT"),
            (ocr_double.GROWS, "more memory"),
            (ocr_double.RAISES, "ValueError: no such network"),
        ):
            assert read(order) is None
            assert reason in caplog.records[-1].getMessage()
        assert read(ocr_double.READS) == (ocr_double.LINE,)
        with pytest.raises(StageCancelled):
            read(ocr_double.HANGS, cancelled)
        monkeypatch.setattr(analyze, "OCR_TIMEOUT_S", 1)
        assert read(ocr_double.HANGS) is None
        assert "took longer than 1 second" in caplog.records[-1].getMessage()


@pytest.mark.skipif(
    not (MODELS and can_read_text() and installed_folder(Path(MODELS))),
    reason="needs imgproc-local[ocr], and the networks in the folder that IMGPROC_MODELS_DIR names",
)
def test_the_real_networks_read_a_poster(tmp_path: Path) -> None:
    with running(tmp_path / "data", models_dir=Path(MODELS)) as started:
        job = started.process("analyze", poster("Road closed"), "IMG_0001.png", languages="en")
    assert job["image"]["translations"][0]["seo_alt_text"] == "Road closed"
