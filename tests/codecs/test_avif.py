"""Conversion to AVIF, of stills by libvips and of animations by libavif, and optimization of AVIF files."""

from __future__ import annotations

import struct
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import pyvips
from PIL import Image

from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import avif as container
from imgproc_local.domain.errors import BrokenImage, StageFailed
from imgproc_local.domain.image import CodedColours
from tests.codecs import operations, pictures
from tests.codecs.operations import CONVERT, delays_of, frames_of, optimized, whole
from tests.support.reading import probe

converted = partial(operations.converted, to="AVIF")


def test_sixteen_bits_are_converted_to_ten_and_eight_remain_eight(tmp_path: Path) -> None:
    row = np.linspace(0, 65535, 512).astype(np.uint16)
    deep = np.repeat(np.tile(row, (64, 1))[..., None], 3, axis=2)
    out = converted(tmp_path, pyvips.Image.new_from_array(deep, interpretation="rgb16").pngsave_buffer())
    assert probe(pictures.write(tmp_path, out)).bits_per_sample == 10
    shown = pyvips.Image.heifload_buffer(out)
    assert abs(shown[1].avg() - deep.mean()) < 300
    assert len(np.unique(shown[1].numpy())) > 256
    for file_format in ("PNG", "JPEG"):
        out = converted(tmp_path, pictures.saved(pictures.photo(), file_format))
        assert probe(pictures.write(tmp_path, out)).bits_per_sample == 8


def test_what_repeats_in_a_graphic_is_copied(tmp_path: Path) -> None:
    words = np.kron(np.random.default_rng(6).integers(0, 2, (16, 32)), np.ones((2, 2))).astype(np.uint8) * 255
    page = np.tile(words[..., None], (8, 5, 3))
    out = converted(tmp_path, pictures.saved(page, "PNG"))
    alone = converted(tmp_path, pictures.saved(page[:32, :64], "PNG"))
    assert len(out) < 8 * len(alone)


def test_colours_are_not_shifted(tmp_path: Path) -> None:
    photo = pictures.photo()
    shown = np.asarray(pictures.opened(converted(tmp_path, pictures.saved(photo, "PNG"), target=95)).convert("RGB"))
    assert np.abs((shown.astype(int) - photo).mean(axis=(0, 1))).max() < 0.3


def _durations(data: bytes) -> tuple[int, int]:
    """The duration of the track with all its repetitions, and that of one pass, in the same unit."""
    moov = container._find(data, container.Box(b"", 0, 0, len(data)), b"moov")
    assert moov is not None
    header = container._find(data, moov, b"trak", b"tkhd")
    edits = container._find(data, moov, b"trak", b"edts", b"elst")
    assert header is not None
    assert edits is not None
    assert data[header.body] == data[edits.body] == 1  # the version in which libavif writes both
    track, once = data[header.body + 28 :][:8], data[edits.body + 8 :][:8]
    return int.from_bytes(track, "big"), int.from_bytes(once, "big")


@pytest.mark.parametrize(("loop", "plays"), [(None, 1), (0, None), (2, 3)])
def test_the_number_of_plays_is_written_into_the_track(tmp_path: Path, loop: int | None, plays: int | None) -> None:
    made = pictures.frames(3)
    options = {} if loop is None else {"loop": loop}
    source = pictures.saved(made[0], "GIF", save_all=True, append_images=made[1:], duration=100, **options)
    track, once = _durations(converted(tmp_path, source))
    assert track == (plays * once if plays else 2**64 - 1)


def test_optimizing_an_animated_avif_removes_only_metadata(tmp_path: Path) -> None:
    source = pictures.animated("AVIF", [100, 250, 300], exif=pictures.tiff(), xmp=pictures.xmp_packet())
    out = whole(optimized(tmp_path, source))
    assert len(out) <= len(source)  # the frames are not moved
    assert pictures.GPS_RATIONAL not in out
    assert pictures.ALT_TEXT["de"].encode() in out
    assert probe(pictures.write(tmp_path, out)).frames == 3
    assert delays_of(out) == [100, 250, 300]
    for old, new in zip(frames_of(source), frames_of(out), strict=True):
        assert np.array_equal(old, new)


@pytest.mark.parametrize("numbers", [(1, 16), (12, 13), (9, 18)])
def test_pixels_are_unchanged_if_cicp_declares_a_wide_gamut(tmp_path: Path, numbers: tuple[int, int]) -> None:
    source = pictures.saved(pictures.photo(320, 240), "AVIF", quality=100, exif=pictures.tiff())
    assert len(optimized(tmp_path, source) or b"") < 0.5 * len(source)
    at = source.index(b"colrnclx") + 8
    wide = source[:at] + struct.pack(">HH", *numbers) + source[at + 4 :]
    out = whole(optimized(tmp_path, wide))
    assert container.coded_colours(out) == container.coded_colours(wide) == CodedColours(*numbers)
    assert np.array_equal(np.asarray(pictures.opened(out)), np.asarray(pictures.opened(wide)))


@pytest.mark.parametrize("target", CONVERT)
@pytest.mark.parametrize(("bits", "has_alpha"), [(8, False), (8, True), (10, False), (10, True)])
def test_an_avif_of_any_depth_is_converted_with_its_alpha(
    tmp_path: Path, target: str, bits: int, has_alpha: bool
) -> None:
    photo = pictures.photo(320, 240)
    if has_alpha:
        photo = np.dstack([photo, np.tile(np.arange(240, dtype=np.uint8)[:, None], (1, 320))])
    image = (pyvips.Image.new_from_array(photo, interpretation="srgb").cast("ushort") * 257).cast("ushort")
    source = image.copy(interpretation="rgb16").heifsave_buffer(compression="av1", bitdepth=bits, Q=90)
    assert probe(pictures.write(tmp_path, source)).bits_per_sample == bits
    out = operations.converted(tmp_path, source, target)
    shown = np.asarray(pictures.opened(out).convert("RGBA" if has_alpha else "RGB"))
    assert pictures.distance(Image.fromarray(shown[..., :3]), photo[..., :3]) < 3
    if has_alpha:
        assert np.abs(shown[..., 3].astype(int) - photo[..., 3]).max() <= 16


@pytest.mark.parametrize("size", [1, 14, 200, 5000])
def test_metadata_blocks_of_any_length_can_be_replaced(size: int) -> None:
    source = pictures.avif_with_metadata()
    empty = b"II*\0\x08\0\0\0" + b"\0" * 6
    new = Blocks(exif=empty + b"x" * size, xmp=b"<x/>  " + b" " * size)
    out = container.with_blocks(source, new)
    read = container.read_blocks(out)
    assert ((read.xmp or b"").rstrip(), (read.exif or b"").rstrip(b"\0")) == (b"<x/>", empty + b"x" * size)
    assert np.array_equal(np.asarray(pictures.opened(out)), np.asarray(pictures.opened(source)))
    assert pyvips.Image.heifload_buffer(out).width == 320


def test_texts_are_not_written_into_an_avif_whose_offsets_have_no_room_to_grow() -> None:
    whole = pictures.saved(pictures.scene(), "AVIF")
    position, size = container.picture_items(whole)[0].extents[0].offset_field
    damaged = whole[:position] + b"\xff" * size + whole[position + size :]
    with pytest.raises(BrokenImage, match="no room for"):
        container.with_xmp(damaged, b"<a>" + bytes(10_000) + b"</a>")


def test_texts_are_not_written_into_an_avif_whose_references_have_no_room_for_its_picture() -> None:
    tables = [
        container.box_bytes(b"pitm", struct.pack(">II", 1 << 24, 70_000)),
        container.box_bytes(b"iinf", bytes(6)),
        container.box_bytes(b"iloc", struct.pack(">IBBH", 0, 0x44, 0, 0)),
        container.box_bytes(b"iref", bytes(4)),
    ]
    with pytest.raises(StageFailed, match="can't hold a further item"):
        container.with_xmp(container.box_bytes(b"meta", bytes(4) + b"".join(tables)), b"<a/>")
