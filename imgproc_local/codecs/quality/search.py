"""The search for the quality number at which an encoding meets its target score.

The score at a given quality depends on the picture, so each picture is searched separately. `search` makes a few
trials: it encodes at a quality number and scores the result. The next number is interpolated between two trials, or
extrapolated from the outermost ones. Every format uses the same search, with its own `QualityScale` and `Limits`:

- `estimate` makes trials on a sample of the picture, mostly with a fast encoder, whose encodings are called drafts.
  They show which quality the whole picture will need.
- `encode_to_score` then makes trials of the whole picture, the first at that quality.
- `encode_by_sample` is for pictures that are too large for that: it makes the last trials on the sample, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from math import inf
from typing import Protocol, TypeVar

from msgspec import Struct, field, structs

from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.codecs.picture.source import Found, with_score
from imgproc_local.codecs.quality.score import TARGET_SCORE, WHOLE, Sample, score

LARGE_PIXELS = 24_000_000
"""Pictures and animations of at least this many pixels, all frames together, are large: they get the least effort and
memory.
"""

_MIN_SLOPE_RATIO, _MAX_SLOPE_RATIO = 0.3, 3.5
"""Bounds of a measured slope, as multiples of the slope of the `QualityScale`."""

_MAX_STEPS_FROM_USUAL = 5
"""A quality number that was found at one size is used for another if it is at most this far from the usual one."""

_AIM_MARGIN = 0.25
"""Points added to the target in every search, so that few results score below it."""


class Tolerance(Struct, frozen=True):
    """How far from the target a score may lie, in points below and above it."""

    below: float
    above: float

    def accepts(self, difference: float) -> bool:
        return -self.below <= difference <= self.above


class Limits(Struct, frozen=True):
    """When a search ends: at the first score within `close`, or after `max_trials`.

    While the best score is outside `acceptable`, up to `max_extra_trials` more are made.
    """

    close: Tolerance
    max_trials: int
    acceptable: Tolerance = Tolerance(inf, inf)
    max_extra_trials: int = 0


_CLOSE = Tolerance(1.35, 1.35)
_DRAFT_LIMITS = Limits(Tolerance(2.0, 2.0), max_trials=3)
"""For drafts on the sample. More precision is wasted: the slow encoder scores differently."""

FINAL_LIMITS = Limits(_CLOSE, max_trials=3, acceptable=Tolerance(1.75, 1.75), max_extra_trials=3)
"""For the last trials."""


class QualityScale(Struct, frozen=True):
    """The quality numbers of an encoder.

    At `initial` a typical picture scores `TARGET_SCORE`, and near it one step is worth `slope` points. Lower down,
    scores fall faster: a search downwards assumes at least `min_slope_ratio_down` of the slope. At a larger size the
    same number is worth `larger_gain` points more.
    """

    lowest: int
    initial: int
    highest: int
    slope: float
    min_slope_ratio_down: float = _MIN_SLOPE_RATIO
    larger_gain: float = 0.0

    def clamped(self, quality: int) -> int:
        return min(self.highest, max(self.lowest, quality))

    def initial_for(self, target: float) -> int:
        """The quality at which a typical picture scores `target`."""
        return self.clamped(self.initial + round((target - TARGET_SCORE) / self.slope))


class _Scored(Protocol):
    @property
    def score(self) -> float: ...


Trial = TypeVar("Trial", bound=_Scored)
_ScoreOf = Callable[[pyvips.Image], float]
"""The score of a decoded encoding."""
_Scores = Mapping[int, float]
"""Scores by quality number."""


def search(
    attempt: Callable[[int], Trial],
    scale: QualityScale,
    limits: Limits,
    target: float,
    start: int,
    predicted: _Scores | None = None,
) -> dict[int, Trial]:
    """Trials by quality number, the first at `start`. `best_quality` tells which is best.

    `attempt` encodes at a quality number and scores the result. `predicted` are scores by quality of something similar,
    such as a sample of the picture. They are shifted so that they agree with the first trial, and choose the second.
    Where both miss the target, the prediction was wrong, and the next are chosen by the trials alone.
    """
    trials: dict[int, Trial] = {}
    quality: int | None = start
    while quality is not None:
        trials[quality] = attempt(quality)
        scores = {each: trial.score for each, trial in trials.items()}
        difference = scores[best_quality(scores, target)] - target
        most = limits.max_trials + (0 if limits.acceptable.accepts(difference) else limits.max_extra_trials)
        if limits.close.accepts(difference) or len(trials) >= most:
            break
        quality = _next_quality(scores, scale, target, predicted)
    return trials


def best_quality(scores: _Scores, target: float) -> int:
    """The quality number whose score is nearest to the target. A point below it counts as much as two above it."""
    return min(scores, key=lambda quality: max(scores[quality] - target, 2 * (target - scores[quality])))


def _next_quality(scores: _Scores, scale: QualityScale, target: float, predicted: _Scores | None = None) -> int | None:
    """The quality number to try next, None where no other can come nearer to the target."""
    best = best_quality(scores, target)
    expected = dict(scores)
    if predicted and len(scores) == 1:
        # the first trial is made where the target is predicted
        shift = scores[best] - predicted.get(best, target)
        expected = {quality: score + shift for quality, score in predicted.items()} | expected
    low, high = _bracket(scores, target)
    if low is not None and high is not None and high - low <= 1:
        return None
    below, above = _bracket(expected, target)
    if below is not None and above is not None:
        fraction = (target - expected[below]) / (expected[above] - expected[below])
        guess = round(below + fraction * (above - below))
    else:
        going_up = above is None
        end = max(expected) if going_up else min(expected)
        limit = 10 * len(scores)  # points
        change = min(max(target - expected[end], -limit), limit)
        guess = end + (round(change / _slope(expected, scale, going_up=going_up)) or (1 if going_up else -1))
    guess = max(guess, scale.lowest if low is None else low + 1)
    guess = scale.clamped(min(guess, scale.highest if high is None else high - 1))
    return None if guess in scores else guess


def _bracket(scores: _Scores, target: float) -> tuple[int | None, int | None]:
    """The highest quality that scores below the target, and the lowest above that one that reaches it."""
    below = max((quality for quality, score in scores.items() if score < target), default=None)
    above = (quality for quality, score in scores.items() if score >= target and (below is None or quality > below))
    return below, min(above, default=None)


def _slope(scores: _Scores, scale: QualityScale, *, going_up: bool) -> float:
    """Points per quality step, measured on the highest or lowest two quality numbers and kept within bounds."""
    if len(scores) < 2:
        return scale.slope
    one, other = sorted(scores)[-2:] if going_up else sorted(scores)[:2]
    measured = (scores[other] - scores[one]) / (other - one)
    least = _MIN_SLOPE_RATIO if going_up else scale.min_slope_ratio_down
    return min(max(measured, least * scale.slope), _MAX_SLOPE_RATIO * scale.slope)


class SearchResult(Struct, frozen=True):
    """A trial: an encoding of the picture or of its sample, its quality number and its score."""

    quality: int
    encoded: bytes
    score: float

    def meets(self, target: float) -> bool:
        """Whether the score is acceptable for `target`; it may be a little below."""
        return self.score >= target - 1.5


class EncoderProfile(Struct, frozen=True):
    """How a format is encoded and decoded, and how precisely its quality is searched.

    `draft` is a fast variant of `encode`; at the same quality number it scores `draft_deficit` points less. It is None
    where `encode` is used for the sample, too. `without_noise_shaping` replaces `encode` where noise shaping removes
    the detail of whole areas. `found` is that of the `Source`.
    """

    encode: Callable[[pyvips.Image, int], bytes]
    draft: Callable[[pyvips.Image, int], bytes] | None
    decode: Callable[[bytes], pyvips.Image]
    scale: QualityScale
    draft_deficit: float = 0.0
    without_noise_shaping: Callable[[pyvips.Image, int], bytes] | None = None
    final_limits: Limits = FINAL_LIMITS
    found: Found = field(default_factory=Found)

    def trial(self, image: pyvips.Image, score_of: _ScoreOf, quality: int) -> SearchResult:
        """`image` encoded at this quality number."""
        encoded = self.encode(image, quality)
        return SearchResult(quality, encoded, score_of(self.decode(encoded)))


class _Estimate(Struct, frozen=True):
    """The quality that a picture will need, and the scores by quality number and the best trial of its sample."""

    quality: int
    predicted: dict[int, float]
    sample_result: SearchResult


def estimate(sample: Sample, encoder: EncoderProfile, target: float) -> _Estimate:
    """The quality for the whole picture, estimated on its sample."""
    aim, scale = target + _AIM_MARGIN, encoder.scale

    def draft(quality: int) -> SearchResult:
        encoded = (encoder.draft or encoder.encode)(sample.image, quality)
        return SearchResult(quality, encoded, sample.score(encoder.decode(encoded)) + encoder.draft_deficit)

    trials = search(draft, scale, _DRAFT_LIMITS, aim, scale.initial_for(target))
    scores = {quality: trial.score for quality, trial in trials.items()}
    best = best_quality(scores, aim)
    quality = best if _CLOSE.accepts(scores[best] - aim) else _next_quality(scores, scale, aim) or best
    return _Estimate(quality, scores, trials[best])


def quality_by_sample(sample: Sample, encoder: EncoderProfile, target: float) -> tuple[int, float]:
    """The quality number at which the whole picture meets the target, and the score that it is expected to have."""
    found = encode_by_sample(sample, encoder, target)
    return found.quality, found.score - _surplus(sample)


def _surplus(sample: Sample) -> float:
    """The points that a sample is taken to score above the whole picture."""
    return 1 if sample.share < 0.12 else 0


def encode_by_sample(sample: Sample, encoder: EncoderProfile, target: float) -> SearchResult:
    """The encoding of the sample that scores nearest to the target. Its quality is meant for the whole picture.

    A sample of a small share of the picture scores one to three points more than the whole, so the target is higher.
    """
    target += _surplus(sample)
    if encoder.draft is None:
        attempt = partial(encoder.trial, sample.image, sample.score)
        return refine(attempt, encoder.scale, target, encoder.scale.initial_for(target), limits=encoder.final_limits)
    estimated = estimate(sample, encoder, target)
    return _best_encoding(encoder, sample.image, sample.score, target, estimated.quality, estimated.predicted)


def encode_to_score(
    image: pyvips.Image, encoder: EncoderProfile, target: float, sample: Sample, estimated: _Estimate | None = None
) -> SearchResult:
    """The encoding of a picture in memory, of which `sample` is one, whose score is nearest to the target.

    `estimated` is the result of `estimate`, if that was called already. It is not called where the quality follows from
    the one found for the picture at a smaller size.
    """
    start, predicted = None if estimated else _quality_by_smaller_size(encoder, target), {}
    if start is None:
        if sample.is_whole and encoder.draft is None:
            return encode_by_sample(sample, encoder, target)
        estimated = estimated or estimate(sample, encoder, target)
        start, predicted = estimated.quality, estimated.predicted
    if sample.is_whole:
        score_of = sample.score
    elif image.width * image.height <= 4_000_000:  # larger ones are scored in bands, which takes less memory
        score_of = Sample(image, WHOLE, sample.profile).score
    else:
        score_of = partial(score, image, profile=sample.profile)
    best = _best_encoding(encoder, image, score_of, target, start, predicted)
    encoder.found.quality, encoder.found.score = best.quality, best.score
    return best


def _quality_by_smaller_size(encoder: EncoderProfile, target: float) -> int | None:
    """The quality that follows from the one found at a smaller size; None if there is none, or an unusual one.

    Photographs need nearly the same quality at every size. Graphics that need an unusual one at one size do not.
    """
    found, scale = encoder.found, encoder.scale
    if found.quality is None:
        return None
    missing_points = target + _AIM_MARGIN - found.score - scale.larger_gain
    start = scale.clamped(found.quality + round(missing_points / scale.slope))
    return start if abs(start - scale.initial_for(target)) <= _MAX_STEPS_FROM_USUAL else None


def _best_encoding(
    encoder: EncoderProfile, image: pyvips.Image, score_of: _ScoreOf, target: float, start: int, predicted: _Scores
) -> SearchResult:
    attempt = cache(partial(encoder.trial, image, score_of))
    too_low = target - 10  # not explained by the quality number
    draft_too_low = predicted.get(start, inf) < too_low
    if encoder.without_noise_shaping and (draft_too_low or attempt(start).score < too_low):
        encoder = structs.replace(encoder, encode=encoder.without_noise_shaping)
        attempt = cache(partial(encoder.trial, image, score_of))
    return refine(attempt, encoder.scale, target, start, predicted, encoder.final_limits)


def refine(
    attempt: Callable[[int], SearchResult],
    scale: QualityScale,
    target: float,
    start: int,
    predicted: _Scores | None = None,
    limits: Limits = FINAL_LIMITS,
) -> SearchResult:
    """Of a few trials, the first at the estimated quality `start`, the one whose score is nearest to the target.

    Its encoding has its score (`score_of`).
    """
    aim = target + _AIM_MARGIN
    trials = search(attempt, scale, limits, aim, start, predicted)
    best = trials[best_quality({quality: trial.score for quality, trial in trials.items()}, aim)]
    return structs.replace(best, encoded=with_score(best.encoded, best.score))


def reencode_smaller(
    image: pyvips.Image, encoder: EncoderProfile, size_bytes: int, target: float, sample: Sample
) -> bytes | None:
    """A lossy picture in memory, encoded anew in its own format; None where that saves too little.

    `size_bytes` is the size of its data now, without metadata. Each encoding loses quality, so the file is encoded
    again only if even a draft at `finest`, the highest quality used here, is much smaller: there, a typical picture
    scores 3.5 points above the target. Results of this function are never large enough for that, so optimizing them
    again returns them unchanged.
    """
    max_bytes = 0.85 * size_bytes
    scale = encoder.scale
    finest = scale.clamped(scale.initial_for(target) + round(3.5 / scale.slope))
    if len((encoder.draft or encoder.encode)(image, finest)) > max_bytes:
        return None
    encoder = structs.replace(encoder, scale=structs.replace(scale, highest=finest))
    result = encode_to_score(image, encoder, target, sample)
    return result.encoded if result.meets(target) and len(result.encoded) <= max_bytes else None
