"""Combining the luma of one JPEG with the chroma of another: exactly these coefficients, or an error."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from imgproc_local.codecs import jpeg
from imgproc_local.codecs.jpeg import _splice as splice
from tests.codecs import pictures
from tests.codecs.operations import optimized, whole


def planes(data: bytes) -> np.ndarray:
    """The decoded Y, Cb and Cr planes."""
    picture = Image.open(io.BytesIO(data))
    picture.draft("YCbCr", picture.size)
    assert picture.mode == "YCbCr"
    return np.asarray(picture)


def plain(width: int, height: int, **options: object) -> bytes:
    """A JPEG of a scene, with the options of drafts in this package."""
    return pictures.saved(pictures.scene(width, height, 2), "JPEG", **{"quality": 70, "subsampling": 2, **options})


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize(
    "options",
    [{}, {"optimize": True}, {"restart_marker_blocks": 3}, {"progressive": True, "quality": 99}],
    ids=["sequential", "own codes", "restarts", "progressive"],
)
def test_luma_is_that_of_the_first_file_and_chroma_that_of_the_second(
    subsampling: int, options: dict[str, object]
) -> None:
    for size in ((320, 240), (161, 97), (17, 9), (1, 1), (8, 33)):
        luma = plain(*size)
        chroma = pictures.saved(pictures.scene(*size), "JPEG", subsampling=subsampling, **{"quality": 88, **options})
        out = splice.spliced(luma, chroma)
        assert np.array_equal(planes(out)[..., 0], planes(luma)[..., 0])
        assert np.array_equal(planes(out)[..., 1:], planes(chroma)[..., 1:])


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_chroma_is_turned_upright(orientation: int, subsampling: int) -> None:
    stored = pictures.oriented(pictures.scene(320, 240), orientation)
    chroma = pictures.saved(stored, "JPEG", quality=80, subsampling=subsampling)
    out = planes(splice.spliced(plain(320, 240), chroma, orientation)).astype(int)
    # turning a quarter to the left undoes turning a quarter to the right, and all other turns undo themselves
    wanted = pictures.oriented(planes(chroma), {6: 8, 8: 6}.get(orientation, orientation))
    # decoders round up or down in one direction when they enlarge chroma
    assert np.abs(out[..., 1:] - wanted.astype(int)[..., 1:]).max() <= 2
    assert np.array_equal(out[..., 0], planes(plain(320, 240))[..., 0])


@pytest.mark.parametrize(("orientation", "size"), [(2, (161, 96)), (4, (160, 97)), (6, (160, 97)), (8, (161, 96))])
def test_chroma_with_a_partial_block_that_would_be_inside_the_picture_is_refused(
    orientation: int, size: tuple[int, int]
) -> None:
    stored = pictures.saved(pictures.scene(*size), "JPEG", subsampling=2)
    upright = size[::-1] if orientation >= 5 else size
    with pytest.raises(ValueError, match="partial block"):
        splice.spliced(plain(*upright), stored, orientation)


@pytest.mark.parametrize(
    ("chroma", "why"),
    [
        (pictures.saved(pictures.scene(320, 241), "JPEG"), "size"),
        (pictures.saved(Image.fromarray(pictures.scene()).convert("L"), "JPEG"), "three components"),
        (pictures.saved(Image.fromarray(pictures.scene()).convert("CMYK"), "JPEG"), "not"),
        (pictures.saved(pictures.scene(), "JPEG", keep_rgb=True, subsampling=0), "YCbCr"),
        (pictures.saved(pictures.scene(), "JPEG")[:-2000] + b"\xff\xd9", "truncated scan"),
        (pictures.saved(pictures.scene(), "JPEG", progressive=True)[:300], "truncated scan"),
        (b"", "not a JPEG"),
    ],
)
def test_incompatible_files_are_refused(chroma: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        splice.spliced(plain(320, 240), chroma)


@pytest.mark.parametrize("progressive", [False, True])
def test_coefficients_out_of_range_are_refused(progressive: bool) -> None:
    # make the DC differences between blocks as large as codes can express
    data = bytearray(pictures.saved(pictures.scene(), "JPEG", quality=100, progressive=progressive))
    for at in range(len(data) - 30):
        if data[at : at + 2] == b"\xff\xc4" and data[at + 4] >> 4 == 0:
            symbols = at + 5 + 16
            data[symbols : symbols + sum(data[at + 5 : symbols])] = bytes([11]) * sum(data[at + 5 : symbols])
    with pytest.raises(ValueError, match=r"out of range|truncated scan"):
        splice.spliced(plain(320, 240), bytes(data))


def test_too_many_scans_are_refused() -> None:
    data = pictures.saved(pictures.scene(), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    with pytest.raises(ValueError, match="too many scans"):
        splice.spliced(plain(320, 240), data[:-2] + data[last:-2] * 200 + data[-2:])


@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_the_chroma_coefficients_of_a_photograph_are_preserved(tmp_path: Path, subsampling: int) -> None:
    source = pictures.saved(pictures.scene(900, 700), "JPEG", quality=90, subsampling=subsampling)
    out = whole(optimized(tmp_path, source))
    same = np.array_equal(planes(out)[..., 1:], planes(source)[..., 1:])
    assert same is (subsampling > 0)
    assert not np.array_equal(planes(out)[..., 0], planes(source)[..., 0])
    assert optimized(tmp_path, out) is None


@pytest.mark.parametrize("orientation", [1, 6])
def test_preserved_chroma_makes_a_smaller_file_at_the_same_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orientation: int
) -> None:
    source = pictures.jpeg_with_metadata(pictures.scene(640, 480), orientation, 85)
    kept = whole(optimized(tmp_path, source))
    monkeypatch.setattr(jpeg, "_has_usable_chroma", lambda _: False)
    assert len(kept) < 0.97 * len(optimized(tmp_path, source) or source)
