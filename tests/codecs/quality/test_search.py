"""Conversion looks as asked, in no more bytes than the original has."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import pyvips
from msgspec import structs
from PIL import Image

from imgproc_local.codecs import avif, webp
from imgproc_local.codecs.decode import to_srgb
from imgproc_local.codecs.probe import probe
from imgproc_local.codecs.quality.sample import WHOLE, Sample
from imgproc_local.codecs.quality.search import Form, smallest
from tests.codecs import pictures
from tests.codecs.pictures import never_stop

MANY = 10**9
CONVERT = {"webp": webp.convert, "avif": avif.convert}


def converted(folder: Path, data: bytes, format: str, target: float = 85.0) -> tuple[bytes, float]:
    """The result and what it scores as browsers show it: they read AVIF with libavif, as Pillow does."""
    path = pictures.write(folder, data)
    out = CONVERT[format](path, probe(path, MANY), never_stop, target)
    before = to_srgb(pyvips.Image.new_from_buffer(data, "")).copy_memory()
    with Image.open(io.BytesIO(out)) as shown:
        after = pyvips.Image.new_from_array(np.asarray(shown.convert("RGB")), interpretation="srgb")
    return out, Sample(before, WHOLE).score(after)


@pytest.mark.parametrize("target", [75.0, 85.0])
@pytest.mark.parametrize("format", ["webp", "avif"])
@pytest.mark.parametrize("size", [(333, 251), (1500, 1100)])
def test_a_picture_scores_near_the_target(tmp_path: Path, size: tuple[int, int], format: str, target: float) -> None:
    _, score = converted(tmp_path, pictures.saved(pictures.photo(*size), "PNG"), format, target)
    # a step of WebP's quality may be four points
    assert target - 1.5 <= score <= target + (4 if format == "webp" else 2)


def test_colours_that_lossy_webp_cannot_show_are_not_given_up(tmp_path: Path) -> None:
    lines = np.zeros((200, 300, 3), np.uint8)
    lines[:, ::2] = (255, 0, 0)
    lines[:, 1::2] = (0, 0, 255)
    noisy = np.clip(lines.astype(int) + np.random.default_rng(1).integers(-9, 10, lines.shape), 0, 255).astype(np.uint8)
    source = pictures.saved(noisy, "PNG")
    out, score = converted(tmp_path, source, "webp")
    assert score >= 84
    assert len(out) < 0.8 * len(source)


@pytest.mark.parametrize("format", ["webp", "avif"])
def test_a_coarse_picture_is_held_to_the_target_too(tmp_path: Path, format: str) -> None:
    source = pictures.saved(pictures.scene(640, 480), "JPEG", quality=60, optimize=True)
    _, score = converted(tmp_path, source, format)
    assert 83.5 <= score <= 87


@pytest.mark.parametrize("format", ["webp", "avif"])
def test_a_large_picture_is_searched_on_its_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    monkeypatch.setattr({"webp": webp, "avif": avif}[format], "LARGE_FROM_PIXELS", 100_000)
    _, score = converted(tmp_path, pictures.saved(pictures.photo(1500, 1100), "PNG"), format)
    assert 82 <= score <= 89


@pytest.mark.parametrize("source", ["WEBP", "PNG", "GIF"])
@pytest.mark.parametrize("format", ["webp", "avif"])
def test_an_animation_looks_as_asked(tmp_path: Path, format: str, source: str) -> None:
    # in greys: lossy WebP has half the colours' resolution, and lossless comes in its place where that shows
    photo = np.repeat(pictures.photo(160, 120)[..., 1:2], 3, axis=2)
    made = [Image.fromarray(np.roll(photo, 9 * shift, axis=1)) for shift in range(4)]
    if source == "GIF":
        made = [each.quantize(200, dither=Image.Dither.NONE) for each in made]
    fine = {"quality": 100, "method": 0} if source == "WEBP" else {}
    data = pictures.saved(made[0], source, save_all=True, append_images=made[1:], duration=100, **fine)
    sizes = []
    for target in (80.0, 90.0):
        path = pictures.write(tmp_path, data)
        out = CONVERT[format](path, probe(path, MANY), never_stop, target)
        sizes.append(len(out))
        before, after = (strip_of(each) for each in (data, out))
        assert target - 3 <= Sample(before, WHOLE).score(after) <= target + 4
    assert sizes[0] < sizes[1]


def strip_of(data: bytes) -> pyvips.Image:
    with Image.open(io.BytesIO(data)) as shown:
        frames = []
        for number in range(shown.n_frames):
            shown.seek(number)
            frames.append(np.asarray(shown.convert("RGB")))
    return pyvips.Image.new_from_array(np.concatenate(frames), interpretation="srgb")


def steps(scored: Callable[[int], float]) -> tuple[Form, list[int]]:
    """A form whose quality is the level of grey that it writes, and the qualities whose final encoding was asked."""
    asked: list[int] = []

    def final(part: pyvips.Image, quality: int) -> bytes:
        asked.append(quality)
        return draft(part, quality)

    def draft(part: pyvips.Image, quality: int) -> bytes:
        return bytes(part.webpsave_buffer(Q=quality, effort=0))

    return Form(draft, final, pyvips.Image.webpload_buffer, 5, 88, 98, scored(0)), asked


def test_the_slow_encoder_runs_few_times_however_wrong_the_drafts_are() -> None:
    image = pyvips.Image.new_from_array(pictures.photo(1500, 1100), interpretation="srgb")
    for gain in (-8.0, 0.0, 8.0):
        form, asked = steps(lambda _, gain=gain: gain)  # type: ignore[misc]
        sample = Sample(image)
        found = smallest(image, None, form, 85.0, sample)
        assert 83.5 <= found.score <= 89
        assert len(asked) <= 8


def test_a_picture_that_falls_apart_whole_is_encoded_evenly() -> None:
    image = pyvips.Image.new_from_array(pictures.photo(1500, 1100), interpretation="srgb")
    form, asked = steps(lambda _: 0.0)

    def uneven(part: pyvips.Image, quality: int) -> bytes:
        return form.final(part if part.width < image.width else part.gaussblur(8), quality)

    found = smallest(image, None, structs.replace(form, final=uneven), 85.0, Sample(image))
    assert found.score < 75
    found = smallest(image, None, structs.replace(form, final=uneven, even=form.final), 85.0, Sample(image))
    assert 83.5 <= found.score <= 89
    assert len(asked) <= 16
