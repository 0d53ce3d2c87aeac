"""Text in pictures through the whole service: read by a substitute of the process, and by the real networks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from imgproc_local import compose
from imgproc_local.config import Config
from imgproc_local.vision.ocr.model_files import installed_folder, runtime_is_installed
from imgproc_local.vision.ocr.reader import TextReader
from tests.support import ocr_double, pictures
from tests.support.service import Running, config_for, running

MODELS = os.environ.get("IMGPROC_MODELS_DIR", "")


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    def text_reader(config: Config, folder: Path) -> TextReader:
        return TextReader(lambda: config.data_dir, tmp_path / "work-ocr", ocr_double.COMMAND, os.environ)

    monkeypatch.setattr(compose, "text_reader", text_reader)
    with running(tmp_path / "data") as started:
        yield started


def poster(text: str, order: int = ocr_double.READS) -> bytes:
    """White letters on black; the first pixel tells the substitute what to do."""
    picture = Image.new("RGB", (640, 200), (order, 0, 0))
    ImageDraw.Draw(picture).text((60, 60), text, fill="white", font=ImageFont.load_default(60))
    return pictures.encoded(picture, "PNG")


def test_the_text_of_an_image_of_text_is_its_alt_text(service: Running) -> None:
    job = service.process("analyze", poster("Road closed"), "IMG_0001.png", languages="en,de")
    english, german = job["image"]["translations"]
    assert english["seo_alt_text"] == "Road closed"
    assert "„Road closed“" in german["seo_alt_text"], "text in another language is quoted"
    for entry in (english, german):
        assert (entry["source"], entry["needs_text"]) == ("facts", False)
        assert entry["seo_filename"].startswith("road-closed")


def test_a_crash_costs_only_the_words(service: Running, caplog: pytest.LogCaptureFixture) -> None:
    job = service.process("analyze", poster("Road closed", ocr_double.CRASHES), "IMG_0001.png", languages="en")
    assert job["status"] == "completed"
    assert job["image"]["translations"][0]["needs_text"]
    assert "The text in a picture was not read" in caplog.text


@pytest.mark.skipif(
    not (MODELS and runtime_is_installed() and installed_folder(Path(MODELS))),
    reason="needs imgproc-local[ocr], and the networks in the folder that IMGPROC_MODELS_DIR names",
)
def test_the_real_networks_read_a_poster(tmp_path: Path) -> None:
    config = config_for(tmp_path / "data", models_dir=Path(MODELS))
    assert compose.text_reader(config, tmp_path / "ocr") is not None
    with running(tmp_path / "data", models_dir=Path(MODELS)) as started:
        job = started.process("analyze", poster("Road closed"), "IMG_0001.png", languages="en")
    assert job["image"]["translations"][0]["seo_alt_text"] == "Road closed"
