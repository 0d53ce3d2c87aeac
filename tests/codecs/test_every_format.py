"""What holds for optimizing and converting in every format: size, orientation, profile, cancellation, refusals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from imgproc_local.domain.errors import StageFailed, StageTimedOut
from tests.codecs import pictures
from tests.codecs.operations import CONVERT, converted, optimized, whole
from tests.support.reading import optimize_file, probe


@pytest.mark.parametrize(
    ("file_format", "quality", "max_share"), [("JPEG", 100, 0.7), ("WEBP", 97, 0.8), ("AVIF", 95, 0.8)]
)
def test_a_file_of_high_quality_becomes_much_smaller_and_looks_the_same(
    tmp_path: Path, file_format: str, quality: int, max_share: float
) -> None:
    photo = pictures.photo(640, 480)
    source = pictures.saved(photo, file_format, quality=quality)
    out = whole(optimized(tmp_path, source))
    assert len(out) < max_share * len(source)
    assert pictures.distance(pictures.opened(out), photo) < 2
    assert optimized(tmp_path, out) is None


def avif(picture: np.ndarray, orientation: int) -> bytes:
    return pictures.saved(picture, "AVIF", quality=97, exif=pictures.tiff(orientation))


STORED: dict[str, tuple[Callable[[np.ndarray, int], bytes], float]] = {
    "encoded JPEG": (partial(pictures.jpeg_with_metadata, quality=100), 2.5),
    "copied JPEG": (partial(pictures.jpeg_with_metadata, quality=30), 5),
    "PNG": (pictures.png_with_metadata, 0),
    "encoded WebP": (pictures.webp_with_metadata, 6),
    "copied WebP": (partial(pictures.webp_with_metadata, quality=50), 6),
    "AVIF": (avif, 3),
}
"""Functions that store a picture with an EXIF orientation, and the largest distance of what optimizing makes of it."""


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", STORED)
def test_an_optimized_picture_is_displayed_upright(tmp_path: Path, name: str, orientation: int) -> None:
    scene = pictures.scene()
    store, max_distance = STORED[name]
    out = whole(optimized(tmp_path, store(pictures.oriented(scene, orientation), orientation)))
    shown = ImageOps.exif_transpose(pictures.opened(out))
    assert shown.size == probe(pictures.write(tmp_path, out)).display_size_px == (320, 240)
    assert pictures.distance(shown, scene) <= max_distance


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_converted_picture_is_upright(tmp_path: Path, orientation: int) -> None:
    scene = pictures.photo()
    store = pictures.jpeg_with_metadata if orientation % 2 else pictures.png_with_metadata
    for target in CONVERT:
        out = converted(tmp_path, store(pictures.oriented(scene, orientation), orientation), target)
        assert probe(pictures.write(tmp_path, out)).orientation == 1
        assert pictures.distance(pictures.opened(out), scene) < 3


PROFILED: dict[str, Callable[..., bytes]] = {
    "JPEG": partial(pictures.saved, pictures.scene(160, 120), "JPEG", quality=95),
    "coarse JPEG": partial(pictures.saved, pictures.scene(160, 120), "JPEG", quality=60),
    "PNG": partial(pictures.saved, pictures.scene(160, 120), "PNG", compress_level=1),
    "graphic": partial(pictures.saved, pictures.graphic(160, 120), "PNG", compress_level=1),
    "WebP": partial(pictures.saved, pictures.scene(160, 120), "WEBP", quality=97, exif=pictures.tiff()),
}


@pytest.mark.parametrize("operation", ["optimize", *CONVERT])
@pytest.mark.parametrize("name", PROFILED)
def test_a_wide_gamut_profile_is_preserved_and_an_srgb_profile_removed(
    tmp_path: Path, name: str, operation: str
) -> None:
    for profile, expected in ((pictures.wide_profile(), pictures.wide_profile()), (pictures.srgb_profile(), None)):
        source = PROFILED[name](icc_profile=profile)
        out = whole(optimized(tmp_path, source)) if operation == "optimize" else converted(tmp_path, source, operation)
        assert pictures.opened(out).info.get("icc_profile") == expected


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "GIF"])
@pytest.mark.parametrize("operation", ["optimize", *CONVERT])
def test_check_stop_ends_every_encoder(tmp_path: Path, operation: str, file_format: str) -> None:
    calls = 0

    def check_stop() -> None:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise StageTimedOut("The deadline passed.")

    if file_format == "GIF":
        source = pictures.animated("GIF", [100] * 30)
    else:
        source = pictures.saved(pictures.scene(600, 600), file_format)
    path = pictures.write(tmp_path, source)
    run = optimize_file if operation == "optimize" else CONVERT[operation]
    with pytest.raises(StageTimedOut):
        run(path, probe(path), check_stop)
    assert calls < 60


@pytest.mark.parametrize("target", CONVERT)
def test_an_animated_avif_is_not_converted(tmp_path: Path, target: str) -> None:
    with pytest.raises(StageFailed, match="animated AVIF"):
        converted(tmp_path, pictures.animated("AVIF", [100] * 3), target)


@pytest.mark.parametrize("target", CONVERT)
def test_only_used_transparency_is_written(tmp_path: Path, target: str) -> None:
    """A fully transparent picture remains so, and an opaque alpha channel is dropped."""
    for side_px in (1, 8):
        clear = pictures.saved(Image.new("RGBA", (side_px, side_px)), "PNG")
        assert not np.asarray(pictures.opened(converted(tmp_path, clear, target)).convert("RGBA"))[..., 3].any()
    for mode in ("LA", "RGBA"):
        opaque = pictures.saved(Image.fromarray(pictures.graphic()).convert(mode), "PNG")
        assert not pictures.opened(converted(tmp_path, opaque, target)).has_transparency_data
