"""Lossless recompression of JPEG scans in a child process: the same pixels in fewer bytes, or no result."""

from __future__ import annotations

import logging
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter

from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import jpeg as container
from imgproc_local.codecs.jpeg import optimize as jpeg
from imgproc_local.codecs.jpeg import repack as jpeg_repack
from imgproc_local.codecs.jpeg.repack import repacked
from imgproc_local.domain.errors import StageTimedOut
from tests.codecs import pictures
from tests.codecs.operations import MAX_PIXELS, optimized
from tests.codecs.pictures import never_stop
from tests.support.reading import probe

pytest.importorskip("mozjpeg_lossless_optimization")


def coarse(width: int = 640, height: int = 480, **options: object) -> bytes:
    """A JPEG of such low quality that encoding it again saves nothing."""
    return pictures.saved(pictures.scene(width, height), "JPEG", quality=50, **options)


def same_pixels(one: bytes, other: bytes) -> bool:
    return np.array_equal(np.asarray(pictures.opened(one)), np.asarray(pictures.opened(other)))


def jpeg_on_which_the_package_exits() -> bytes:
    """A grey JPEG of 16×8 pixels whose DC difference is out of range: decoders clip it, the package exits."""
    codes = bytes((0, 1, *[0] * 14, 12)), bytes((1, *[0] * 15, 0))  # DC: category 12 as 00, AC: end of block as 0
    bits = ""
    for difference in (2100, -4090):
        bits += "00" + format(difference if difference > 0 else difference + 4095, "012b") + "0"
    bits += "1" * (-len(bits) % 8)
    return b"".join(
        (
            b"\xff\xd8",
            pictures.segment(0xDB, bytes(1) + bytes([1] * 64)),
            pictures.segment(0xC0, struct.pack(">BHHB3B", 8, 8, 16, 1, 1, 0x11, 0)),
            pictures.segment(0xC4, b"\x00" + codes[0]),
            pictures.segment(0xC4, b"\x10" + codes[1]),
            pictures.segment(0xDA, bytes((1, 1, 0, 0, 63, 0))),
            int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\x00"),
            b"\xff\xd9",
        )
    )


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("subsampling", [0, 2])
def test_scans_are_recompressed_and_every_pixel_is_preserved(mode: str, subsampling: int) -> None:
    picture = Image.fromarray(pictures.scene(640, 480)).convert(mode)
    source = pictures.saved(picture, "JPEG", quality=50, subsampling=subsampling)
    out = repacked(source, never_stop)
    assert out is not None
    assert len(out) < 0.97 * len(source)
    assert pictures.opened(out).mode == mode
    assert same_pixels(out, source)
    assert repacked(out, never_stop) is None


def test_a_low_quality_file_is_recompressed_with_its_public_metadata(tmp_path: Path) -> None:
    source = pictures.jpeg_with_metadata(pictures.scene(640, 480), 6, 50)
    out = optimized(tmp_path, source)
    assert out is not None
    bare = [container.with_blocks(data, Blocks()) for data in (source, out)]
    assert len(bare[1]) < 0.97 * len(bare[0])
    assert same_pixels(out, source)
    assert pictures.COPYRIGHT.encode() in out
    assert not [name for name, secret in pictures.SECRETS.items() if secret in out]
    assert probe(pictures.write(tmp_path, out), MAX_PIXELS).orientation == 6
    assert optimized(tmp_path, out) is None
    assert optimized(tmp_path, container.with_blocks(out, Blocks())) is None


def test_a_lossless_result_is_preferred_if_it_is_smaller_than_the_lossy_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soft = Image.fromarray(pictures.scene(640, 480)).filter(ImageFilter.GaussianBlur(3))
    source = pictures.saved(soft, "JPEG", quality=50)
    out = optimized(tmp_path, source)
    assert out is not None
    assert same_pixels(out, source)
    assert optimized(tmp_path, out) is None
    monkeypatch.setattr(jpeg, "repacked", lambda *_: None)
    lossy = optimized(tmp_path, source)
    assert lossy is not None
    assert len(out) < len(lossy) < jpeg.MAX_SIZE_SHARE * len(source)
    assert not same_pixels(lossy, source)


def test_a_picture_on_which_the_package_exits_is_returned_unchanged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = jpeg_on_which_the_package_exits()
    with caplog.at_level(logging.INFO, logger=jpeg_repack.__name__):
        assert repacked(source, never_stop) is None
        out = optimized(tmp_path, source)
    assert "can't be recompressed" in caplog.text, "the package accepted the picture: the test needs another one"
    assert out is None or same_pixels(out, source)


def in_place_of_the_child(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Run `script` as the child. It may call `answer(data)`."""
    answer = "import sys; answer = lambda data: sys.stdout.buffer.write(len(data).to_bytes(4, 'little') + data);"
    monkeypatch.setattr(jpeg_repack, "program", lambda _: [sys.executable, "-c", answer + script])


@pytest.mark.parametrize("script", ["import os; os.abort()", "answer(b'not a JPEG')", "answer(b'')", "pass"])
def test_a_child_that_fails_in_any_way_causes_no_error(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    in_place_of_the_child(monkeypatch, script)
    assert repacked(coarse(), never_stop) is None


def test_a_result_with_other_pixels_is_discarded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in (pictures.scene(640, 480, 2), pictures.scene(64, 48)):
        path = pictures.write(tmp_path, pictures.saved(other, "JPEG", quality=5), "other.jpg")
        in_place_of_the_child(monkeypatch, f"answer(open({str(path)!r}, 'rb').read())")
        assert repacked(coarse(), never_stop) is None
    assert "changed its pixels" in caplog.text


def test_a_child_that_can_not_be_started_is_logged(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jpeg_repack, "program", lambda _: [str(tmp_path / "missing")])
    assert repacked(coarse(), never_stop) is None
    assert "can't be started" in caplog.text


def test_a_child_that_takes_too_long_is_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    in_place_of_the_child(monkeypatch, "import time; time.sleep(60)")

    def check_stop() -> None:
        raise StageTimedOut("The deadline passed.")

    with pytest.raises(StageTimedOut):
        repacked(coarse(), check_stop)
    monkeypatch.setattr(jpeg_repack, "TIMEOUT_S", 0.3)
    assert repacked(coarse(), never_stop) is None
    assert "within" in caplog.text


def test_without_the_package_no_child_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jpeg_repack, "_PACKAGE", "no_such_package")
    assert repacked(coarse(), never_stop) is None
