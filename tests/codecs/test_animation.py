"""Animations converted to another format: frames, delays, plays and orientation as browsers show them."""

from __future__ import annotations

import io
import struct
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
import pyvips
from PIL import Image, ImageOps

from imgproc_local.codecs.container import gif as gif_container
from imgproc_local.codecs.container import png as png_container
from imgproc_local.codecs.container import webp as container
from tests.codecs import operations, pictures
from tests.codecs.operations import CONVERT, converted, delays_of, optimized

WIDTH, HEIGHT = 64, 48
WHOLE = (0, 0, WIDTH, HEIGHT)


def frames_of(data: bytes) -> list[np.ndarray]:
    """The frames with premultiplied colours, so that the colours of transparent pixels are equal."""
    return [premultiplied(frame) for frame in operations.frames_of(data)]


def premultiplied(frame: np.ndarray) -> np.ndarray:
    alpha = frame[..., 3:].astype(float)
    return np.concatenate([frame[..., :3] * alpha / 255, alpha], axis=-1)


def gif_frame(index: int, place: tuple[int, int, int, int], disposal: int, delay: int) -> bytes:
    """A frame of one colour with a corner in palette entry 3, which is transparent except in full-size frames."""
    left, top, width, height = place
    pixels = np.full((height, width), index)
    pixels[: height // 3, : width // 3] = 3
    # a clear code after every two pixels keeps the LZW table small, so that every code has three bits
    codes = [code for pair in zip(pixels.ravel()[::2], pixels.ravel()[1::2], strict=True) for code in (4, *pair)] + [5]
    bits = sum(int(code) << 3 * number for number, code in enumerate(codes))
    coded = bits.to_bytes(-(-3 * len(codes) // 8), "little")
    blocks = b"".join(bytes((len(coded[at : at + 255]),)) + coded[at : at + 255] for at in range(0, len(coded), 255))
    control = b"\x21\xf9\x04" + bytes((disposal << 2 | (place != WHOLE),)) + struct.pack("<HBB", delay, 3, 0)
    return control + b"\x2c" + struct.pack("<HHHHB", left, top, width, height, 0) + b"\x02" + blocks + b"\0"


def gif(*frames: tuple[int, tuple[int, int, int, int], int, int]) -> bytes:
    palette = bytes((200, 40, 30, 30, 160, 60, 40, 60, 210, 0, 0, 0))
    head = b"GIF89a" + struct.pack("<HHBBB", WIDTH, HEIGHT, 0xF1, 0, 0) + palette
    return head + b"\x21\xff\x0bNETSCAPE2.0\x03\x01\2\0\0" + b"".join(gif_frame(*frame) for frame in frames) + b"\x3b"


@pytest.mark.parametrize("target", CONVERT)
@pytest.mark.parametrize(("file_format", "loop"), [("GIF", 3), ("GIF", 0), ("PNG", 3), ("WEBP", 2)])
def test_frames_delays_and_plays_are_preserved(tmp_path: Path, file_format: str, loop: int, target: str) -> None:
    delays = [100, 250, 300, 50]
    lossless = {"lossless": True} if file_format == "WEBP" else {}
    source = pictures.animated(file_format, delays, loop=loop, **lossless)
    out = converted(tmp_path, source, target)
    assert delays_of(out) == delays
    if target == "WEBP":  # of an AVIF, tests/codecs/test_avif.py reads the plays
        assert container.read_timing(out)[1] == (loop + 1 if file_format == "GIF" and loop else loop)
    for old, new in zip(frames_of(source), frames_of(out), strict=True):
        assert np.abs(old - new).mean() < 5


@pytest.mark.parametrize("target", CONVERT)
@pytest.mark.parametrize("disposal", [0, 1, 2, 3])
def test_frames_of_a_gif_are_disposed_as_in_browsers(tmp_path: Path, target: str, disposal: int) -> None:
    source = gif(
        (0, WHOLE, disposal, 10),
        (1, (6, 4, 30, 20), 3, 10),
        (2, (20, 10, 32, 24), disposal, 10),
        (1, (2, 20, 16, 16), 2, 10),
        (0, (40, 2, 16, 40), 1, 10),
    )
    strip = pyvips.Image.gifload_buffer(source, n=-1).numpy().reshape(5, HEIGHT, WIDTH, 4)
    frames = frames_of(converted(tmp_path, source, target))
    for old, new in zip(strip, frames, strict=True):
        assert np.abs(premultiplied(old) - new).mean() < 5


def test_an_avif_has_no_alpha_where_all_composed_frames_are_opaque(tmp_path: Path) -> None:
    source = gif((0, WHOLE, 1, 10), (1, (6, 4, 30, 20), 1, 10), (2, (20, 10, 32, 24), 1, 10))
    assert pyvips.Image.gifload_buffer(source, n=-1).hasalpha()
    with Image.open(io.BytesIO(converted(tmp_path, source, "AVIF"))) as image:
        assert not image.has_transparency_data


def apng(
    frames: list[tuple[np.ndarray, int, int, int, int]], *, plays: int = 0, delay: tuple[int, int] = (1, 10)
) -> bytes:
    """Frames as grey, RGB or RGBA pixels, left, top, disposal and blend."""

    def packed(pixels: np.ndarray) -> bytes:
        return zlib.compress(b"".join(b"\0" + row.tobytes() for row in pixels))

    first = frames[0][0]
    bits, colour = 8 * first.itemsize, {1: 0, 3: 2, 4: 6}[first.shape[2]]
    out = pictures.chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, bits, colour, 0, 0, 0))
    out += pictures.chunk(b"acTL", struct.pack(">II", len(frames), plays))
    sequence = 0
    for number, (pixels, left, top, disposal, blend) in enumerate(frames):
        height, width = pixels.shape[:2]
        control = struct.pack(">IIIIIHHBB", sequence, width, height, left, top, *delay, disposal, blend)
        out += pictures.chunk(b"fcTL", control)
        sequence += 1
        if number == 0:
            out += pictures.chunk(b"IDAT", packed(pixels))
        else:
            out += pictures.chunk(b"fdAT", struct.pack(">I", sequence) + packed(pixels))
            sequence += 1
    return png_container.SIGNATURE + out + pictures.chunk(b"IEND", b"")


def plain(colour: tuple[int, int, int, int], width: int = WIDTH, height: int = HEIGHT) -> np.ndarray:
    return np.broadcast_to(np.array(colour, np.uint8), (height, width, 4)).copy()


@pytest.mark.parametrize("target", CONVERT)
def test_half_transparent_frames_of_an_apng_are_blended_with_the_canvas(tmp_path: Path, target: str) -> None:
    blend_over, blend_source = 1, 0
    dispose_none, dispose_background, dispose_previous = 0, 1, 2
    red, veil = (200, 40, 40, 255), (20, 20, 220, 128)
    source = apng(
        [
            (plain(red), 0, 0, dispose_none, blend_source),
            (plain(veil, 32, 24), 0, 0, dispose_previous, blend_over),
            (plain(veil, 32, 24), 32, 24, dispose_background, blend_over),
            (plain(veil, 16, 16), 40, 4, dispose_none, blend_source),
        ]
    )
    mixed = (110, 30, 130, 255)
    first, second, third, fourth = (plain(red) for _ in range(4))
    second[:24, :32] = mixed
    third[24:, 32:] = mixed
    fourth[24:, 32:] = 0
    fourth[4:20, 40:56] = veil
    frames = frames_of(converted(tmp_path, source, target))
    for expected, frame in zip((first, second, third, fourth), frames, strict=True):
        assert np.abs(premultiplied(expected) - frame).mean() < 4


@pytest.mark.parametrize("target", CONVERT)
def test_areas_that_frames_of_an_apng_leave_empty_are_transparent(tmp_path: Path, target: str) -> None:
    dispose_background = 1
    red, blue = (plain((*colour, 255))[..., :3] for colour in ((200, 40, 40), (40, 60, 210)))
    frames = frames_of(
        converted(tmp_path, apng([(red, 0, 0, dispose_background, 0), (blue[:24, :32], 0, 0, 0, 0)]), target)
    )
    assert frames[0][..., 3].min() > 250
    assert frames[1][:20, :28, 3].min() > 250
    assert frames[1][28:, 36:, 3].max() < 5


@pytest.mark.parametrize("target", CONVERT)
def test_sixteen_bit_grey_in_an_apng_has_the_right_brightness(tmp_path: Path, target: str) -> None:
    greys = [np.full((HEIGHT, WIDTH, 1), level, ">u2") for level in (0x6000, 0x3000)]
    frames = frames_of(converted(tmp_path, apng([(grey, 0, 0, 0, 0) for grey in greys]), target))
    for frame, expected in zip(frames, (0x60, 0x30), strict=True):
        assert np.abs(frame[..., :3] - expected).mean() < 6


def test_an_apng_with_a_frame_outside_its_canvas_is_refused(tmp_path: Path) -> None:
    source = apng([(plain((9, 9, 9, 255)), 0, 0, 0, 0), (plain((0, 0, 0, 255), 20, 20), 60, 0, 0, 0)])
    with pytest.raises(Exception, match="damaged"):
        converted(tmp_path, source, "WEBP")


@pytest.mark.parametrize("disposal", [1, 2])
def test_identical_frames_have_their_own_delays_in_a_webp(tmp_path: Path, disposal: int) -> None:
    moves = [(0, WHOLE), (0, WHOLE), (1, (6, 4, 30, 20)), (1, (6, 4, 30, 20)), (1, (6, 4, 30, 20)), (2, WHOLE)]
    delays = [10, 30, 0, 1, 7, 500]
    source = gif(*((index, place, disposal, delay) for (index, place), delay in zip(moves, delays, strict=True)))
    out = converted(tmp_path, source, "WEBP")
    assert container.read_timing(out) == gif_container.read_timing(source) == ([100, 300, 100, 100, 70, 5000], 3)
    strip = pyvips.Image.gifload_buffer(source, n=-1).numpy().reshape(6, HEIGHT, WIDTH, 4)
    for old, new in zip(strip, frames_of(out), strict=True):
        assert np.abs(premultiplied(old) - new).mean() < 5


def test_optimizing_a_lossless_webp_preserves_identical_frames(tmp_path: Path) -> None:
    source = gif(*((number // 3, WHOLE, 1, 10 + number) for number in range(9)))
    strip = pyvips.Image.gifload_buffer(source, n=-1)
    wasteful = strip.webpsave_buffer(lossless=True, effort=0)
    wasteful = container.with_merged_frames_restored(wasteful, gif_container.read_timing(source)[0], has_alpha=True)
    out = optimized(tmp_path, wasteful + b"\0" * (len(wasteful) % 2)) or wasteful
    assert container.read_timing(out) == container.read_timing(wasteful)
    assert len(container.read_timing(out)[0]) == 9


@pytest.mark.parametrize("target", CONVERT)
@pytest.mark.parametrize("source_format", ["PNG", "WEBP"])
@pytest.mark.parametrize("orientation", [3, 5, 6])
def test_an_animation_is_upright(tmp_path: Path, source_format: str, target: str, orientation: int) -> None:
    upright = [pictures.photo(64, 48), np.ascontiguousarray(pictures.photo(64, 48)[:, ::-1])]
    stored = [Image.fromarray(pictures.oriented(frame, orientation)) for frame in upright]
    options = {"save_all": True, "append_images": stored[1:], "duration": [100, 200]}
    source = pictures.saved(stored[0], source_format, exif=pictures.tiff(orientation, full=False), **options)
    with Image.open(io.BytesIO(converted(tmp_path, source, target))) as image:
        for number, frame in enumerate(upright):
            image.seek(number)
            turned = ImageOps.exif_transpose(image)
            assert turned.size == (64, 48)
            assert pictures.distance(turned, frame) < 8


def test_delays_and_plays_are_limited_to_what_a_webp_stores(tmp_path: Path) -> None:
    frames = [(plain((200, 40, 40, 255)), 0, 0, 0, 0), (plain((40, 40, 200, 255)), 0, 0, 0, 0)]
    source = apng(frames, plays=70_000, delay=(65535, 1))
    assert container.read_timing(converted(tmp_path, source, "WEBP")) == ([2**24 - 1] * 2, 65535)
    assert delays_of(converted(tmp_path, source, "AVIF")) == [65_535_000] * 2


@pytest.mark.parametrize(("plays", "stored"), [(0, 0), (1, 1), (3, 3), (65_535, 65_535), (65_536, 65_535)])
def test_a_gif_played_a_finite_number_of_times_is_finite_as_webp(tmp_path: Path, plays: int, stored: int) -> None:
    loop = {} if plays == 1 else {"loop": max(0, plays - 1)}
    pages = pictures.frames(3)
    source = pictures.saved(pages[0], "GIF", save_all=True, append_images=pages[1:], duration=100, **loop)
    assert gif_container.read_timing(source)[1] == plays
    assert container.read_timing(converted(tmp_path, source, "WEBP"))[1] == stored


@pytest.mark.parametrize("target", CONVERT)
def test_an_animation_has_the_same_bytes_at_another_time(tmp_path: Path, target: str) -> None:
    source = gif((0, WHOLE, 1, 10), (1, (6, 4, 30, 20), 1, 10))
    first = converted(tmp_path, source, target)
    time.sleep(1.1)  # libavif writes the second
    assert converted(tmp_path, source, target) == first
