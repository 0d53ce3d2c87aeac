"""The search finds the quality setting that meets the target with few encodings, and conversions meet the target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import pyvips
from msgspec import Struct
from PIL import Image

from imgproc_local.codecs import avif
from imgproc_local.codecs.quality.score import WHOLE, Sample
from imgproc_local.codecs.quality.search import (
    EncoderProfile,
    Limits,
    QualityScale,
    Tolerance,
    best_quality,
    encode_to_score,
    search,
)
from tests.codecs import pictures
from tests.codecs.operations import converted, frames_of


def frames_stacked(data: bytes) -> pyvips.Image:
    """All frames, one below the other. Pillow decodes them: as browsers, it decodes AVIF with libavif."""
    frames = np.concatenate([frame[..., :3] for frame in frames_of(data)])
    return pyvips.Image.new_from_array(frames, interpretation="srgb")


def score(source: bytes, out: bytes) -> float:
    return Sample(frames_stacked(source), WHOLE).score(frames_stacked(out))


PHOTO, LARGE = (pictures.saved(pictures.photo(*size), "PNG") for size in ((333, 251), (1500, 1100)))
COARSE = pictures.saved(pictures.scene(640, 480), "JPEG", quality=60, optimize=True)


@pytest.mark.parametrize("target", ["WEBP", "AVIF"])
@pytest.mark.parametrize(
    ("source", "wanted"), [(PHOTO, 75.0), (PHOTO, 85.0), (LARGE, 75.0), (LARGE, 85.0), (COARSE, 85.0)]
)
def test_a_picture_scores_near_the_target(tmp_path: Path, source: bytes, wanted: float, target: str) -> None:
    # one step of WebP's quality setting may change the score by four points
    above = 4 if target == "WEBP" else 2
    assert wanted - 1.5 <= score(source, converted(tmp_path, source, target, wanted)) <= wanted + above


@pytest.mark.parametrize("target", ["WEBP", "AVIF"])
def test_the_quality_of_a_large_picture_is_searched_on_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.setattr("imgproc_local.codecs.quality.search.LARGE_PIXELS", 100_000)
    monkeypatch.setattr(avif, "MAX_TILE_PIXELS", 1_000_000)
    assert 82 <= score(LARGE, converted(tmp_path, LARGE, target)) <= 89


def test_colours_that_lossy_webp_can_not_store_are_stored_losslessly(tmp_path: Path) -> None:
    lines = np.random.default_rng(1).integers(0, 10, (200, 300, 3)).astype(np.uint8)
    lines[:, ::2, 0] = lines[:, 1::2, 2] = 250
    source = pictures.saved(lines, "PNG")
    out = converted(tmp_path, source, "WEBP")
    assert score(source, out) >= 84
    assert len(out) < len(source)


@pytest.mark.parametrize("source", ["WEBP", "PNG", "GIF"])
@pytest.mark.parametrize("target", ["WEBP", "AVIF"])
def test_an_animation_meets_the_target(tmp_path: Path, target: str, source: str) -> None:
    # grey, because lossy WebP halves the resolution of chroma, and lossless WebP is used if that is visible
    photo = np.repeat(pictures.photo(160, 120)[..., 1:2], 3, axis=2)
    made = [Image.fromarray(np.roll(photo, 9 * shift, axis=1)) for shift in range(4)]
    if source == "GIF":
        made = [each.quantize(200, dither=Image.Dither.NONE) for each in made]
    save_options = {"quality": 100, "method": 0} if source == "WEBP" else {}  # PNG and GIF are lossless
    data = pictures.saved(made[0], source, save_all=True, append_images=made[1:], duration=100, **save_options)
    outs = [converted(tmp_path, data, target, wanted) for wanted in (80.0, 90.0)]
    for wanted, out in zip((80.0, 90.0), outs, strict=True):
        assert wanted - 3 <= score(data, out) <= wanted + 4
    assert len(outs[0]) < len(outs[1])


SCALE = QualityScale(lowest=30, initial=82, highest=97, slope=0.7)
CLOSE = Limits(Tolerance(0.35, 0.35), max_trials=7)


class Trial(Struct, frozen=True):
    score: float


@pytest.mark.parametrize("slope", [0.2, 0.6, 1.0, 3.0])
@pytest.mark.parametrize("needed", [30, 31, 47, 82, 96, 97])
def test_the_search_finds_the_quality_in_few_trials(needed: int, slope: float) -> None:
    trials = search(lambda quality: Trial(85 + slope * (quality - needed)), SCALE, CLOSE, 85.0, SCALE.initial)
    best = best_quality({quality: trial.score for quality, trial in trials.items()}, 85.0)
    assert slope * abs(best - needed) <= max(0.35, 2 * slope)
    assert len(trials) <= CLOSE.max_trials


@pytest.mark.parametrize(("score", "end"), [(60.0, 97), (99.0, 30)])
def test_the_search_ends_at_the_lowest_or_highest_quality_if_the_target_is_out_of_reach(score: float, end: int) -> None:
    trials = search(lambda _: Trial(score), SCALE, CLOSE, 85.0, SCALE.initial)
    assert end in trials
    assert all(SCALE.lowest <= quality <= SCALE.highest for quality in trials)


def test_the_second_trial_is_at_the_quality_that_the_corrected_prediction_names() -> None:
    predicted = {80: 70.0, 84: 80.0, 90: 86.0}
    limits = Limits(Tolerance(0.1, 0.1), max_trials=2)
    trials = search(lambda quality: Trial(80.0 if quality == 90 else 0.0), SCALE, limits, 74.5, 90, predicted)
    # quality 90 scores 6 points less than predicted, so 84 is expected to score 80 - 6 = 74, nearest to the target
    assert list(trials) == [90, 84]


def test_the_search_leaves_a_plateau_that_was_not_predicted() -> None:
    predicted = {82: 90.0, 77: 87.5, 75: 86.5, 74: 84.0}
    limits = Limits(Tolerance(1.35, 1.35), max_trials=6)

    def attempt(quality: int) -> Trial:
        return Trial(92 + (0.05 if quality > 71 else 0.6) * (quality - 71))

    trials = search(attempt, SCALE, limits, 85.0, 75, predicted)
    assert min(abs(trial.score - 85) for trial in trials.values()) <= 1.35


def test_more_trials_are_made_while_the_score_is_unacceptable() -> None:
    limits = Limits(Tolerance(0.1, 0.1), max_trials=1, acceptable=Tolerance(1.0, 1.0), max_extra_trials=2)
    assert len(search(lambda _: Trial(84.5), SCALE, limits, 85.0, 80)) == 1
    assert len(search(lambda _: Trial(80.0), SCALE, limits, 85.0, 80)) == 3


def recording_encoder(draft_deficit: float) -> tuple[EncoderProfile, list[int]]:
    """A WebP encoder, and a list to which it adds the quality setting of each final encoding.

    Its drafts are encoded like its final encodings. `draft_deficit` is the number of points by which the search expects
    drafts to score less.
    """
    qualities: list[int] = []

    def encode(part: pyvips.Image, quality: int) -> bytes:
        qualities.append(quality)
        return draft(part, quality)

    def draft(part: pyvips.Image, quality: int) -> bytes:
        return bytes(part.webpsave_buffer(Q=quality, effort=0))

    scale = QualityScale(lowest=5, initial=88, highest=98, slope=0.7)
    return EncoderProfile(encode, draft, pyvips.Image.webpload_buffer, scale, draft_deficit), qualities


@pytest.mark.parametrize("draft_deficit", [-8.0, 0.0, 8.0])
def test_the_slow_encoder_runs_few_times_even_if_the_drafts_mislead(draft_deficit: float) -> None:
    image = pyvips.Image.new_from_array(pictures.photo(1500, 1100), interpretation="srgb")
    encoder, qualities = recording_encoder(draft_deficit)
    result = encode_to_score(image, encoder, 85.0, Sample(image))
    assert 83.5 <= result.score <= 89
    assert len(qualities) <= 8
