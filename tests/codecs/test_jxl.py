"""Conversion to JPEG XL: a JPEG without loss, other pictures by their pixels; and what is made of such files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import pyvips
from PIL import Image

from imgproc_local.codecs import files
from imgproc_local.codecs.alt_texts import FileText, FileTexts, write_alt_texts
from imgproc_local.codecs.container.avif import box_bytes
from imgproc_local.codecs.container.jpeg import gain_map
from imgproc_local.codecs.files import Encoded
from imgproc_local.codecs.metadata.text_sources import Author
from imgproc_local.codecs.picture.decode import open_upright
from imgproc_local.codecs.picture.other_decoders import jpeg_of, libjxl, rows_of
from imgproc_local.codecs.picture.source import ResultOptions
from imgproc_local.domain.errors import BrokenImage, StageFailed, UnsupportedImage
from imgproc_local.domain.image import Format
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import Note, TextSource, Words
from tests.codecs import pictures
from tests.codecs.operations import optimized, read_blocks, whole
from tests.codecs.pictures import never_stop
from tests.support import reading
from tests.support.reading import encode_file, probe

PHOTO = pictures.photo(203, 150)
jpeg = partial(pictures.saved, PHOTO, "JPEG", quality=92)


def converted(folder: Path, data: bytes, to: Format = Format.JXL, target: float = 85) -> Encoded:
    path = pictures.write(folder, data)
    return files.convert_file(path, reading.picture(path), to, never_stop, ResultOptions(target))


def shown(folder: Path, data: bytes) -> np.ndarray:
    """The decoded pixels of a picture, upright."""
    path = pictures.write(folder, data)
    return np.asarray(open_upright(path, probe(path)).numpy()).astype(int)


JPEGS = {
    "4:2:0": jpeg(subsampling="4:2:0"),
    "4:2:2": jpeg(subsampling="4:2:2"),
    "4:4:4, progressive": jpeg(subsampling="4:4:4", progressive=True),
    "grey": pictures.saved(Image.fromarray(PHOTO).convert("L"), "JPEG"),
    "restart markers": jpeg(restart_marker_blocks=5),
    "wide profile": jpeg(icc_profile=pictures.wide_profile()),
    "blank bytes at its end": jpeg() + bytes(100),
}


@pytest.mark.parametrize("name", JPEGS)
def test_a_jpeg_without_private_data_becomes_a_file_that_gives_it_back(tmp_path: Path, name: str) -> None:
    made = converted(tmp_path, JPEGS[name])
    assert jpeg_of(made.data) == JPEGS[name]
    assert (made.format, made.score, made.notes) == (Format.JXL, 100, ())


@pytest.mark.parametrize("orientation", [1, 6, 7])
def test_private_data_is_removed_before_and_the_picture_remains_upright(tmp_path: Path, orientation: int) -> None:
    stored = pictures.oriented(pictures.scene(), orientation)
    original = pictures.jpeg_with_metadata(stored, orientation, quality=97)
    made = converted(tmp_path, original)
    rebuilt = whole(jpeg_of(made.data))
    for data in (made.data, rebuilt):
        assert not [secret for secret in (*pictures.SECRETS.values(), b"-PRIVATE") if secret in data]
    assert pictures.ALT_TEXT["de"].encode() in (read_blocks(made.data, Format.JXL).xmp or b"")
    assert np.array_equal(shown(tmp_path, rebuilt), shown(tmp_path, original))
    in_jxl = np.abs(shown(tmp_path, made.data) - shown(tmp_path, original))
    assert in_jxl.mean() < 1  # libjxl and libjpeg round colours differently


NO_WORDS = b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description /></rdf:RDF>'


def with_gain_map(packet: bytes = NO_WORDS) -> bytes:
    packet = packet.replace(
        b"<rdf:Description ",
        b'<rdf:Description xmlns:hdrgm="http://ns.adobe.com/hdr-gain-map/1.0/" hdrgm:Version="1.0" ',
        1,
    )
    segment = pictures.segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + packet)
    return jpeg()[:2] + segment + jpeg()[2:] + pictures.saved(pictures.scene(80, 60), "JPEG")


SECRET = b"GPSLatitude 52.5200N, serial number 9981"


@pytest.mark.parametrize(
    ("marker", "payload"),
    [
        (0xE1, b"http://ns.adobe.com/xmp/extension/\0" + b"A" * 32 + bytes(8) + SECRET),
        (0xE2, b"MPF\0" + SECRET),
        (0xE2, b"http://ns.adobe.com/hdr-gain-map/" + SECRET),
        (0xE2, b"urn:iso:std:iso:ts:21496:-1\0" + bytes(4) + SECRET),
    ],
    ids=["XMP of no packet", "index", "gain map", "ISO"],
)
@pytest.mark.parametrize("is_second", [False, True], ids=["first picture", "gain map"])
def test_a_jpeg_with_private_data_in_a_segment_is_not_kept(
    tmp_path: Path, marker: int, payload: bytes, is_second: bool
) -> None:
    start = with_gain_map().rfind(b"\xff\xd8\xff") if is_second else 0
    original = with_gain_map()
    assert whole(jpeg_of(converted(tmp_path, original).data)) == original
    original = original[: start + 2] + pictures.segment(marker, payload) + original[start + 2 :]
    assert reading.picture(pictures.write(tmp_path, original)).record.removed
    assert SECRET not in whole(jpeg_of(converted(tmp_path, original).data))


def test_private_data_of_a_gain_map_is_found_and_removed(tmp_path: Path) -> None:
    gain_map = pictures.jpeg_with_metadata(pictures.scene(80, 60), 1)
    original = with_gain_map()
    original = original[: original.rfind(b"\xff\xd8\xff")] + gain_map
    removed = reading.picture(pictures.write(tmp_path, original)).record.removed
    assert {Removed.GPS, Removed.IDENTIFIER, Removed.COMMENT} <= removed
    kept = optimized(tmp_path, original)
    for data in (whole(jpeg_of(converted(tmp_path, original).data)), whole(kept)):
        assert not [secret for secret in pictures.SECRETS.values() if secret in data]


def test_what_a_jpeg_xl_cannot_hold_of_a_jpeg_is_noted(tmp_path: Path) -> None:
    made = converted(tmp_path, with_gain_map(pictures.xmp_packet()))
    assert (made.score, made.notes) == (100, (Note.GAIN_MAP_DROPPED,))
    made = converted(tmp_path, pictures.saved(Image.fromarray(PHOTO).convert("CMYK"), "JPEG", quality=92))
    assert made.notes == (Note.NOT_LOSSLESS,)
    assert made.score == pytest.approx(85, abs=2)
    assert jpeg_of(made.data) is None
    assert np.abs(shown(tmp_path, made.data) - PHOTO).mean() < 6


def test_a_jpeg_that_ends_early_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BrokenImage):
        converted(tmp_path, jpeg()[:-1500])


@pytest.mark.parametrize("form", [("PNG", {}), ("WEBP", {"lossless": True})], ids=["PNG", "WebP"])
def test_a_lossless_photograph_remains_lossless(tmp_path: Path, form: tuple[str, dict[str, object]]) -> None:
    name, options = form
    pixels = np.dstack([PHOTO, np.full(PHOTO.shape[:2], 255, np.uint8)])
    pixels[:50, :50, 3] = 90
    original = pictures.saved(pixels, name, **options)
    made = converted(tmp_path, original)
    assert made.score == 100
    assert len(made.data) < len(optimized(tmp_path, original) or original)
    assert np.array_equal(shown(tmp_path, made.data), pixels)


def test_a_graphic_becomes_the_smallest_of_what_meets_the_target(tmp_path: Path) -> None:
    original = pictures.saved(pictures.graphic(), "PNG")
    lossless = libjxl().encode(pictures.graphic(), lossless=True)
    made = converted(tmp_path, original)
    assert len(made.data) < 0.4 * len(lossless)
    assert 83.5 < (made.score or 0) < 100
    made = converted(tmp_path, pictures.png_with_metadata(pictures.graphic(), 6))
    assert pictures.ALT_TEXT["de"].encode() in (read_blocks(made.data, Format.JXL).xmp or b"")
    assert np.abs(shown(tmp_path, made.data) - np.rot90(pictures.graphic(), -1)).mean() < 6


def test_a_picture_of_16_bits_becomes_one_of_8(tmp_path: Path) -> None:
    deep = pyvips.Image.new_from_array(PHOTO.astype(np.uint16) * 257, interpretation="rgb16")
    made = converted(tmp_path, deep.pngsave_buffer())
    assert made.score == pytest.approx(85, abs=3)
    assert np.abs(shown(tmp_path, made.data) - PHOTO).mean() < 6


def test_a_transparent_picture_is_lossless(tmp_path: Path) -> None:
    pixels = np.dstack([PHOTO, PHOTO[..., 0] | 1])  # Pillow clears the colours of fully transparent pixels
    original = pictures.saved(pixels, "WEBP", quality=90)
    made = converted(tmp_path, original)
    assert np.array_equal(shown(tmp_path, made.data), shown(tmp_path, original))


@pytest.mark.parametrize("target", [75, 90])
def test_a_lossy_picture_has_the_target_score_and_its_profile(tmp_path: Path, target: float) -> None:
    profile = pictures.wide_profile()
    made = converted(tmp_path, pictures.saved(PHOTO, "WEBP", quality=97, icc_profile=profile), target=target)
    assert made.score == pytest.approx(target, abs=3)
    assert jpeg_of(made.data) is None
    width, height, bands = (*PHOTO.shape[1::-1], 3)
    samples = bytearray(PHOTO.size)
    _, metadata = libjxl().decode(made.data, out=rows_of(samples, width, height, bands), metadata=True)
    assert metadata["icc"] == profile
    assert np.abs(np.frombuffer(samples, np.uint8).astype(int) - PHOTO.ravel()).mean() < 6


def test_an_animation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match="An animation can't be converted to JPEG XL"):
        converted(tmp_path, pictures.animated("GIF", [100] * 2))


# ---- what is made of a JPEG XL


@pytest.mark.parametrize("words", [Words(), Words(caption="Two boats")], ids=["alt text", "caption"])
def test_texts_are_written_into_a_file_that_still_gives_its_jpeg_back(tmp_path: Path, words: Words) -> None:
    texts = FileTexts({"en": FileText("A red boat", Author(TextSource.PERSON))})
    path = pictures.write(tmp_path, converted(tmp_path, jpeg()).data)
    out = write_alt_texts(path, probe(path), texts, never_stop, words=words)
    for data, file_format in ((out, Format.JXL), (whole(jpeg_of(out)), Format.JPEG)):
        assert b"A red boat" in (read_blocks(data, file_format).xmp or b"")
    assert np.array_equal(shown(tmp_path, whole(jpeg_of(out))), shown(tmp_path, jpeg()))
    path = pictures.write(tmp_path, out)
    assert words != Words() or write_alt_texts(path, probe(path), texts, never_stop) == out


def test_texts_are_written_into_a_file_that_was_made_of_pixels(tmp_path: Path) -> None:
    texts = FileTexts({"en": FileText("A red boat", Author(TextSource.PERSON))})
    source = converted(tmp_path, pictures.saved(PHOTO, "WEBP", quality=97)).data
    path = pictures.write(tmp_path, source)
    out = write_alt_texts(path, probe(path), texts, never_stop)
    assert b"A red boat" in (read_blocks(out, Format.JXL).xmp or b"")
    assert np.array_equal(shown(tmp_path, out), shown(tmp_path, source))


def test_a_jpeg_xl_made_of_a_jpeg_is_processed_like_that_jpeg(tmp_path: Path) -> None:
    data = converted(tmp_path, jpeg()).data
    path = pictures.write(tmp_path, data)
    assert encode_file(path, probe(path), never_stop) == (optimized(tmp_path, jpeg()), Format.JPEG)
    assert converted(tmp_path, data).data == data


def test_a_jpeg_xl_whose_jpeg_cannot_be_rebuilt_is_refused(tmp_path: Path) -> None:
    damaged = bytearray(converted(tmp_path, jpeg()).data)
    at = damaged.find(b"jbrd") + 20
    damaged[at : at + 40] = bytes(40)
    with pytest.raises(BrokenImage, match="can't be rebuilt"):
        reading.picture(pictures.write(tmp_path, bytes(damaged)))


def test_what_is_made_of_a_jpeg_xl_keeps_the_gain_map_or_says_that_it_has_none(tmp_path: Path) -> None:
    source = converted(tmp_path, with_gain_map()).data
    assert converted(tmp_path, source, Format.WEBP).notes == (Note.GAIN_MAP_DROPPED,)
    again = converted(tmp_path, source)
    assert (again.notes, whole(jpeg_of(again.data))) == ((), with_gain_map())
    path = pictures.write(tmp_path, source)
    assert gain_map(files.encode_file(path, reading.picture(path), never_stop).data)


def test_words_that_were_added_to_a_jpeg_xl_are_read_and_kept(tmp_path: Path) -> None:
    source = converted(tmp_path, jpeg()).data
    packet = NO_WORDS.replace(
        b"Description />",
        b'Description xmlns:p="http://ns.adobe.com/photoshop/1.0/" p:Credit="Ada Photographer"/>',
    )
    exif = box_bytes(b"Exif", bytes(4) + pictures.tiff(1))
    added = source + box_bytes(b"xml ", packet)
    assert whole(jpeg_of(added)) == jpeg()
    assert reading.picture(pictures.write(tmp_path, added + exif)).record.removed
    path = pictures.write(tmp_path, added)
    assert not reading.picture(path).record.removed
    texts = FileTexts({"en": FileText("A red boat", Author(TextSource.PERSON))})
    webp, again = (converted(tmp_path, added, to).data for to in (Format.WEBP, Format.JXL))
    for data, to in (
        (webp, Format.WEBP),
        (again, Format.JXL),
        (write_alt_texts(path, probe(path), texts, never_stop), Format.JXL),
    ):
        assert b"Ada Photographer" in (read_blocks(data, to).xmp or b"")
    path = pictures.write(tmp_path, added + exif)
    with pytest.raises(StageFailed, match="without loss"):
        write_alt_texts(path, probe(path), texts, never_stop)


WITHOUT_PROFILE = {
    name: bytes.fromhex(code)
    for name, code in {
        "P3": "ff0a41404226370200128800dc008ffc29010050a132cab8c1cbb99e2f3f74584cdbb8ced056db1696248a8c639374028724"
        "b1146c5c8019330000c3ccf946cb40b12a4900",
        "PQ": "ff0a4140421e3d0200128800e0008ffc29010050a132cab8c1cbb99e2f3f74584cdbb8ced056db1696248a8c639374028724"
        "b1206c5c8007d800008031730d86a91a08562509",
        "HLG": "ff0a4140429e810800128800dc008ffc29010050a132cab8c1cbb99e2f3f74584cdbb8ced056db1696248a8c639374028724"
        "b1126c5c807930000063e654d367a058952400",
        "linear": "ff0a414042d12200128800dc008ffc29010050a132cab8c1cbb99e2f3f74584cdbb8ced056db1696248a8c639374028724b1"
        "186c5c80d9300030003347343903c5aa2401",
    }.items()
}
"""8 × 8 pixels with the samples 200, 60 and 60, whose colours libjxl's own encoder names by their numbers."""


def test_display_p3_without_a_profile_is_converted(tmp_path: Path) -> None:
    assert np.abs(shown(tmp_path, WITHOUT_PROFILE["P3"]) - (217, 42, 53)).max() < 4


@pytest.mark.parametrize("name", ["PQ", "HLG", "linear"])
def test_other_colours_without_a_profile_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsupportedImage, match="in sRGB, in Display P3 or with an ICC profile"):
        reading.picture(pictures.write(tmp_path, WITHOUT_PROFILE[name]))


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
@pytest.mark.parametrize("size", [(64, 64), (50, 300), (300, 2000)])
def test_srgb_without_a_profile_is_accepted(tmp_path: Path, mode: str, size: tuple[int, int]) -> None:
    pixels = np.atleast_3d(np.asarray(Image.new(mode, size)))
    path = pictures.write(
        tmp_path, libjxl().encode(rows_of(bytearray(pixels.tobytes()), *size, pixels.shape[2]), lossless=True)
    )
    assert reading.probe(path).display_size_px == size
