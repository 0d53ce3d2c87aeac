"""Conversion to AVIF, of stills by libvips and of animations by libavif, and optimization of AVIF files."""

from __future__ import annotations

import struct
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import pyvips

from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import avif as container
from imgproc_local.domain.errors import BrokenImage
from tests.codecs import operations, pictures
from tests.codecs.operations import delays_of, frames_of, optimized, whole
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
    assert container.colour_description(out) == container.colour_description(wide) == numbers
    assert np.array_equal(np.asarray(pictures.opened(out)), np.asarray(pictures.opened(wide)))


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
