"""What sharp needs for the same score: its quality is searched per picture, its bytes interpolated."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from tests.bench.peers_measure import Encoding, Measure, Options, Picture

BEYOND = 0.5
"""How far outside two qualities, in parts of their distance, bytes are still told."""


class Ladder(Struct, frozen=True):
    """How sharp is asked for other qualities: the range, the first one, and how many per picture."""

    options: Options
    lowest: int
    highest: int
    first: int
    tries: int


LADDERS = {
    "jpeg": Ladder({"mozjpeg": True}, 10, 100, 88, 7),
    "webp": Ladder({}, 5, 100, 82, 6),
    "avif": Ladder({"effort": 4}, 5, 100, 70, 3),
}


class Match(Struct, frozen=True):
    """What a peer needs for the score that ours has."""

    size_bytes: float
    cpu_s: float
    quality: float


def p10(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=10, method="inclusive")[0] if len(values) > 1 else values[0]


class Sharp:
    """sharp at any quality. Results are kept for this run in `Measure`."""

    def __init__(self, measure: Measure, format: str) -> None:
        self._measure = measure
        self._format = format
        self._ladder = LADDERS[format]
        self._seen: dict[Path, dict[int, Encoding]] = {}

    def at(self, picture: Picture, q: int) -> Encoding:
        seen = self._seen.setdefault(picture.path, {})
        if q not in seen:
            seen[q] = self._measure.peer("sharp", picture, self._format, self._ladder.options | {"quality": q})
        return seen[q]

    def fixed(self, pictures: Sequence[Picture], q: int) -> list[Encoding]:
        return [self.at(picture, q) for picture in pictures]

    def match(self, picture: Picture, wanted: float) -> Match | None:
        """What sharp needs to score `wanted`, None where it can't or the tries don't come near."""
        ladder, seen = self._ladder, self._seen.setdefault(picture.path, {})
        for _ in range(ladder.tries):
            q = next_quality({q: each.score for q, each in seen.items()}, wanted, ladder)
            if q is None:
                break
            self.at(picture, q)
        return interpolated(seen, wanted)


def next_quality(scores: dict[int, float], wanted: float, ladder: Ladder) -> int | None:
    """The quality to try next, None where trying more would tell nothing new."""
    if not scores:
        return ladder.first
    nearest = min(scores, key=lambda q: abs(scores[q] - wanted))
    if abs(scores[nearest] - wanted) < 0.2:
        return None
    low = max((q for q in scores if scores[q] <= wanted), default=None)
    high = min((q for q in scores if scores[q] > wanted and q > (low or 0)), default=None)
    if low is not None and high is not None:
        if high - low <= 2:
            return None
        part = (wanted - scores[low]) / (scores[high] - scores[low])
        return min(high - 1, max(low + 1, round(low + part * (high - low))))
    points = sorted(scores, key=lambda q: abs(scores[q] - wanted))[:2]
    # a step of quality is worth about half a point at first sight, then what the last two tries say
    per_step = 0.7 if nearest > 75 else 0.45
    if len(points) == 2:
        per_step = max(0.1, (scores[points[0]] - scores[points[1]]) / (points[0] - points[1]))
    step = (wanted - scores[nearest]) / per_step
    # a little too far, for a bracket
    guess = round(nearest + 1.1 * step + math.copysign(1, step))
    q = min(ladder.highest, max(ladder.lowest, guess))
    return None if q in scores else q


def interpolated(seen: dict[int, Encoding], wanted: float) -> Match | None:
    """Bytes for a score, linear in their logarithm between the qualities around it; a little beyond them, too."""
    points = sorted((q, each) for q, each in seen.items() if not each.error)
    if not points:
        return None
    nearest_q, nearest = min(points, key=lambda point: abs(point[1].score - wanted))
    if abs(nearest.score - wanted) <= 0.05:
        return Match(nearest.size_bytes, nearest.cpu_s, nearest_q)
    crossings = [pair for pair in pairwise(points) if pair[0][1].score <= wanted <= pair[1][1].score]
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
    part = (wanted - low.score) / span
    q = low_q + part * (high_q - low_q)
    if not -BEYOND <= part <= 1 + BEYOND or q > 100:
        return None
    size = math.exp((1 - part) * math.log(low.size_bytes) + part * math.log(high.size_bytes))
    return Match(size, nearest.cpu_s, q)


def same_p10(sharp: Sharp, pictures: Sequence[Picture], wanted: float) -> tuple[str, float, int] | None:
    """sharp at the fixed quality whose p10 score is `wanted` ± 0.3: its name, total bytes and nearest whole quality.

    Between two qualities the bytes are interpolated. None where no quality gets there.
    """

    def scored(q: int) -> float:
        return p10([each.score for each in sharp.fixed(pictures, q) if not each.error])

    low, high = 60, 98
    if scored(high) < wanted:
        high = 100
        if scored(high) < wanted:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        if scored(middle) < wanted:
            low = middle
        else:
            high = middle
    best = min((low, high), key=lambda q: abs(scored(q) - wanted))
    totals = [sum(each.size_bytes for each in sharp.fixed(pictures, q)) for q in (low, high)]
    if abs(scored(best) - wanted) <= 0.3 or wanted <= scored(low):
        return f"q{best}", totals[(low, high).index(best)], best
    part = (wanted - scored(low)) / (scored(high) - scored(low))
    return f"q{low + part:.1f}", math.exp((1 - part) * math.log(totals[0]) + part * math.log(totals[1])), best
