"""AVIF's alpha: its error is bounded for any shape and size, and optimizing does not change it."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import pyvips
from PIL import Image, ImageDraw, ImageOps

from imgproc_local.codecs.avif import MAX_ALPHA_ERROR
from imgproc_local.codecs.container import avif as container
from tests.codecs import operations, pictures
from tests.codecs.operations import frames_of, optimized

converted = partial(operations.converted, to="AVIF")

WIDTH, HEIGHT = 320, 240


def hair() -> np.ndarray:
    """Fine lines of several strengths around a shape, drawn large and scaled down so that they have soft edges."""
    random = np.random.default_rng(3)
    large = Image.new("L", (4 * WIDTH, 4 * HEIGHT))
    draw = ImageDraw.Draw(large)
    draw.ellipse((400, 240, 880, 720), fill=255)
    for angle in random.uniform(0, 2 * np.pi, 150):
        start = np.array([640 + 240 * np.cos(angle), 480 + 240 * np.sin(angle)])
        end = start + random.uniform(40, 200) * np.array([np.cos(angle), np.sin(angle)])
        draw.line((*start, *end), fill=int(random.integers(90, 256)), width=int(random.integers(2, 9)))
    return np.asarray(large.resize((WIDTH, HEIGHT), Image.Resampling.BOX))


def one_pixel() -> np.ndarray:
    alpha = np.zeros((HEIGHT, WIDTH), np.uint8)
    alpha[100, 150] = 255
    return alpha


def checks() -> np.ndarray:
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    return (255 * ((x // 5 + y // 7) % 2)).astype(np.uint8)


ALPHAS: dict[str, Callable[[], np.ndarray]] = {
    "gradient": lambda: np.tile(np.linspace(0, 255, WIDTH).astype(np.uint8), (HEIGHT, 1)),
    "hair": hair,
    "noise": lambda: np.random.default_rng(4).integers(0, 256, (HEIGHT, WIDTH)).astype(np.uint8),
    "one opaque pixel": one_pixel,
    "one transparent pixel": lambda: 255 - one_pixel(),
    "checks": checks,
}


def alpha_of(data: bytes) -> np.ndarray:
    return np.asarray(pictures.opened(data).convert("RGBA").getchannel("A")).astype(int)


def with_alpha(alpha: np.ndarray) -> np.ndarray:
    return np.dstack([pictures.photo(alpha.shape[1], alpha.shape[0]), alpha])


@pytest.mark.parametrize("colours", [pictures.photo, pictures.graphic])
@pytest.mark.parametrize("name", ALPHAS)
def test_the_error_of_alpha_is_within_the_bound(tmp_path: Path, name: str, colours: Callable[[], np.ndarray]) -> None:
    alpha = ALPHAS[name]()
    out = converted(tmp_path, pictures.saved(np.dstack([colours(), alpha]), "PNG"))
    assert np.abs(alpha_of(out) - alpha).max() <= MAX_ALPHA_ERROR
    by_libvips = pyvips.Image.heifload_buffer(out)
    assert np.abs(by_libvips[3].numpy().astype(int) - alpha).max() <= MAX_ALPHA_ERROR + 1


def test_alpha_of_any_size_and_of_sixteen_bits_is_within_the_bound(tmp_path: Path) -> None:
    for size in ((1, 1), (2, 3), (17, 9), (331, 245)):
        picture = np.random.default_rng(5).integers(0, 256, (size[1], size[0], 4)).astype(np.uint8)
        out = converted(tmp_path, pictures.saved(picture, "PNG"))
        assert np.abs(alpha_of(out) - picture[..., 3]).max() <= MAX_ALPHA_ERROR
    deep = with_alpha(hair()).astype(np.uint16) * 257
    for space, samples in (("rgb16", deep), ("grey16", deep[..., 2:])):
        out = converted(tmp_path, pyvips.Image.new_from_array(samples, interpretation=space).pngsave_buffer())
        assert np.abs(alpha_of(out) - hair()).max() <= MAX_ALPHA_ERROR


@pytest.mark.parametrize("turned", [False, True])
def test_optimizing_makes_a_file_smaller_and_does_not_change_its_alpha(tmp_path: Path, *, turned: bool) -> None:
    source = pictures.saved(with_alpha(hair()), "AVIF", quality=100, exif=pictures.tiff(6 if turned else 1))
    out = optimized(tmp_path, source)
    assert out is not None
    assert len(out) < 0.85 * len(source)
    assert pictures.GPS_RATIONAL not in out
    upright = alpha_of(source) if not turned else np.asarray(ImageOps.exif_transpose(pictures.opened(source)))[..., 3]
    assert np.array_equal(alpha_of(out), upright)
    assert optimized(tmp_path, out) is None


def test_metadata_and_profile_are_written_beside_the_alpha(tmp_path: Path) -> None:
    picture = Image.fromarray(with_alpha(hair()))
    source = pictures.saved(picture, "PNG", exif=pictures.tiff(), icc_profile=pictures.wide_profile())
    out = converted(tmp_path, source)
    with Image.open(io.BytesIO(out)) as shown:
        assert shown.info["icc_profile"] == pictures.wide_profile()
    assert pictures.COPYRIGHT.encode() in (container.read_blocks(out).exif or b"")
    for name, secret in pictures.SECRETS.items():
        assert secret not in out, name


@pytest.mark.parametrize("name", ALPHAS)
def test_alpha_of_an_animation_is_within_the_bound(tmp_path: Path, name: str) -> None:
    moved = [np.roll(ALPHAS[name](), 23 * number, axis=1) for number in range(3)]
    pages = [Image.fromarray(with_alpha(alpha)) for alpha in moved]
    source = pictures.saved(pages[0], "PNG", save_all=True, append_images=pages[1:], duration=100)
    for frame, alpha in zip(frames_of(converted(tmp_path, source)), moved, strict=True):
        assert np.abs(frame[..., 3].astype(int) - alpha).max() <= MAX_ALPHA_ERROR


def test_alpha_of_a_gif_is_exact(tmp_path: Path) -> None:
    pages = [Image.fromarray(with_alpha(np.roll(checks(), 23 * number, axis=1))) for number in range(3)]
    options = {"duration": 100, "disposal": 2, "transparency": 0}
    source = pictures.saved(pages[0], "GIF", save_all=True, append_images=pages[1:], **options)
    expected = pyvips.Image.gifload_buffer(source, n=-1)[3].numpy().reshape(-1, HEIGHT, WIDTH)
    for frame, alpha in zip(frames_of(converted(tmp_path, source)), expected, strict=True):
        assert np.array_equal(frame[..., 3], alpha)
