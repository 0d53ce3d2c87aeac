"""Conversion of pictures to WebP, and optimization of WebP files."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import pyvips
from PIL import Image, ImageOps

from imgproc_local.codecs.container import webp as container
from imgproc_local.codecs.optimize import optimize_file
from imgproc_local.codecs.picture.probe import probe
from imgproc_local.domain.errors import StageFailed, StageTimedOut
from tests.codecs import pictures
from tests.codecs.operations import to_webp
from tests.codecs.pictures import never_stop

MAX_PIXELS = 10**9


def optimized(folder: Path, data: bytes) -> bytes | None:
    path = pictures.write(folder, data)
    return optimize_file(path, probe(path, MAX_PIXELS), never_stop)


def converted(folder: Path, data: bytes) -> bytes:
    path = pictures.write(folder, data)
    return to_webp(path, probe(path, MAX_PIXELS), never_stop)


def frames_of(data: bytes) -> list[np.ndarray]:
    with Image.open(io.BytesIO(data)) as image:
        found = []
        for frame in range(image.n_frames):
            image.seek(frame)
            found.append(np.asarray(image.convert("RGBA")))
        return found


def test_a_high_quality_file_becomes_smaller_and_looks_the_same(tmp_path: Path) -> None:
    source = pictures.saved(pictures.photo(640, 480), "WEBP", quality=97)
    out = optimized(tmp_path, source)
    assert out is not None
    assert len(out) < 0.8 * len(source)
    assert pictures.distance(pictures.opened(out), pictures.photo(640, 480)) < 2
    assert optimized(tmp_path, out) is None


def test_a_lossless_file_remains_lossless(tmp_path: Path) -> None:
    picture = pictures.graphic(400, 300, alpha=True)
    source = pictures.saved(picture, "WEBP", lossless=True, quality=0, method=0, exact=True, exif=pictures.tiff())
    out = optimized(tmp_path, source)
    assert out is not None
    assert container.is_lossless(out)
    shown = np.asarray(pictures.opened(out).convert("RGBA"))
    visible = picture[..., 3] > 0
    assert np.array_equal(shown[visible], picture[visible])
    assert np.array_equal(shown[..., 3], picture[..., 3])


def test_only_metadata_is_removed_from_a_low_quality_file(tmp_path: Path) -> None:
    source = pictures.webp_with_metadata(quality=60)
    out = optimized(tmp_path, source)
    assert out is not None
    assert np.array_equal(np.asarray(pictures.opened(out)), np.asarray(pictures.opened(source)))


@pytest.mark.parametrize("quality", [50, 97])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_result_is_displayed_upright(tmp_path: Path, orientation: int, quality: int) -> None:
    scene = pictures.scene()
    stored = pictures.oriented(scene, orientation)
    out = optimized(tmp_path, pictures.webp_with_metadata(stored, orientation, quality=quality))
    assert out is not None
    shown = ImageOps.exif_transpose(pictures.opened(out))
    assert shown.size == (320, 240)
    assert pictures.distance(shown, scene) < 6
    for source in (pictures.jpeg_with_metadata(stored, orientation), pictures.png_with_metadata(stored, orientation)):
        out = converted(tmp_path, source)
        assert probe(pictures.write(tmp_path, out), MAX_PIXELS).orientation == 1
        assert pictures.distance(pictures.opened(out), scene) < 3


def test_a_graphic_is_converted_losslessly(tmp_path: Path) -> None:
    picture = np.full((200, 300, 3), 255, np.uint8)
    picture[::8, :] = (200, 0, 0)
    picture[:, ::12] = (0, 0, 160)
    out = converted(tmp_path, pictures.saved(picture, "PNG"))
    assert container.is_lossless(out)
    assert np.array_equal(np.asarray(pictures.opened(out).convert("RGB")), picture)


def test_transparency_is_preserved(tmp_path: Path) -> None:
    picture = pictures.graphic(alpha=True)
    out = pictures.opened(converted(tmp_path, pictures.saved(picture, "PNG")))
    assert np.abs(np.asarray(out)[..., 3].astype(int) - picture[..., 3]).max() <= 2


def test_a_wide_gamut_profile_is_preserved_and_an_srgb_profile_removed(tmp_path: Path) -> None:
    for file_format in ("JPEG", "PNG"):
        wide = pictures.saved(pictures.scene(), file_format, icc_profile=pictures.wide_profile())
        assert pictures.opened(converted(tmp_path, wide)).info["icc_profile"] == pictures.wide_profile()
        srgb = pictures.saved(pictures.scene(), file_format, icc_profile=pictures.srgb_profile())
        assert "icc_profile" not in pictures.opened(converted(tmp_path, srgb)).info
    wide = pictures.saved(
        pictures.scene(), "WEBP", quality=97, icc_profile=pictures.wide_profile(), exif=pictures.tiff()
    )
    out = optimized(tmp_path, wide)
    assert out is not None
    assert pictures.opened(out).info["icc_profile"] == pictures.wide_profile()


def test_a_grey_profile_is_applied_since_webp_has_no_grey(tmp_path: Path) -> None:
    grey = Image.fromarray(np.full((60, 80), 128, np.uint8))
    out = pictures.opened(converted(tmp_path, pictures.saved(grey, "PNG", icc_profile=pictures.wide_profile(b"GRAY"))))
    assert "icc_profile" not in out.info
    assert np.asarray(out.convert("RGB"))[30, 40].astype(int) == pytest.approx((128, 128, 128), abs=4)


def test_cmyk_is_converted_to_rgb(tmp_path: Path) -> None:
    cmyk = Image.new("CMYK", (320, 240), (0, 255, 255, 0))
    red = np.asarray(pictures.opened(converted(tmp_path, pictures.saved(cmyk, "JPEG"))).convert("RGB"))[100, 100]
    assert red[0] > 180
    assert max(red[1], red[2]) < 90


@pytest.mark.parametrize("interpretation", ["rgb16", "grey16"])
def test_sixteen_bits_are_rounded_to_eight(tmp_path: Path, interpretation: str) -> None:
    row = np.linspace(0, 65535, 256).astype(np.uint16)
    deep = np.repeat(np.tile(row, (64, 1))[..., None], 3 if interpretation == "rgb16" else 1, axis=2)
    source = pyvips.Image.new_from_array(deep, interpretation=interpretation).pngsave_buffer()
    shown = np.asarray(pictures.opened(converted(tmp_path, source)).convert("RGB"))[32, :, 0].astype(int)
    assert np.abs(shown - row // 257).mean() < 2


@pytest.mark.parametrize("file_format", ["GIF", "PNG"])
@pytest.mark.parametrize("loop", [0, 3])
def test_frames_delays_and_loop_count_of_an_animation_are_preserved(
    tmp_path: Path, file_format: str, loop: int
) -> None:
    delays = [100, 250, 300, 50]
    source = pictures.animated(file_format, delays, loop=loop)
    out = converted(tmp_path, source)
    plays = loop + 1 if file_format == "GIF" and loop else loop
    assert container.read_timing(out) == (delays, plays)
    for old, new in zip(frames_of(source), frames_of(out), strict=True):
        assert pictures.distance(Image.fromarray(old), Image.fromarray(new)) < 4


def test_optimizing_an_animated_webp_preserves_frames_delays_and_loop_count(tmp_path: Path) -> None:
    delays = [100, 250, 300, 50]
    for options in ({"lossless": True, "quality": 0, "method": 0}, {"quality": 100}):
        source = pictures.animated("WEBP", delays, loop=2, exif=pictures.tiff(), **options)
        out = optimized(tmp_path, source)
        assert out is not None
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


def test_an_animated_avif_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match="animated AVIF"):
        converted(tmp_path, pictures.animated("AVIF", [100] * 3))


def test_check_stop_ends_the_encoder(tmp_path: Path) -> None:
    for source in (pictures.saved(pictures.scene(1500, 1500), "JPEG"), pictures.animated("PNG", [100] * 30)):
        calls = 0

        def check_stop() -> None:
            nonlocal calls
            calls += 1
            if calls > 8:
                raise StageTimedOut("The deadline passed.")

        path = pictures.write(tmp_path, source)
        with pytest.raises(StageTimedOut):
            to_webp(path, probe(path, MAX_PIXELS), check_stop)
        assert calls < 60
