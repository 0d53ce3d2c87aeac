"""Reading: the properties in a picture's header, and the refusal of files that are not pictures."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from PIL import Image

from imgproc_local.codecs.metadata.record import blocks_for, embedded, packed, unpacked
from imgproc_local.domain.errors import BrokenImage, TooManyPixels, UnsupportedImage
from imgproc_local.domain.image import Disclosure, Format, KeepLocation, NamePeople
from imgproc_local.domain.plan import ACCEPTED_FORMATS, Operation
from tests.codecs import pictures
from tests.support.reading import picture, probe

MAX_PIXELS = 10**9


RGBA = pictures.graphic(320, 240, alpha=True)
HEADERS = {
    "JPEG": (pictures.jpeg_with_metadata(), Format.JPEG, 1, False, 8),
    "PNG": (pictures.png_with_metadata(), Format.PNG, 1, False, 8),
    "PNG of 16 bits": (pictures.saved(Image.new("I;16", (320, 240)), "PNG"), Format.PNG, 1, False, 16),
    "PNG of one bit": (pictures.saved(Image.new("1", (320, 240)), "PNG"), Format.PNG, 1, False, 1),
    "grey PNG with alpha": (pictures.saved(Image.new("LA", (320, 240)), "PNG"), Format.PNG, 1, True, 8),
    "GIF": (pictures.saved(pictures.scene(), "GIF"), Format.GIF, 1, False, 8),
    "WebP": (pictures.webp_with_metadata(), Format.WEBP, 1, False, 8),
    "WebP with alpha": (pictures.saved(RGBA, "WEBP"), Format.WEBP, 1, True, 8),
    "lossless WebP with alpha": (pictures.saved(RGBA, "WEBP", lossless=True), Format.WEBP, 1, True, 8),
    "AVIF": (pictures.avif_with_metadata(), Format.AVIF, 1, False, 8),
    "AVIF with alpha": (pictures.saved(RGBA, "AVIF"), Format.AVIF, 1, True, 8),
}


@pytest.mark.parametrize("name", HEADERS)
def test_the_format_is_decided_by_the_bytes_and_all_else_by_the_header(tmp_path: Path, name: str) -> None:
    data, *expected = HEADERS[name]
    info = probe(pictures.write(tmp_path, data, "picture.txt"), MAX_PIXELS)
    assert [info.format, info.frames, info.has_alpha, info.bits_per_sample] == expected
    assert (info.width_px, info.height_px) == (320, 240)


@pytest.mark.parametrize("file_format", ["GIF", "WEBP", "PNG", "AVIF"])
def test_frames_of_an_animation_are_counted(tmp_path: Path, file_format: str) -> None:
    info = probe(pictures.write(tmp_path, pictures.animated(file_format, [100, 250, 300, 50])), MAX_PIXELS)
    assert (info.frames, info.width_px, info.height_px) == (4, 96, 64)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_is_read_from_every_format(tmp_path: Path, orientation: int) -> None:
    stored = pictures.oriented(pictures.scene(), orientation)
    found = [
        probe(pictures.write(tmp_path, data), MAX_PIXELS)
        for data in (
            pictures.jpeg_with_metadata(stored, orientation),
            pictures.png_with_metadata(stored, orientation),
            pictures.webp_with_metadata(stored, orientation),
            pictures.saved(stored, "AVIF", exif=pictures.tiff(orientation)),
        )
    ]
    assert [info.orientation for info in found] == [orientation] * 4
    assert [info.display_size_px for info in found] == [(320, 240)] * 4


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"Dear diary, today\n", "text"),
        ("Grüße aus München – schön hier".encode(), "text"),
        (b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>', "SVG"),
        (b"<!DOCTYPE html><html></html>", "web page"),
        (b"II*\0" + b"\0" * 40, "TIFF"),
        (b"%PDF-1.7\n", "PDF"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0" * 20, "HEIC"),
        (b"\0\0\0\x18ftypisom\0\0\0\0isommp42" + b"\0" * 20, "video"),
        (b"RIFF\x10\0\0\0WAVEfmt ", "RIFF"),
        (bytes(range(256)), "no known picture type"),
    ],
)
def test_the_refusal_names_the_type_of_the_file_if_it_is_known(tmp_path: Path, data: bytes, named: str) -> None:
    with pytest.raises(UnsupportedImage) as refused:
        probe(pictures.write(tmp_path, data, "boat.jpg"), MAX_PIXELS, ACCEPTED_FORMATS[Operation.OPTIMIZE])
    assert named in refused.value.message
    assert "JPEG, PNG, GIF, WebP or AVIF" in refused.value.message
    assert str(tmp_path) not in refused.value.message


def test_the_pixels_of_all_frames_are_limited_and_the_message_has_the_numbers(tmp_path: Path) -> None:
    path = pictures.write(tmp_path, pictures.animated("GIF", [100] * 4))
    assert probe(path, 96 * 64 * 4).frames == 4
    with pytest.raises(TooManyPixels, match=r"24,575 pixels, but has 96 × 64 × 4 frames = 24,576"):
        probe(path, 96 * 64 * 4 - 1)


@pytest.mark.parametrize(
    "data",
    [
        pictures.jpeg_with_metadata()[:400],
        pictures.gif_with_metadata()[:590],
        b"\x89PNG\r\n\x1a\n",
        b"RIFF\x04\0\0\0WEBP",
        b"\0\0\0\x14ftypavif\0\0\0\0avif",
    ],
)
def test_a_truncated_file_is_broken_not_unsupported(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(BrokenImage):
        probe(pictures.write(tmp_path, data), MAX_PIXELS)


def test_the_orientation_is_never_read_from_the_next_part_of_the_file(tmp_path: Path) -> None:
    upright = pictures.jpeg_with_metadata(orientation=6)
    damaged = upright[:2] + b"\xff\xe1\0\2" + b"Exif\0\0" + upright[2:]
    assert probe(pictures.write(tmp_path, damaged), MAX_PIXELS).orientation == 6


def test_a_refusal_names_only_the_accepted_formats(tmp_path: Path) -> None:
    accepted = (Format.JPEG, Format.PNG, Format.GIF, Format.WEBP)
    for data, came in (
        (pictures.avif_with_metadata(), "an AVIF"),
        (b"%PDF-1.7\n", "a PDF"),
    ):
        with pytest.raises(UnsupportedImage) as refused:
            probe(pictures.write(tmp_path, data), MAX_PIXELS, accepted)
        assert refused.value.errors["image"] == [f"Expected a picture as JPEG, PNG, GIF or WebP, but got {came}."]
    with pytest.raises(UnsupportedImage, match=r"^The file is empty\.$"):
        probe(pictures.write(tmp_path, b""), MAX_PIXELS, accepted)
    with pytest.raises(UnsupportedImage, match=r"^Expected a picture as JPEG, but got a PNG\.$"):
        probe(pictures.write(tmp_path, pictures.png_with_metadata()), MAX_PIXELS, [Format.JPEG])
    assert probe(pictures.write(tmp_path, pictures.jpeg_with_metadata()), MAX_PIXELS, accepted).format is Format.JPEG


@pytest.mark.parametrize("name", pictures.WITH_METADATA)
def test_a_stored_record_says_the_same_and_holds_no_private_data(tmp_path: Path, name: str) -> None:
    data = pictures.WITH_METADATA[name]()
    read = picture(pictures.write(tmp_path, data)).record
    stored = packed(read, Disclosure())
    assert not [name for name, secret in pictures.SECRETS.items() if secret in stored]
    again = unpacked(stored, Disclosure())
    assert again is not None
    assert (embedded(again), again.removed) == (embedded(read), read.removed)
    assert blocks_for(again, Format.JPEG) == blocks_for(read, Format.JPEG)
    assert unpacked(stored, Disclosure(KeepLocation.ALL)) is None, "it was read with another setting"
    assert unpacked(stored, Disclosure(name_people=NamePeople.ALL)) is None
    earlier = msgspec.msgpack.encode((KeepLocation.CITY, None, None, (), (), None, None))
    assert unpacked(earlier, Disclosure()) is None, "an earlier release stored it"
