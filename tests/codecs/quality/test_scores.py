"""Results carry the score that the search for them has measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from imgproc_local.codecs.picture.source import score_of
from imgproc_local.codecs.quality.score import Reference
from tests.codecs import pictures
from tests.codecs.operations import converted, optimized, whole

PHOTO = pictures.scene(640, 480)
GRAPHIC = pictures.graphic(320, 240, 3000)
FLAT = np.kron(np.random.default_rng(1).integers(0, 2, (12, 16, 3), np.uint8) * 255, np.ones((20, 20, 1), np.uint8))
TARGET = 65.0


def measured(upload: bytes, result: bytes) -> float:
    before, after = (np.asarray(pictures.opened(each).convert("RGB")) for each in (upload, result))
    return Reference(before.tobytes(), before.shape[1], before.shape[0]).score(after.tobytes())


@pytest.mark.parametrize(
    ("upload", "make"),
    [
        (pictures.saved(PHOTO, "JPEG", quality=97), optimized),
        (pictures.saved(pictures.photo(), "AVIF", quality=100), optimized),
        (pictures.saved(GRAPHIC, "PNG"), optimized),
        (pictures.saved(PHOTO, "PNG"), partial(converted, to="WEBP")),
        (pictures.saved(PHOTO, "PNG"), partial(converted, to="AVIF")),
        (pictures.saved(GRAPHIC, "PNG"), partial(converted, to="WEBP")),
    ],
    ids=["JPEG", "AVIF", "palette", "to WebP", "to AVIF", "graphic to WebP"],
)
def test_the_score_of_a_lossy_result_is_that_of_its_pixels(
    tmp_path: Path, upload: bytes, make: Callable[..., bytes | None]
) -> None:
    result = whole(make(tmp_path, upload, target=TARGET))
    # another decoder upsamples chroma in another way
    assert score_of(result) == pytest.approx(measured(upload, result), abs=1.2)


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "GIF"])
def test_a_result_without_loss_has_no_score(tmp_path: Path, kind: str) -> None:
    upload = pictures.saved(FLAT, kind, **({"lossless": True, "method": 0} if kind == "WEBP" else {}))
    assert score_of(whole(optimized(tmp_path, upload))) is None
