"""Probing: what the header says, and a clear refusal of everything that is no picture."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from imgproc_local.codecs.container import inflate
from imgproc_local.codecs.probe import probe
from imgproc_local.domain.errors import BrokenImage, StageFailed, TooManyPixels, UnsupportedImage
from imgproc_local.domain.image import Format
from tests.codecs import pictures

MANY = 10**9


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (pictures.full_jpeg(), Format.JPEG),
        (pictures.full_png(), Format.PNG),
        (pictures.saved(pictures.scene(), "GIF"), Format.GIF),
        (pictures.full_webp(), Format.WEBP),
        (pictures.full_webp(lossless=True), Format.WEBP),
        (pictures.saved(pictures.scene(), "WEBP"), Format.WEBP),
        (pictures.full_avif(), Format.AVIF),
    ],
)
def test_the_type_comes_from_the_bytes_and_the_size_from_the_header(tmp_path: Path, data: bytes, form: Format) -> None:
    info = probe(pictures.write(tmp_path, data, "picture.txt"), MANY)
    assert (info.format, info.width_px, info.height_px, info.frames) == (form, 320, 240, 1)
    assert info.duration_ms == 0


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG", "AVIF"])
def test_frames_and_duration_of_an_animation_are_counted(tmp_path: Path, form: str) -> None:
    options = {} if form == "GIF" else {"lossless": True} if form == "WEBP" else {}
    info = probe(pictures.write(tmp_path, pictures.animated(form, [100, 250, 300, 50], **options)), MANY)
    assert (info.frames, info.duration_ms) == (4, 700)
    assert (info.width_px, info.height_px) == (96, 64)


def test_delays_that_browsers_do_not_play_count_as_they_play_them(tmp_path: Path) -> None:
    info = probe(pictures.write(tmp_path, pictures.animated("GIF", [0, 10, 20])), MANY)
    assert info.duration_ms == 100 + 100 + 20


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_is_read_from_every_format(tmp_path: Path, orientation: int) -> None:
    stored = pictures.oriented(pictures.scene(), orientation)
    found = [
        probe(pictures.write(tmp_path, data), MANY)
        for data in (
            pictures.full_jpeg(stored, orientation),
            pictures.full_png(stored, orientation),
            pictures.full_webp(stored, orientation),
            pictures.saved(stored, "AVIF", exif=pictures.tiff(orientation)),
        )
    ]
    assert [info.orientation for info in found] == [orientation] * 4
    assert [info.display_size_px for info in found] == [(320, 240)] * 4


@pytest.mark.parametrize(
    ("mode", "alpha", "bits"),
    [("RGB", False, 8), ("RGBA", True, 8), ("LA", True, 8), ("I;16", False, 16), ("1", False, 1)],
)
def test_alpha_and_depth_of_a_png_are_told(tmp_path: Path, mode: str, alpha: bool, bits: int) -> None:
    from PIL import Image

    info = probe(pictures.write(tmp_path, pictures.saved(Image.new(mode, (9, 7)), "PNG")), MANY)
    assert (info.has_alpha, info.bits_per_sample) == (alpha, bits)


def test_alpha_of_the_other_formats_is_told(tmp_path: Path) -> None:
    rgba = pictures.graphic(alpha=True)
    for data, alpha in (
        (pictures.saved(rgba, "WEBP"), True),
        (pictures.saved(rgba, "WEBP", lossless=True), True),
        (pictures.saved(rgba, "AVIF"), True),
        (pictures.saved(rgba[..., :3], "AVIF"), False),
        (pictures.saved(rgba[..., :3], "WEBP"), False),
    ):
        assert probe(pictures.write(tmp_path, data), MANY).has_alpha is alpha


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"", "empty"),
        (b"Dear diary, today\n", "text"),
        ("Grüße aus München – schön hier".encode(), "text"),
        (b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>', "SVG"),
        (b"\xef\xbb\xbf<svg/>", "SVG"),
        (b"<!DOCTYPE html><html></html>", "web page"),
        (b"II*\0" + b"\0" * 40, "TIFF"),
        (b"%PDF-1.7\n", "PDF"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0" * 20, "HEIC"),
        (b"\0\0\0\x18ftypisom\0\0\0\0isommp42" + b"\0" * 20, "video"),
        (b"RIFF\x10\0\0\0WAVEfmt ", "RIFF"),
        (bytes(range(256)), "no known picture type"),
    ],
)
def test_what_is_no_accepted_picture_is_named_where_it_can_be(tmp_path: Path, data: bytes, named: str) -> None:
    with pytest.raises(UnsupportedImage) as refused:
        probe(pictures.write(tmp_path, data, "boat.jpg"), MANY)
    assert named in refused.value.message
    assert "JPEG, PNG, GIF, WebP or AVIF" in refused.value.message
    assert str(tmp_path) not in refused.value.message


def test_pixels_of_all_frames_are_bounded_and_the_message_gives_the_numbers(tmp_path: Path) -> None:
    path = pictures.write(tmp_path, pictures.animated("GIF", [100] * 4))
    assert probe(path, 96 * 64 * 4).frames == 4
    with pytest.raises(TooManyPixels, match=r"24,575 pixels, but has 96 × 64 × 4 frames = 24,576"):
        probe(path, 96 * 64 * 4 - 1)


def test_a_header_that_promises_billions_of_pixels_is_refused(tmp_path: Path) -> None:
    header = pictures.chunk(b"IHDR", struct.pack(">IIBBBBB", 60000, 60000, 1, 0, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + header + pictures.chunk(b"IDAT", b"") + pictures.chunk(b"IEND", b"")
    with pytest.raises(TooManyPixels, match="3,600,000,000"):
        probe(pictures.write(tmp_path, data), 200_000_000)


def test_compressed_metadata_that_swells_is_not_inflated() -> None:
    assert inflate(zlib.compress(b"\0" * 100_000_000)) is None
    assert inflate(zlib.compress(b"profile")) == b"profile"


@pytest.mark.parametrize(
    "data",
    [
        pictures.full_jpeg()[:400],
        pictures.full_png()[:5000],
        pictures.full_gif()[:590],
        pictures.full_webp()[:900],
        pictures.full_avif()[:-900],
        b"\xff\xd8\xff\xe0\0\x10JFIF",
        b"\xff\xd8\xff\xd9",
        b"\x89PNG\r\n\x1a\n",
        b"GIF89a\x01\0\x01\0\0\0\0;",
        b"RIFF\x04\0\0\0WEBP",
        b"\0\0\0\x14ftypavif\0\0\0\0avif",
    ],
)
def test_a_file_that_ends_early_is_broken_not_unknown(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(BrokenImage):
        probe(pictures.write(tmp_path, data), MANY)


@pytest.mark.parametrize(
    "whole",
    [pictures.full_jpeg(), pictures.full_png(), pictures.full_gif(), pictures.full_webp(), pictures.full_avif()],
)
def test_damaged_headers_give_an_answer_or_a_typed_error(tmp_path: Path, whole: bytes) -> None:
    """Every byte of the first kilobyte set to other values, one after the other."""
    for position in range(2, min(1000, len(whole)), 3):
        for value in (0x00, 0xFF, 0x7F):
            data = whole[:position] + bytes((value,)) + whole[position + 1 :]
            try:
                probe(pictures.write(tmp_path, data), MANY)
            except (BrokenImage, UnsupportedImage, TooManyPixels):
                continue


def test_a_missing_file_is_told_without_its_path(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as failed:
        probe(tmp_path / "nowhere", MANY)
    assert "nowhere" not in failed.value.message


def test_probing_loads_no_image_library() -> None:
    code = "import sys, imgproc_local.codecs.probe; sys.exit('PIL' in sys.modules or 'pyvips' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
