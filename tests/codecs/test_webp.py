"""Conversion of pictures to WebP, and optimization of WebP files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import pyvips
from PIL import Image

from imgproc_local.codecs.container import webp as container
from tests.codecs import operations, pictures
from tests.codecs.operations import frames_of, optimized, whole

converted = partial(operations.converted, to="WEBP")


def test_a_lossless_file_remains_lossless(tmp_path: Path) -> None:
    picture = pictures.graphic(400, 300, alpha=True)
    source = pictures.saved(picture, "WEBP", lossless=True, quality=0, method=0, exact=True, exif=pictures.tiff())
    out = whole(optimized(tmp_path, source))
    assert container.is_lossless(out)
    shown = np.asarray(pictures.opened(out).convert("RGBA"))
    visible = picture[..., 3] > 0
    assert np.array_equal(shown[visible], picture[visible])
    assert np.array_equal(shown[..., 3], picture[..., 3])


def test_a_graphic_is_converted_losslessly(tmp_path: Path) -> None:
    picture = np.full((200, 300, 3), 255, np.uint8)
    picture[::8, :] = (200, 0, 0)
    picture[:, ::12] = (0, 0, 160)
    out = converted(tmp_path, pictures.saved(picture, "PNG"))
    assert container.is_lossless(out)
    assert np.array_equal(np.asarray(pictures.opened(out).convert("RGB")), picture)


def test_a_grey_profile_is_applied_since_webp_has_no_grey(tmp_path: Path) -> None:
    grey = Image.fromarray(np.full((60, 80), 128, np.uint8))
    out = pictures.opened(converted(tmp_path, pictures.saved(grey, "PNG", icc_profile=pictures.wide_profile(b"GRAY"))))
    assert "icc_profile" not in out.info
    assert np.asarray(out.convert("RGB"))[30, 40].astype(int) == pytest.approx((128, 128, 128), abs=4)


@pytest.mark.parametrize("interpretation", ["rgb16", "grey16"])
def test_sixteen_bits_are_rounded_to_eight(tmp_path: Path, interpretation: str) -> None:
    row = np.linspace(0, 65535, 256).astype(np.uint16)
    deep = np.repeat(np.tile(row, (64, 1))[..., None], 3 if interpretation == "rgb16" else 1, axis=2)
    source = pyvips.Image.new_from_array(deep, interpretation=interpretation).pngsave_buffer()
    shown = np.asarray(pictures.opened(converted(tmp_path, source)).convert("RGB"))[32, :, 0].astype(int)
    assert np.abs(shown - row // 257).mean() < 2


def test_optimizing_an_animated_webp_preserves_frames_delays_and_loop_count(tmp_path: Path) -> None:
    delays = [100, 250, 300, 50]
    for options in ({"lossless": True, "quality": 0, "method": 0}, {"quality": 100}):
        source = pictures.animated("WEBP", delays, loop=2, exif=pictures.tiff(), **options)
        out = whole(optimized(tmp_path, source))
        assert len(out) < len(source)
        assert container.read_timing(out) == (delays, 2)
        for old, new in zip(frames_of(source), frames_of(out), strict=True):
            assert pictures.distance(Image.fromarray(old), Image.fromarray(new)) < 3


def test_the_default_image_of_an_apng_that_is_not_a_frame_is_dropped(tmp_path: Path) -> None:
    made = pictures.frames(4)
    options = {"save_all": True, "default_image": True, "append_images": made[1:], "duration": [100, 200, 300]}
    source = pictures.saved(made[0], "PNG", **options)
    out = converted(tmp_path, source)
    assert container.read_timing(out)[0] == [100, 200, 300]
    assert pictures.distance(Image.fromarray(frames_of(out)[0]), made[1]) < 4
