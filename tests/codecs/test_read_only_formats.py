"""TIFF, JPEG XL, HEIC and camera raw files: the first three become JPEG or PNG, the last are refused."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import pyvips
from PIL import Image, ImageCms

from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import jxl as container
from imgproc_local.codecs.picture import formats, other_decoders
from imgproc_local.codecs.picture.decode import thumbnail
from imgproc_local.codecs.picture.formats import detect
from imgproc_local.codecs.picture.other_decoders import libjxl
from imgproc_local.codecs.picture.source import ResultOptions
from imgproc_local.domain.errors import BadImage, BrokenImage, StageFailed, UnsupportedImage
from imgproc_local.domain.image import Format
from imgproc_local.domain.plan import ACCEPTED_FORMATS, Operation
from imgproc_local.domain.privacy import Removed
from tests.codecs import pictures
from tests.codecs.operations import read_blocks
from tests.codecs.pictures import never_stop
from tests.support.reading import convert_file, encode_file, private_kinds, probe, read_embedded

WIDTH, HEIGHT = 160, 120
RGB = pictures.photo(WIDTH, HEIGHT)
RGBA = np.dstack([RGB, np.tile(np.linspace(0, 255, WIDTH), (HEIGHT, 1)).astype(np.uint8)])
GREY = RGB[..., 1]
BIT = np.asarray(Image.fromarray(RGB).convert("1").convert("RGB"))
FAST = ResultOptions(effort="fast")


def results(folder: Path, data: bytes, expected: np.ndarray, max_mean_error: float = 4.0) -> list[bytes]:
    """The optimized file and the AVIF of a picture: both show the expected RGB or RGBA pixels.

    A picture in wrong colours or upside down has a mean error above 20. What is transparent weighs less.
    """
    path = pictures.write(folder, data)
    info = probe(path)
    encoded, new_format = encode_file(path, info, never_stop, FAST)
    has_alpha = expected.shape[2] == 4
    assert detect(encoded) is new_format is (Format.PNG if has_alpha else Format.JPEG)
    outs = [encoded, convert_file(path, info, Format.AVIF, never_stop, FAST)]
    for out in outs:
        shown = np.asarray(pictures.opened(out).convert("RGBA" if has_alpha else "RGB")).astype(float)
        assert shown.shape == expected.shape
        error = np.abs(shown - expected) * (expected[..., 3:] / 255 if has_alpha else 1)
        assert error.mean() < max_mean_error
    return outs


# ---- TIFF ----


def vips(pixels: np.ndarray = RGB) -> pyvips.Image:
    return pyvips.Image.new_from_array(pixels, interpretation="b-w" if pixels.ndim == 2 else "srgb")


def deep(image: pyvips.Image, interpretation: str = "rgb16") -> pyvips.Image:
    return (image * 257).cast("ushort").copy(interpretation=interpretation)


def tiff(pixels: np.ndarray | Image.Image = RGB, **options: object) -> bytes:
    return pictures.saved(pixels, "TIFF", **options)


INKS = vips().invert().bandjoin(0)
PRESS = vips().icc_transform("cmyk")
PALETTE = Image.fromarray(RGB).quantize(64)
IN_MEMORY: dict[str, tuple[pyvips.Image, np.ndarray]] = {
    "16 bits": (deep(vips()), RGB),
    "floating point": (vips().colourspace("scrgb"), RGB),
    "Lab": (vips().colourspace("lab"), RGB),
    "CMYK of 16 bits": (deep(INKS, "cmyk"), RGB),
    "CMYK with a profile": (PRESS, PRESS.icc_transform("srgb", embedded=True, intent="perceptual").numpy()),
    "CMYK with alpha": (INKS.bandjoin(vips(RGBA[..., 3])).copy(interpretation="cmyk"), RGBA),
    "opaque alpha": (vips().bandjoin(255).copy(interpretation="srgb"), RGB),
    "alpha of 16 bits": (deep(vips(RGBA)), RGBA),
}
ORIGINALS = {name: (image.tiffsave_buffer(), expected) for name, (image, expected) in IN_MEMORY.items()} | {
    "CMYK": (tiff(Image.fromarray(RGB).convert("CMYK")), RGB),
    "grey of 16 bits": (tiff(Image.fromarray(GREY.astype(np.uint16) * 257)), np.dstack([GREY] * 3)),
    "palette": (tiff(PALETTE), np.asarray(PALETTE.convert("RGB"))),
    "fax (G4)": (tiff(Image.fromarray(RGB).convert("1"), compression="group4"), BIT),
    "rotated": (tiff(np.rot90(RGB).copy(), tiffinfo={274: 6}), RGB),
    "big endian": (pictures.tiff_with_metadata(RGB, order=">"), RGB),
    "several pages": (tiff(RGB, save_all=True, append_images=[Image.new("L", (50, 60))] * 2), RGB),
    "BigTIFF, LZW": (vips().tiffsave_buffer(bigtiff=True, compression="lzw", predictor="horizontal"), RGB),
    "JPEG compression, tiles, smaller copies": (
        vips().tiffsave_buffer(compression="jpeg", Q=95, tile=True, tile_width=64, tile_height=64, pyramid=True),
        RGB,
    ),
}


@pytest.mark.parametrize("name", ORIGINALS)
def test_a_tiff_becomes_a_jpeg_or_a_png_where_it_is_transparent(tmp_path: Path, name: str) -> None:
    data, expected = ORIGINALS[name]
    _, avif = results(tmp_path, data, expected, 12.0 if name == "fax (G4)" else 4.0)
    if name == "16 bits":
        assert probe(pictures.write(tmp_path, avif)).bits_per_sample == 10
    path = pictures.write(tmp_path, data)
    info = probe(path)
    assert (info.format, info.pages > 1) == (Format.TIFF, name in ("several pages", "big endian") or "copies" in name)
    small = thumbnail(path, info, 80, never_stop)
    assert (small.width_px, small.height_px) == (80, 60)


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_metadata_of_a_tiff_is_read_and_published_without_private_data(tmp_path: Path, order: str) -> None:
    path = pictures.write(tmp_path, pictures.tiff_with_metadata(order=order))
    info = probe(path)
    read = read_embedded(path, info)
    assert pictures.ALT_TEXT["en"] in {text.text for text in read.alt_text}
    assert (read.city, read.created, read.camera) == (pictures.PRESERVED["city"], "2031-05-06", "Examplecam")
    kinds = {Removed.GPS, Removed.IDENTIFIER, Removed.CAMERA, Removed.SOFTWARE}
    assert kinds <= set(private_kinds(path, info))
    for out in (
        encode_file(path, info, never_stop, size=info.scaled_within(100, None))[0],
        convert_file(path, info, Format.WEBP, never_stop, FAST),
    ):
        assert not [name for name, secret in pictures.SECRETS.items() if secret in out]
        xmp = read_blocks(out, detect(out)).xmp or b""
        for name in ("copyright", "creator", "credit", "alt text in a second language", "city", "keyword"):
            assert pictures.PRESERVED[name].encode() in xmp, name


@pytest.mark.parametrize("tag", [269, 285, 337], ids=["DocumentName", "PageName", "TargetPrinter"])
def test_a_text_of_a_tiff_that_is_not_published_is_reported_as_private_data(tmp_path: Path, tag: int) -> None:
    path = pictures.write(tmp_path, tiff(RGB, tiffinfo={tag: "draft for a client"}))
    assert private_kinds(path, probe(path)) == (Removed.OTHER,)


COMPRESSION, BITS, WIDTH_TAG = 259, 258, 256


def with_tag(tag: int, value: int) -> bytes:
    """A TIFF with another value of one of its tags."""
    data = bytearray(pictures.tiff_with_metadata(RGB))
    at = 8 + 2 + 12 * (256, 257, 258, 259, 262).index(tag)
    struct.pack_into("<HII", data, at + 2, 4, 1, value)
    return bytes(data)


def lab_of_8_bits() -> bytes:
    srgb, lab = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
    return tiff(ImageCms.profileToProfile(Image.fromarray(RGB), srgb, lab, outputMode="LAB"))


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (with_tag(BITS, 64), BadImage, r"expected grey, RGB, CMYK or Lab .* Save it again in RGB"),
        (lab_of_8_bits(), BadImage, r"expected grey, RGB, CMYK or Lab .* Save it again in RGB"),
        (with_tag(COMPRESSION, 50000), StageFailed, "Save it again with LZW"),
        (with_tag(WIDTH_TAG, 0), BrokenImage, "damaged"),
        (pictures.tiff_with_metadata(RGB)[:8] + b"\xff" * 40, BrokenImage, "damaged"),
        (pictures.tiff_with_metadata(RGB)[:-20_000], BrokenImage, "damaged"),
    ],
    ids=["64 bits", "Lab of 8 bits", "compression", "no width", "damaged", "truncated"],
)
def test_a_tiff_of_another_kind_or_damaged_is_refused(
    tmp_path: Path, data: bytes, error: type[Exception], message: str
) -> None:
    path = pictures.write(tmp_path, data)
    with pytest.raises(error, match=message):
        encode_file(path, probe(path), never_stop)


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
    with pytest.raises(UnsupportedImage, match="but got a camera raw file: export it as JPEG first"):
        probe(pictures.write(tmp_path, data))


# ---- JPEG XL ----


def jxl(pixels: np.ndarray = RGB, **options: object) -> bytes:
    """A JPEG XL with EXIF and XMP, unless other options are given."""
    encoded = bytes(libjxl().encode(pixels, lossless=True, **options))
    return encoded if options else container.with_blocks(encoded, Blocks(pictures.tiff(), pictures.xmp_packet()))


def of_jpeg(orientation: int = 1, **options: object) -> bytes:
    stored = pictures.oriented(Image.fromarray(RGB), orientation)
    return bytes(libjxl().jpeg_to_jxl(pictures.jpeg_with_metadata(stored, orientation, quality=95)))


ANIMATED_JXL = bytes.fromhex(
    "ff0a0f050348282e090012904c500050045de5120000152aa38c1bbc9cebf9f24387c5b48deb0c6db56d010000003c807f258922e3d8249dc021a4c0"
)
"""Three frames of 96 × 64 pixels, the header only."""
JXLS: dict[str, tuple[Callable[[], bytes], np.ndarray, int]] = {
    "8 bits": (jxl, RGB, 8),
    "alpha": (lambda: jxl(RGBA), RGBA, 8),
    "grey": (lambda: jxl(GREY[..., None].copy()), np.dstack([GREY] * 3), 8),
    "of a rotated JPEG": (lambda: of_jpeg(6), RGB, 8),
}


@pytest.mark.parametrize("name", JXLS)
def test_a_jpeg_xl_becomes_a_jpeg_or_a_png_where_it_is_transparent(tmp_path: Path, name: str) -> None:
    make, expected, bits = JXLS[name]
    data = make()
    info = probe(pictures.write(tmp_path, data))
    assert (info.format, info.bits_per_sample, info.display_size_px) == (Format.JXL, bits, (WIDTH, HEIGHT))
    for out in results(tmp_path, data, expected):
        assert not [secret for secret in pictures.SECRETS.values() if secret in out]
        assert pictures.ALT_TEXT["de"].encode() in (read_blocks(out, detect(out)).xmp or b"")


def test_private_data_of_the_jpeg_that_a_jpeg_xl_was_made_of_is_reported(tmp_path: Path) -> None:
    path = pictures.write(tmp_path, pictures.jpeg_with_metadata())
    in_jpeg = private_kinds(path, probe(path))
    path = pictures.write(tmp_path, of_jpeg())
    assert private_kinds(path, probe(path)) == in_jpeg


def test_an_animated_or_hdr_jpeg_xl_is_refused_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pictures.write(tmp_path, jxl(RGB, icc=pictures.wide_profile()))
    monkeypatch.setattr(other_decoders, "cicp_transfer", lambda profile: 16)
    with pytest.raises(UnsupportedImage, match="but got HDR"):
        encode_file(path, probe(path), never_stop, FAST)
    path.write_bytes(ANIMATED_JXL)
    with pytest.raises(UnsupportedImage, match="but got an animation"):
        probe(path)


def test_the_transfer_function_of_a_profile_is_read() -> None:
    tag = b"cicp" + (144).to_bytes(4, "big") + (12).to_bytes(4, "big") + b"cicp\0\0\0\0" + bytes((9, 16, 0, 1))
    assert other_decoders.cicp_transfer(bytes(131) + b"\1" + tag) == 16
    assert other_decoders.cicp_transfer(pictures.wide_profile()) is None


def test_a_jpeg_xl_in_a_wide_gamut_is_shown_in_srgb(tmp_path: Path) -> None:
    profile = pictures.wide_profile()
    image = vips().copy()
    image.set_type(pyvips.GValue.blob_type, "icc-profile-data", profile)
    expected = image.icc_transform("srgb", embedded=True, intent="perceptual").numpy()
    results(tmp_path, jxl(RGB, icc=profile), expected)


def test_a_jpeg_xl_is_refused_with_what_to_install_where_its_decoder_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "can_use_jxl", lambda: False)
    with pytest.raises(UnsupportedImage, match="pylibjxl is not installed"):
        probe(pictures.write(tmp_path, jxl()))


def test_a_jpeg_xl_that_ends_early_is_refused(tmp_path: Path) -> None:
    whole = jxl()
    for length in (12, 40, len(whole) // 2):
        path = pictures.write(tmp_path, whole[:length])
        with pytest.raises(BrokenImage):
            encode_file(path, probe(path), never_stop, FAST)


# ---- HEIC ----


def test_a_heic_is_refused_with_what_to_install_where_its_decoder_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pictures.write(tmp_path, pictures.as_heic(pictures.avif_with_metadata()))
    monkeypatch.setattr(formats, "can_decode_heic", lambda: False)
    with pytest.raises(UnsupportedImage, match=r"imgproc-local\[heic\]"):
        probe(path)
    with pytest.raises(UnsupportedImage, match="but got a HEIC"):
        probe(path, accepted=ACCEPTED_FORMATS[Operation.PROCESS])


def heic(
    pixels: np.ndarray = RGB, orientation: int = 1, *, thumbnails: tuple[int, ...] = (), **options: object
) -> bytes:
    """A HEIC with EXIF and XMP, unless other options are given."""
    pillow_heif = pytest.importorskip("pillow_heif", reason="needs imgproc-local[heic]")
    height, width, bands = pixels.shape
    mode = ("RGB" if bands == 3 else "RGBA") + (";16" if pixels.dtype == np.uint16 else "")
    pillow_heif.options.SAVE_HDR_TO_12_BIT = False
    picture = pillow_heif.from_bytes(mode, (width, height), pixels.tobytes())
    picture[0].info["thumbnails"] = list(thumbnails)
    out = io.BytesIO()
    options = options or {"exif": b"Exif\0\0" + pictures.tiff(orientation), "xmp": pictures.xmp_packet()}
    picture.save(out, quality=92, **options)
    return out.getvalue()


HEICS: dict[str, tuple[Callable[[], bytes], np.ndarray, int]] = {
    "8 bits": (heic, RGB, 8),
    "10 bits": (lambda: heic(RGB.astype(np.uint16) * 257), RGB, 10),
    "rotated": (lambda: heic(np.rot90(RGB).copy(), 6), RGB, 8),
    "alpha": (lambda: heic(RGBA), RGBA, 8),
    "odd size": (lambda: heic(RGB[:-1, :-1].copy()), RGB[:-1, :-1], 8),
}


@pytest.mark.parametrize("name", HEICS)
def test_a_heic_becomes_a_jpeg_or_a_png_where_it_is_transparent(tmp_path: Path, name: str) -> None:
    make, expected, bits = HEICS[name]
    data = make()
    info = probe(pictures.write(tmp_path, data))
    assert (info.format, info.bits_per_sample) == (Format.HEIC, bits)
    assert info.display_size_px == expected.shape[1::-1]
    outs = results(tmp_path, data, expected)
    assert probe(pictures.write(tmp_path, outs[1])).bits_per_sample == bits
    for out in outs:
        assert not [secret for secret in pictures.SECRETS.values() if secret in out]
        assert pictures.ALT_TEXT["de"].encode() in (read_blocks(out, detect(out)).xmp or b"")


def test_the_thumbnail_of_a_heic_is_reported_as_private_data(tmp_path: Path) -> None:
    for sizes in ((), (64,)):
        path = pictures.write(tmp_path, heic(np.zeros((256, 256, 3), np.uint8), thumbnails=sizes, exif=None))
        assert private_kinds(path, probe(path)) == ((Removed.THUMBNAIL,) if sizes else ())


@pytest.mark.parametrize("make", [tiff, heic], ids=["TIFF", "HEIC"])
def test_a_wide_gamut_is_preserved(tmp_path: Path, make: Callable[..., bytes]) -> None:
    profile = pictures.wide_profile()
    path = pictures.write(tmp_path, make(RGB, icc_profile=profile))
    out, _ = encode_file(path, probe(path), never_stop)
    assert read_blocks(out, Format.JPEG).icc == profile
