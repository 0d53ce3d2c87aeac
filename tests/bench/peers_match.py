"""Finds the bytes and the CPU time that sharp needs for a given score: searches its quality setting per picture."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from tests.bench.peers_measure import Encoding, Measure, Options, Picture

MAX_EXTRAPOLATION = 0.5
"""Bytes are also extrapolated beyond two quality settings, up to this share of their distance."""


class SearchRange(Struct, frozen=True):
    """How sharp's quality is searched: options, range, first quality and the number of trials per picture."""

    options: Options
    lowest: int
    highest: int
    first: int
    tries: int


SEARCH_RANGES = {
    "jpeg": SearchRange({"mozjpeg": True}, 10, 100, 88, 7),
    "webp": SearchRange({}, 5, 100, 82, 6),
    "avif": SearchRange({"effort": 4}, 5, 100, 70, 3),
}


class Match(Struct, frozen=True):
    """The quality setting, the bytes and the CPU time with which a peer reaches a given score."""

    size_bytes: float
    cpu_s: float
    quality: float


def p10(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=10, method="inclusive")[0] if len(values) > 1 else values[0]


class Sharp:
    """sharp at any quality setting. `Measure` stores the results."""

    def __init__(self, measure: Measure, format: str) -> None:
        self._measure = measure
        self._format = format
        self._ladder = SEARCH_RANGES[format]
        self._seen: dict[Path, dict[int, Encoding]] = {}

    def at(self, picture: Picture, q: int) -> Encoding:
        seen = self._seen.setdefault(picture.path, {})
        if q not in seen:
            seen[q] = self._measure.peer("sharp", picture, self._format, self._ladder.options | {"quality": q})
        return seen[q]

    def fixed(self, pictures: Sequence[Picture], q: int) -> list[Encoding]:
        return [self.at(picture, q) for picture in pictures]

    def match(self, picture: Picture, target_score: float) -> Match | None:
        """What sharp needs for `target_score`; None if no trial comes near that score."""
        search_range, seen = self._ladder, self._seen.setdefault(picture.path, {})
        for _ in range(search_range.tries):
            q = next_quality({q: each.score for q, each in seen.items()}, target_score, search_range)
            if q is None:
                break
            self.at(picture, q)
        return interpolated(seen, target_score)


def next_quality(scores: dict[int, float], target_score: float, search_range: SearchRange) -> int | None:
    """The quality to try next, None if another trial would not improve the result."""
    if not scores:
        return search_range.first
    nearest = min(scores, key=lambda q: abs(scores[q] - target_score))
    if abs(scores[nearest] - target_score) < 0.2:
        return None
    low = max((q for q in scores if scores[q] <= target_score), default=None)
    high = min((q for q in scores if scores[q] > target_score and q > (low or 0)), default=None)
    if low is not None and high is not None:
        if high - low <= 2:
            return None
        part = (target_score - scores[low]) / (scores[high] - scores[low])
        return min(high - 1, max(low + 1, round(low + part * (high - low))))
    points = sorted(scores, key=lambda q: abs(scores[q] - target_score))[:2]
    # the first estimate is half a point per quality step, later estimates are the slope of the last two trials
    per_step = 0.7 if nearest > 75 else 0.45
    if len(points) == 2:
        per_step = max(0.1, (scores[points[0]] - scores[points[1]]) / (points[0] - points[1]))
    step = (target_score - scores[nearest]) / per_step
    # a little further than estimated, so that the two trials enclose the target
    guess = round(nearest + 1.1 * step + math.copysign(1, step))
    q = min(search_range.highest, max(search_range.lowest, guess))
    return None if q in scores else q


def interpolated(seen: dict[int, Encoding], target_score: float) -> Match | None:
    """The bytes for a score, interpolated linearly in their logarithm, or extrapolated by up to `MAX_EXTRAPOLATION`."""
    points = sorted((q, each) for q, each in seen.items() if not each.error)
    if not points:
        return None
    nearest_q, nearest = min(points, key=lambda point: abs(point[1].score - target_score))
    if abs(nearest.score - target_score) <= 0.05:
        return Match(nearest.size_bytes, nearest.cpu_s, nearest_q)
    crossings = [pair for pair in pairwise(points) if pair[0][1].score <= target_score <= pair[1][1].score]
    if crossings:
        (low_q, low), (high_q, high) = min(crossings, key=lambda pair: pair[1][0] - pair[0][0])
    else:
        steps = [pair for pair in pairwise(points) if nearest_q in (pair[0][0], pair[1][0])]
        if not steps:
            return None
        (low_q, low), (high_q, high) = min(steps, key=lambda pair: pair[1][0] - pair[0][0])
    span = high.score - low.score
    if span <= 0:
        return None
    part = (target_score - low.score) / span
    q = low_q + part * (high_q - low_q)
    if not -MAX_EXTRAPOLATION <= part <= 1 + MAX_EXTRAPOLATION or q > 100:
        return None
    size = math.exp((1 - part) * math.log(low.size_bytes) + part * math.log(high.size_bytes))
    return Match(size, nearest.cpu_s, q)


def same_p10(sharp: Sharp, pictures: Sequence[Picture], target_score: float) -> tuple[str, float, int] | None:
    """sharp at the fixed quality whose p10 score is `target_score` ± 0.3: its name, total bytes and nearest whole
    quality.

    Between two qualities the bytes are interpolated. None if no quality reaches that score.
    """

    def scored(q: int) -> float:
        return p10([each.score for each in sharp.fixed(pictures, q) if not each.error])

    low, high = 60, 98
    if scored(high) < target_score:
        high = 100
        if scored(high) < target_score:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        if scored(middle) < target_score:
            low = middle
        else:
            high = middle
    best = min((low, high), key=lambda q: abs(scored(q) - target_score))
    totals = [sum(each.size_bytes for each in sharp.fixed(pictures, q)) for q in (low, high)]
    if abs(scored(best) - target_score) <= 0.3 or target_score <= scored(low):
        return f"q{best}", totals[(low, high).index(best)], best
    part = (target_score - scored(low)) / (scored(high) - scored(low))
    return f"q{low + part:.1f}", math.exp((1 - part) * math.log(totals[0]) + part * math.log(totals[1])), best
