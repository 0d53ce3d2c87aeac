"""A still picture in another format, as small as it may be while it looks as asked.

The quality is found with quick drafts of a sample, brought right with the slow encoder on the sample, and seen to be
right on the whole result. A coarsely stored original spends its bytes on artefacts: where keeping them all would take
more bytes than the original has, less is aimed at, down to `CONCESSION`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pyvips
from msgspec import Struct, structs

from imgproc_local.codecs.search import (
    TARGET_SCORE,
    USUAL_RISE,
    WHOLE,
    Sample,
    rise_of,
)

CONCESSION = 20.0
WORTH_IT = 0.85
"""So much smaller a lossy file must become to be encoded anew in its own format."""

FINER = 5
"""So far above the usual quality, at most, is it then encoded."""

CHECKED_PIXELS = 4_000_000
MANY_TILES = 54
"""Up to so many pixels a result is scored whole, above on so many tiles: two megapixels."""

DRAFTS, ROUGHLY = 3, 1.0
"""So many drafts are made, or until one comes so near the target. The slow encoder scores differently anyway."""

TOO_LOW, TOO_HIGH = 0.7, 1.2
"""So far from the target, a sample gets another quality."""

WHOLE_TOO_LOW, WHOLE_TOO_HIGH = 1.1, 1.7
"""So far from it, a whole picture whose sample was right does: it costs a whole encoding."""

SAFELY, CLOSE_BYTES = 0.97, 0.96
"""So much of what the whole may take, its sample may; and so much of what may be taken is near enough."""

SHORTFALL = 4
"""A point below the target is as far from it as so many above."""

CHECKS = 3
MAX_STEP = 15
BYTES_PER_STEP = 0.03
"""The logarithm of the bytes grows by about this much with a step of quality."""


class Form(Struct, frozen=True):
    """How a format is written and read. `final` takes long, `draft` does not and scores about `gain` less.

    Around `usual` most pictures reach `TARGET_SCORE`.
    """

    draft: Callable[[pyvips.Image, int], bytes]
    final: Callable[[pyvips.Image, int], bytes]
    decoded: Callable[[bytes], pyvips.Image]
    lowest: int
    usual: int
    highest: int
    gain: float


class Converted(Struct, frozen=True):
    """A file and what it scores, on the sample where that is what was looked at."""

    encoded: bytes
    score: float

    def reaches(self, target: float) -> bool:
        return self.score >= target - WHOLE_TOO_LOW


class _Search:
    """Final encodings of one picture at several qualities, and what they score."""

    def __init__(self, form: Form, image: pyvips.Image, scored: Callable[[pyvips.Image], float], rise: float) -> None:
        self._form = form
        self._image = image
        self._scored = scored
        self._rise = rise
        self.encoded: dict[int, bytes] = {}
        self.scores: dict[int, float] = {}

    def encode(self, quality: int) -> bytes:
        if quality not in self.encoded:
            self.encoded[quality] = self._form.final(self._image, quality)
            self.scores[quality] = self._scored(self._form.decoded(self.encoded[quality]))
        return self.encoded[quality]

    def at(self, quality: int) -> Converted:
        return Converted(self.encode(quality), self.scores[quality])

    def near(self, quality: int, target: float, too_low: float, too_high: float) -> int:
        """The quality, starting at one, whose score is near the target; the nearest of those tried."""
        for _ in range(CHECKS):
            self.encode(quality)
            missing = target - self.scores[quality]
            if -too_high <= missing <= too_low:
                return quality
            step = round(missing / rise_of(self.scores, self._rise)) or (1 if missing > 0 else -1)
            quality = min(self._form.highest, max(self._form.lowest, quality + min(MAX_STEP, max(-MAX_STEP, step))))
            if quality in self.scores:
                break
        return min(self.scores, key=lambda each: _distance(self.scores[each] - target))

    def within(self, quality: int, most_bytes: float, floor: float) -> int:
        """The quality, starting at one, that takes no more bytes, but none that scores below a floor."""
        wanted, above, below = quality, quality, self._form.lowest
        sizes: dict[int, int] = {}
        for _ in range(CHECKS):
            sizes[quality] = size_bytes = len(self.encode(quality))
            if size_bytes <= most_bytes:
                below = quality
            else:
                above = quality
            if CLOSE_BYTES * most_bytes <= size_bytes <= most_bytes or above - below <= 1:
                break
            if self.scores[quality] < floor or quality == wanted == below:
                break
            step = math.floor(math.log(most_bytes / size_bytes) / _growth(sizes))
            quality = min(max(quality + step, below), above - 1)
        fitting = [each for each, size in sizes.items() if size <= most_bytes]
        if fitting and self.scores[max(fitting)] >= floor:
            return max(fitting)
        return min(wanted, self.near(quality, floor, TOO_LOW, TOO_HIGH))


def _distance(above: float) -> float:
    return above if above >= 0 else -above * SHORTFALL


def _growth(sizes: dict[int, int]) -> float:
    low, high = min(sizes), max(sizes)
    if low == high:
        return BYTES_PER_STEP
    return max(0.005, math.log(sizes[high] / sizes[low]) / (high - low))


def quality_for(sample: Sample, form: Form, size_bytes: float, target: float) -> tuple[int, float, Converted]:
    """The quality for a picture of which `sample` is taken, the score per step there, and what the sample became.

    `size_bytes` is what the whole may take.
    """
    drafts: dict[int, float] = {}
    quality = _usual(form, target)
    for _ in range(DRAFTS):
        drafts[quality] = form.gain + sample.score(form.decoded(form.draft(sample.image, quality)))
        missing = target - drafts[quality]
        quality = min(form.highest, max(form.lowest, quality + round(missing / rise_of(drafts))))
        if abs(missing) <= ROUGHLY or quality in drafts:
            break
    rise = rise_of(drafts)
    search = _Search(form, sample.image, sample.score, rise)
    quality = search.near(quality, target, TOO_LOW, TOO_HIGH)
    quality = search.within(quality, SAFELY * size_bytes * sample.share, target - CONCESSION)
    return quality, rise, search.at(quality)


def smallest(
    image: pyvips.Image, profile: bytes | None, form: Form, size_bytes: int, target: float, sample: Sample
) -> Converted:
    """The smallest file of a picture in memory, stored in `size_bytes` now, that looks as asked."""
    quality, rise, found = quality_for(sample, form, size_bytes, target)
    if sample.is_whole:
        return found
    tiles = WHOLE if image.width * image.height <= CHECKED_PIXELS else MANY_TILES
    whole = Sample(image, tiles, profile)
    search = _Search(form, image, lambda decoded: whole.score(whole.part_of(decoded)), rise)
    if found.reaches(target):
        quality = search.near(quality, target, WHOLE_TOO_LOW, WHOLE_TOO_HIGH)
    floor = target - CONCESSION
    if found.score > floor + TOO_HIGH:
        quality = search.within(quality, size_bytes, floor)
    if search.at(quality).score < floor - WHOLE_TOO_LOW:
        quality = search.near(quality, floor, WHOLE_TOO_LOW, WHOLE_TOO_HIGH)
    return search.at(quality)


def smaller(
    image: pyvips.Image, profile: bytes | None, form: Form, size_bytes: int, target: float, sample: Sample
) -> bytes | None:
    """A lossy picture in memory, encoded anew in its own format; None where it stays.

    `size_bytes` is what its data takes now, without metadata.
    Each time costs quality, so the file must be finer than anything written here: even at the highest quality that
    this writes, a draft takes much less. No result of this is so fine, so it comes back as it is.
    """
    most_bytes = WORTH_IT * size_bytes
    finest = min(form.highest, _usual(form, target) + FINER)
    if len(form.draft(image, finest)) > most_bytes:
        return None
    found = smallest(image, profile, structs.replace(form, highest=finest), int(most_bytes), target, sample)
    return found.encoded if found.reaches(target) and len(found.encoded) <= most_bytes else None


def _usual(form: Form, target: float) -> int:
    return min(form.highest, max(form.lowest, form.usual + round((target - TARGET_SCORE) / USUAL_RISE)))
