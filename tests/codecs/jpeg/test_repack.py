"""Lossless recompression of JPEG scans: the same pixels in fewer bytes, or no result."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from imgproc_local.codecs import jpeg
from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import jpeg as container
from tests.codecs import pictures
from tests.codecs.operations import optimized, whole
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


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_scans_are_recompressed_and_every_pixel_is_preserved(
    tmp_path: Path, subsampling: int, progressive: bool
) -> None:
    source = coarse(subsampling=subsampling, progressive=progressive)
    out = whole(optimized(tmp_path, source, target=99.0))
    assert len(out) < 0.99 * len(source)
    assert same_pixels(out, source)
    assert optimized(tmp_path, out, target=99.0) is None


def test_a_low_quality_file_is_recompressed_with_its_public_metadata(tmp_path: Path) -> None:
    source = pictures.jpeg_with_metadata(pictures.scene(640, 480), 6, 50)
    out = optimized(tmp_path, source)
    assert out is not None
    bare = [container.with_blocks(data, Blocks()) for data in (source, out)]
    assert len(bare[1]) < 0.97 * len(bare[0])
    assert same_pixels(out, source)
    assert pictures.COPYRIGHT.encode() in out
    assert not [name for name, secret in pictures.SECRETS.items() if secret in out]
    assert probe(pictures.write(tmp_path, out)).orientation == 6
    assert optimized(tmp_path, out) is None
    assert optimized(tmp_path, container.with_blocks(out, Blocks())) is None


def test_a_picture_on_which_the_package_exits_is_returned_unchanged(tmp_path: Path) -> None:
    source = jpeg_on_which_the_package_exits()
    ended = subprocess.run(
        [sys.executable, "-c", "import sys; from mozjpeg_lossless_optimization import optimize;"
         "optimize(sys.stdin.buffer.read())"], input=source, capture_output=True, check=False,
    )  # fmt: skip
    assert ended.returncode, "the package accepted the picture: the test needs another one"
    out = optimized(tmp_path, source)
    assert out is None or same_pixels(out, source)


def test_a_result_with_other_pixels_is_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    other = pictures.saved(pictures.scene(640, 480, 2), "JPEG", quality=5)
    monkeypatch.setattr(jpeg.mozjpeg_scans, "optimize", lambda _: other)
    assert jpeg._repacked(coarse(), never_stop) is None
