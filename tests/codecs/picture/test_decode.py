"""The sample that describers receive: upright, in sRGB, over white, and of a complete picture."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import pyvips
from PIL import Image

from imgproc_local.codecs.picture import decode
from imgproc_local.domain.errors import StageCancelled, StageTimedOut
from imgproc_local.domain.image import Pixels
from tests.codecs import pictures
from tests.codecs.pictures import never_stop
from tests.support.reading import probe

MAX_PIXELS = 10**9


def sampled(folder: Path, data: bytes, side: int = 4096) -> Pixels:
    path = pictures.write(folder, data)
    return decode.thumbnail(path, probe(path, MAX_PIXELS), side, never_stop)


def as_array(pixels: Pixels) -> np.ndarray:
    assert len(pixels.rgb) == pixels.width_px * pixels.height_px * 3
    return np.frombuffer(pixels.rgb, np.uint8).reshape(pixels.height_px, pixels.width_px, 3)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_sample_is_upright(tmp_path: Path, orientation: int) -> None:
    scene = pictures.scene()
    stored = pictures.oriented(scene, orientation)
    for data in (
        pictures.jpeg_with_metadata(stored, orientation),
        pictures.png_with_metadata(stored, orientation),
        pictures.webp_with_metadata(stored, orientation),
        pictures.saved(stored, "AVIF", quality=95, exif=pictures.tiff(orientation)),
    ):
        assert pictures.distance(as_array(sampled(tmp_path, data)), scene) < 2


@pytest.mark.parametrize("side", [1, 7, 64, 100, 160, 239, 320, 1000])
@pytest.mark.parametrize("size", [(320, 240), (2000, 3), (3, 2000)])
def test_a_sample_fits_the_side_and_is_never_scaled_up(tmp_path: Path, side: int, size: tuple[int, int]) -> None:
    for data in (pictures.saved(pictures.scene(*size), "JPEG"), pictures.saved(pictures.scene(*size), "PNG")):
        found = sampled(tmp_path, data, side)
        assert max(found.width_px, found.height_px) == min(side, max(size))
        assert min(found.width_px, found.height_px) >= 1
        assert len(found.rgb) == found.width_px * found.height_px * 3


def test_a_scaled_sample_looks_like_the_picture(tmp_path: Path) -> None:
    scene = pictures.scene(800, 600)
    small = np.asarray(Image.fromarray(scene).resize((100, 75), Image.Resampling.BOX))
    for file_format in ("JPEG", "PNG", "WEBP", "AVIF"):
        found = sampled(tmp_path, pictures.saved(scene, file_format, quality=95), 100)
        assert pictures.distance(as_array(found), small) < 2


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_a_png_of_every_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    found = sampled(tmp_path, pictures.saved(Image.new(mode, (40, 30)), "PNG"))
    assert (found.width_px, found.height_px, len(found.rgb)) == (40, 30, 40 * 30 * 3)


def test_transparent_pixels_become_white_and_the_mean_alpha_is_reported(tmp_path: Path) -> None:
    rgba = np.zeros((40, 80, 4), np.uint8)
    rgba[:, :20] = (255, 0, 0, 255)
    for file_format in ("PNG", "WEBP"):
        found = sampled(tmp_path, pictures.saved(rgba, file_format, lossless=True))
        assert found.alpha_mean == pytest.approx(0.25, abs=0.01)
        assert tuple(as_array(found)[20, 60]) == (255, 255, 255)
        assert tuple(as_array(found)[20, 5]) == (255, 0, 0)
    assert sampled(tmp_path, pictures.jpeg_with_metadata()).alpha_mean == 1.0


def test_colours_of_invisible_pixels_do_not_bleed_into_a_smaller_sample(tmp_path: Path) -> None:
    rgba = np.zeros((400, 400, 4), np.uint8)
    rgba[..., 1] = 255
    rgba[::2] = (255, 0, 0, 255)
    found = as_array(sampled(tmp_path, pictures.saved(rgba, "PNG"), 50))
    # half red, half white
    assert found[25, 25].astype(int) == pytest.approx((255, 127, 127), abs=6)


def test_a_broken_profile_is_ignored(tmp_path: Path) -> None:
    profile = pictures.wide_profile()[:150]
    found = as_array(sampled(tmp_path, pictures.saved(pictures.scene(), "JPEG", quality=95, icc_profile=profile)))
    assert pictures.distance(found, pictures.scene()) < 2


def test_the_sample_of_an_animation_is_its_first_frame(tmp_path: Path) -> None:
    first = np.asarray(pictures.frames(3)[0])
    for file_format in ("GIF", "WEBP", "PNG", "AVIF"):
        options = {"lossless": True} if file_format == "WEBP" else {}
        found = sampled(tmp_path, pictures.animated(file_format, [100] * 3, **options))
        assert pictures.distance(as_array(found), first) < 2, file_format


@pytest.mark.parametrize("stop", [StageTimedOut("The deadline passed."), StageCancelled("The job was cancelled.")])
def test_an_error_of_check_stop_is_raised(tmp_path: Path, stop: Exception) -> None:
    calls = 0

    def check_stop() -> None:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise stop

    path = pictures.write(tmp_path, pictures.saved(pictures.scene(1500, 1500), "PNG"))
    with pytest.raises(type(stop)) as stopped:
        decode.thumbnail(path, probe(path, MAX_PIXELS), 1024, check_stop)
    assert stopped.value is stop
    assert calls < 40


def test_brackets_in_a_file_name_are_not_options_of_libvips(tmp_path: Path) -> None:
    path = pictures.write(tmp_path, pictures.jpeg_with_metadata(), "boat[n=-1].jpg")
    assert decode.thumbnail(path, probe(path, MAX_PIXELS), 64, never_stop).width_px == 64


def test_a_stopped_encoder_stops_reading_its_source(tmp_path: Path) -> None:
    data = io.BytesIO(pictures.saved(pictures.scene(2000, 2000), "PNG", compress_level=1))
    source = pyvips.SourceCustom()
    source.on_read(data.read)
    image = pyvips.Image.new_from_source(source, "", access="sequential")

    def check_stop() -> None:
        if data.tell() > len(data.getbuffer()) // 4:
            raise StageCancelled("The job was cancelled.")

    with pytest.raises(StageCancelled):
        decode.evaluate(image, check_stop, "webpsave_buffer")
    assert data.tell() < len(data.getbuffer()) * 3 // 4
