"""TIFF, HEIC and camera raw files: the first two become JPEG or PNG, the last are refused."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import pyvips
from PIL import Image, ImageCms

from imgproc_local.codecs.picture import formats
from imgproc_local.codecs.picture.decode import thumbnail
from imgproc_local.codecs.picture.formats import FORMATS, detect
from imgproc_local.codecs.picture.source import ResultOptions
from imgproc_local.domain.errors import BadImage, BrokenImage, StageFailed, UnsupportedImage
from imgproc_local.domain.image import Format, KeepLocation
from imgproc_local.domain.plan import Operation, accepted_formats
from imgproc_local.domain.privacy import Removed
from tests.codecs import pictures
from tests.codecs.pictures import never_stop
from tests.support.reading import convert_file, encode_file, private_kinds, probe, read_embedded

WIDTH, HEIGHT = 160, 120
RGB = pictures.photo(WIDTH, HEIGHT)
RGBA = np.dstack([RGB, np.tile(np.linspace(0, 255, WIDTH), (HEIGHT, 1)).astype(np.uint8)])
GREY = RGB[..., 1]
MAX_MEAN_ERROR = 4.0
"""Of 255, between an original and its result; a picture in wrong colours or upside down differs by more than 20."""
LOCAL = accepted_formats(Operation.PROCESS, local=True)


def vips(pixels: np.ndarray = RGB) -> pyvips.Image:
    return pyvips.Image.new_from_array(pixels, interpretation="b-w" if pixels.ndim == 2 else "srgb")


def sixteen_bits(image: pyvips.Image) -> pyvips.Image:
    return (image * 257).cast("ushort").copy(interpretation="rgb16")


def tiff(pixels: np.ndarray | Image.Image = RGB, **options: object) -> bytes:
    return pictures.saved(pixels, "TIFF", **options)


LAB_OF_8_BITS = ImageCms.profileToProfile(
    Image.fromarray(RGB), ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), outputMode="LAB"
)
ORIGINALS: dict[str, tuple[Callable[[], bytes], np.ndarray]] = {
    "8 bits": (tiff, RGB),
    "16 bits": (lambda: sixteen_bits(vips()).tiffsave_buffer(), RGB),
    "floating point": (lambda: vips().colourspace("scrgb").tiffsave_buffer(), RGB),
    "Lab": (lambda: vips().colourspace("lab").tiffsave_buffer(), RGB),
    "Lab of 16 bits": (lambda: vips().colourspace("labs").tiffsave_buffer(), RGB),
    "CMYK": (lambda: tiff(Image.fromarray(RGB).convert("CMYK")), RGB),
    "CMYK of 16 bits": (
        lambda: (vips().invert().bandjoin(0) * 257).cast("ushort").copy(interpretation="cmyk").tiffsave_buffer(),
        RGB,
    ),
    "CMYK with a profile": (
        lambda: vips().icc_transform("cmyk").tiffsave_buffer(),
        np.asarray(vips().icc_transform("cmyk").icc_transform("srgb", embedded=True, intent="perceptual").numpy()),
    ),
    "grey of 16 bits": (lambda: tiff(Image.fromarray(GREY.astype(np.uint16) * 257)), np.dstack([GREY] * 3)),
    "palette": (
        lambda: tiff(Image.fromarray(RGB).quantize(64)),
        np.asarray(Image.fromarray(RGB).quantize(64).convert("RGB")),
    ),
    "fax (G4)": (
        lambda: tiff(Image.fromarray(RGB).convert("1"), compression="group4"),
        np.asarray(Image.fromarray(RGB).convert("1").convert("RGB")),
    ),
    "alpha": (lambda: vips(RGBA).tiffsave_buffer(), RGBA),
    "opaque alpha": (lambda: vips().bandjoin(255).copy(interpretation="srgb").tiffsave_buffer(), RGB),
    "alpha of 16 bits": (lambda: sixteen_bits(vips(RGBA)).tiffsave_buffer(), RGBA),
    "CMYK with alpha": (
        lambda: vips().invert().bandjoin([0, vips(RGBA[..., 3])]).copy(interpretation="cmyk").tiffsave_buffer(),
        RGBA,
    ),
    "rotated": (lambda: tiff(np.rot90(RGB).copy(), tiffinfo={274: 6}), RGB),
    "big endian": (lambda: pictures.tiff_with_metadata(RGB, order=">"), RGB),
    "several pages": (lambda: tiff(RGB, save_all=True, append_images=[Image.new("L", (50, 60))] * 2), RGB),
    "BigTIFF, LZW": (lambda: vips().tiffsave_buffer(bigtiff=True, compression="lzw", predictor="horizontal"), RGB),
    "JPEG compression": (lambda: vips().tiffsave_buffer(compression="jpeg", Q=95), RGB),
    "tiles and smaller copies": (
        lambda: vips().tiffsave_buffer(tile=True, tile_width=64, tile_height=64, pyramid=True, compression="deflate"),
        RGB,
    ),
}


def mean_error(out: bytes, expected: np.ndarray) -> float:
    """The mean difference of an encoded picture from RGB or RGBA pixels; what is transparent weighs less."""
    has_alpha = expected.shape[2] == 4
    shown = np.asarray(pictures.opened(out).convert("RGBA" if has_alpha else "RGB")).astype(float)
    assert shown.shape == expected.shape
    return float(np.abs((shown - expected) * (expected[..., 3:] / 255 if has_alpha else 1)).mean())


@pytest.mark.parametrize("name", ORIGINALS)
def test_a_tiff_becomes_a_jpeg_or_a_png_where_it_is_transparent(tmp_path: Path, name: str) -> None:
    make, expected = ORIGINALS[name]
    path = pictures.write(tmp_path, make())
    info = probe(path, 10**9, LOCAL)
    out, new_format = encode_file(path, info, never_stop, ResultOptions(effort="fast"))
    assert info.format is Format.TIFF
    assert info.pages == (
        3 if name in ("several pages", "tiles and smaller copies") else 2 if name == "big endian" else 1
    )
    assert new_format is (Format.PNG if expected.shape[2] == 4 else Format.JPEG)
    assert detect(out) is new_format
    assert mean_error(out, expected) < (12.0 if name == "fax (G4)" else MAX_MEAN_ERROR)
    small = thumbnail(path, info, 80, never_stop)
    assert (small.width_px, small.height_px) == (80, 60)


@pytest.mark.parametrize(
    ("name", "target"),
    [("16 bits", Format.AVIF), ("CMYK with a profile", Format.WEBP), ("alpha", Format.WEBP), ("rotated", Format.WEBP)],
)
def test_a_tiff_is_converted(tmp_path: Path, name: str, target: Format) -> None:
    make, expected = ORIGINALS[name]
    path = pictures.write(tmp_path, make())
    info = probe(path, 10**9, LOCAL)
    out = convert_file(path, info, target, never_stop, ResultOptions(effort="fast"))
    assert mean_error(out, expected) < MAX_MEAN_ERROR
    if name == "16 bits" and target is Format.AVIF:
        assert probe(pictures.write(tmp_path, out), 10**9).bits_per_sample == 10


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_metadata_of_a_tiff_is_read_and_published_without_private_data(tmp_path: Path, order: str) -> None:
    path = pictures.write(tmp_path, pictures.tiff_with_metadata(order=order))
    info = probe(path, 10**9, LOCAL)
    read = read_embedded(path, info)
    assert pictures.ALT_TEXT["en"] in {text.text for text in read.alt_text}
    assert (read.city, read.created, read.camera) == (pictures.PRESERVED["city"], "2031-05-06", "Examplecam")
    kinds = {Removed.GPS, Removed.IDENTIFIER, Removed.CAMERA, Removed.SOFTWARE}
    assert kinds <= set(private_kinds(path, info, KeepLocation.CITY))
    size = info.scaled_within(100, None)
    for out in (
        encode_file(path, info, never_stop, size=size)[0],
        convert_file(path, info, Format.WEBP, never_stop, ResultOptions(effort="fast")),
    ):
        assert not [name for name, secret in pictures.SECRETS.items() if secret in out]
        xmp = FORMATS[detect(out)].container.read_blocks(out).xmp or b""
        for name in ("copyright", "creator", "credit", "alt text in a second language", "city", "keyword"):
            assert pictures.PRESERVED[name].encode() in xmp, name


@pytest.mark.parametrize("tag", [269, 285, 337], ids=["DocumentName", "PageName", "TargetPrinter"])
def test_a_text_of_a_tiff_that_is_not_published_is_reported_as_private_data(tmp_path: Path, tag: int) -> None:
    out = io.BytesIO()
    Image.new("RGB", (8, 8)).save(out, "TIFF", tiffinfo={tag: "draft for a client"})
    path = pictures.write(tmp_path, out.getvalue())
    assert private_kinds(path, probe(path, 10**9, LOCAL)) == (Removed.OTHER,)


def test_a_wide_gamut_is_preserved(tmp_path: Path) -> None:
    profile = pictures.wide_profile()
    path = pictures.write(tmp_path, tiff(icc_profile=profile))
    out, _ = encode_file(path, probe(path, 10**9, LOCAL), never_stop)
    assert FORMATS[Format.JPEG].container.read_blocks(out).icc == profile


COMPRESSION, BITS, WIDTH_TAG = 259, 258, 256


def with_tag(tag: int, value: int) -> bytes:
    """A TIFF with another value of one of its tags."""
    data = bytearray(pictures.tiff_with_metadata(RGB))
    at = 8 + 2 + 12 * (256, 257, 258, 259, 262).index(tag)
    assert struct.unpack_from("<H", data, at) == (tag,)
    struct.pack_into("<HII", data, at + 2, 4, 1, value)
    return bytes(data)


@pytest.mark.parametrize(
    "data", [with_tag(BITS, 64), tiff(Image.fromarray(np.zeros((4, 4), np.int32))), tiff(LAB_OF_8_BITS)]
)
def test_a_tiff_of_another_kind_is_refused_with_what_is_expected(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(BadImage, match=r"expected grey, RGB, CMYK or Lab .* Save it again in RGB"):
        probe(pictures.write(tmp_path, data), 10**9, LOCAL)


def test_an_unsupported_compression_of_a_tiff_is_named_as_the_cause(tmp_path: Path) -> None:
    path = pictures.write(tmp_path, with_tag(COMPRESSION, 50000))
    with pytest.raises(StageFailed, match="Save it again with LZW"):
        encode_file(path, probe(path, 10**9, LOCAL), never_stop)


def test_a_damaged_tiff_is_refused(tmp_path: Path) -> None:
    whole = pictures.tiff_with_metadata(RGB)
    for data in (with_tag(WIDTH_TAG, 0), whole[:10], whole[:8] + b"\xff" * 40):
        with pytest.raises(BrokenImage):
            probe(pictures.write(tmp_path, data), 10**9, LOCAL)
    path = pictures.write(tmp_path, whole[:-20_000])
    with pytest.raises(BrokenImage):
        encode_file(path, probe(path, 10**9, LOCAL), never_stop)


# ---- camera raw ----


def raw_tiff(*tags: int) -> bytes:
    """A TIFF with a small preview and these tags, and below it what a sensor recorded."""
    fields = [(254, 1), (262, 2), (330, 200), *((tag, 1) for tag in tags)]
    out = b"II*\0" + struct.pack("<IH", 8, len(fields))
    out += b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in fields)
    return out.ljust(200, b"\0") + struct.pack("<HHHII", 1, 262, 4, 1, 32803 if not tags else 2) + bytes(100)


@pytest.mark.parametrize(
    "data",
    [
        raw_tiff(),
        raw_tiff(50706),
        b"II*\0\x10\0\0\0CR\x02\0" + bytes(100),
        b"\0\0\0\x18ftypcrx \0\0\0\1crx isom" + bytes(100),
        b"FUJIFILMCCD-RAW 0201" + bytes(100),
        b"IIRO\x08\0\0\0" + bytes(100),
    ],
)
def test_a_camera_raw_file_is_refused_as_such(tmp_path: Path, data: bytes) -> None:
    path = pictures.write(tmp_path, data)
    with pytest.raises(UnsupportedImage, match="but got a camera raw file: export it as JPEG first"):
        probe(path, 10**9, LOCAL)


# ---- HEIC ----


def test_a_heic_is_refused_with_what_to_install_where_its_decoder_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pictures.write(tmp_path, pictures.as_heic(pictures.avif_with_metadata()))
    monkeypatch.setattr(formats, "can_decode_heic", lambda: False)
    with pytest.raises(UnsupportedImage, match=r"imgproc-local\[heic\]"):
        probe(path, 10**9, LOCAL)
    with pytest.raises(UnsupportedImage, match="but got a HEIC"):
        probe(path, 10**9, accepted_formats(Operation.PROCESS, local=False))


def heic_file(pixels: np.ndarray = RGB, *, orientation: int = 1, **options: object) -> bytes:
    pillow_heif = pytest.importorskip("pillow_heif", reason="needs imgproc-local[heic]")
    height, width, bands = pixels.shape
    mode = ("RGB" if bands == 3 else "RGBA") + (";16" if pixels.dtype == np.uint16 else "")
    pillow_heif.options.SAVE_HDR_TO_12_BIT = False
    picture = pillow_heif.from_bytes(mode, (width, height), pixels.tobytes())
    out = io.BytesIO()
    options = {"quality": 92, "exif": b"Exif\0\0" + pictures.tiff(orientation), "xmp": pictures.xmp_packet(), **options}
    picture.save(out, **options)
    return out.getvalue()


def test_the_thumbnail_of_a_heic_is_reported_as_private_data(tmp_path: Path) -> None:
    pillow_heif = pytest.importorskip("pillow_heif", reason="needs imgproc-local[heic]")
    picture = pillow_heif.from_bytes("RGB", (256, 256), bytes(3 * 256 * 256))
    for sizes in ([], [64]):
        picture[0].info["thumbnails"] = sizes
        out = io.BytesIO()
        picture.save(out)
        path = pictures.write(tmp_path, out.getvalue())
        assert private_kinds(path, probe(path, 10**9, LOCAL)) == ((Removed.THUMBNAIL,) if sizes else ())


HEICS: dict[str, tuple[Callable[[], bytes], np.ndarray, int]] = {
    "8 bits": (heic_file, RGB, 8),
    "10 bits": (lambda: heic_file(RGB.astype(np.uint16) * 257), RGB, 10),
    "rotated": (lambda: heic_file(np.rot90(RGB).copy(), orientation=6), RGB, 8),
    "alpha": (lambda: heic_file(RGBA), RGBA, 8),
    "odd size": (lambda: heic_file(RGB[:-1, :-1].copy()), RGB[:-1, :-1], 8),
}


@pytest.mark.parametrize("name", HEICS)
def test_a_heic_becomes_a_jpeg_or_a_png_where_it_is_transparent(tmp_path: Path, name: str) -> None:
    make, expected, bits = HEICS[name]
    path = pictures.write(tmp_path, make())
    info = probe(path, 10**9, LOCAL)
    assert (info.format, info.bits_per_sample) == (Format.HEIC, bits)
    assert info.display_size_px == expected.shape[1::-1]
    encoded, new_format = encode_file(path, info, never_stop, ResultOptions(effort="fast"))
    results = [encoded, convert_file(path, info, Format.AVIF, never_stop, ResultOptions(effort="fast"))]
    assert new_format is (Format.PNG if expected.shape[2] == 4 else Format.JPEG)
    for out in results:
        assert mean_error(out, expected) < MAX_MEAN_ERROR
        assert not [secret for secret in pictures.SECRETS.values() if secret in out]
        assert pictures.ALT_TEXT["de"].encode() in (FORMATS[detect(out)].container.read_blocks(out).xmp or b"")
    assert probe(pictures.write(tmp_path, results[1]), 10**9).bits_per_sample == bits


def test_the_wide_gamut_of_a_heic_is_preserved(tmp_path: Path) -> None:
    profile = pictures.wide_profile()
    path = pictures.write(tmp_path, heic_file(icc_profile=profile))
    out, _ = encode_file(path, probe(path, 10**9, LOCAL), never_stop)
    assert FORMATS[Format.JPEG].container.read_blocks(out).icc == profile
