"""How long stages ran, as a histogram for each stage and outcome, since the start of the process."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, field

BOUNDS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Upper bounds of the buckets, in seconds. The last is the default of `stage_timeout_s`."""

Outcome = Literal["done", "failed", "cancelled"]


class Histogram(Struct):
    """Each bucket counts the durations up to its bound and above the bound before; the last, those above all bounds."""

    total_s: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))


class StageDurations:
    """The histograms of every stage that has run."""

    def __init__(self) -> None:
        self._histograms: dict[tuple[str, Outcome], Histogram] = {}

    def add(self, stage: str, outcome: Outcome, duration_s: float) -> None:
        histogram = self._histograms.setdefault((stage, outcome), Histogram())
        histogram.total_s += duration_s
        histogram.buckets[bisect_left(BOUNDS_S, duration_s)] += 1

    def all(self) -> Iterator[tuple[str, Outcome, Histogram]]:
        """Stage, outcome and histogram, sorted by stage and outcome."""
        for (stage, outcome), histogram in sorted(self._histograms.items()):
            yield stage, outcome, histogram
