"""A still picture in another format, as small as it may be while it looks as asked.

The quality is found with quick drafts of a sample, brought nearer with the slow encoder on the sample, and right on the
whole. A coarsely stored original spends its bytes on artefacts, and another format may take more
bytes to show the same: that is not answered with a picture that looks worse, for the original is there to be served.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct, structs

from imgproc_local.codecs.libvips import pyvips
from imgproc_local.codecs.quality.sample import TARGET_SCORE, USUAL_RISE, WHOLE, Sample, rise_of, score

WORTH_IT = 0.85
"""So much smaller a lossy file must become to be encoded anew in its own format."""

FINER_POINTS = 3.5
"""So much above the usual quality, at most, is it then encoded."""

AT_ONCE_PIXELS = 4_000_000
"""Larger pictures are scored in bands, the original each time anew: that takes less memory."""

OVER, SCANT = 1.0, 0.12
"""So much more is aimed at where a sample of less than that part of a picture is all that is scored: it promises one to
three points too much.
"""

DRAFTS, ROUGHLY = 3, 2.0
"""So many drafts are made, or until one comes so near the target. The slow encoder scores differently anyway."""

GLIMPSES, GLIMPSE_OFF = 2, 3.0
"""So often the slow encoder is tried on a sample, where the whole is checked afterwards: that never scores quite the
same.
"""

CHECKS, TOO_LOW, TOO_HIGH = 3, 1.1, 1.6
"""So often, at most, it is tried on what counts, and until so near the target."""

MORE_CHECKS, FAR_TOO_LOW, FAR_TOO_HIGH = 3, 1.5, 2.0
"""So often more, while it is as far from it as this."""

AIMED_ABOVE = (TOO_HIGH - TOO_LOW) / 2

SHORTFALL = 4
"""A point below the target is as far from it as so many above."""

STEEPER = 0.75
"""Scores fall faster the further down: at least so much of the usual rise is reckoned with."""

FELL = 10
"""So far below the target, a whole picture whose sample was near it has met with something other than too few bytes."""

MAX_POINTS = 10
"""So much score the second quality is to change, at most; twice as much the third, and so on."""


class Converted(Struct, frozen=True):
    """A file and what it scores, on the sample where that is what was looked at."""

    encoded: bytes
    score: float

    def reaches(self, target: float) -> bool:
        return self.score >= target - FAR_TOO_LOW


class Form(Struct, frozen=True):
    """How a format is written and read. `final` takes long, `draft` does not and scores about `gain` less.

    Around `usual` most pictures reach `TARGET_SCORE`, and a step of quality is worth about `rise` points there.
    """

    draft: Callable[[pyvips.Image, int], bytes]
    final: Callable[[pyvips.Image, int], bytes]
    decoded: Callable[[bytes], pyvips.Image]
    lowest: int
    usual: int
    highest: int
    gain: float
    rise: float = USUAL_RISE
    drafted: Converted | None = None
    """The draft of a sample at `usual`, where that was made already."""

    even: Callable[[pyvips.Image, int], bytes] | None = None
    """What takes the place of `final` where a whole picture falls far below its sample."""


class _Search:
    """Encodings of one picture at several qualities, and what they score."""

    def __init__(
        self,
        form: Form,
        encode: Callable[[pyvips.Image, int], bytes],
        image: pyvips.Image,
        scored: Callable[[pyvips.Image], float],
    ) -> None:
        self._form, self._encode, self._image, self._scored = form, encode, image, scored
        self.encoded: dict[int, bytes] = {}
        self.scores: dict[int, float] = {}

    def at(self, quality: int) -> Converted:
        if quality not in self.scores:
            self.encoded[quality] = self._encode(self._image, quality)
            self.scores[quality] = self._scored(self._form.decoded(self.encoded[quality]))
        return Converted(self.encoded[quality], self.scores[quality])

    def near(self, quality: int, target: float, checks: int, too_low: float, too_high: float) -> int:
        """The quality, starting at one, whose score is near the target; the nearest of those tried."""
        for _ in range(checks):
            if -too_low <= self.at(quality).score - target <= too_high:
                return quality
            quality = self.next(target)
            if quality in self.scores:
                break
        return min(self.scores, key=lambda each: _distance(self.scores[each] - target))

    def settled(self, quality: int, target: float) -> int:
        """The quality, not far from one, that looks as asked, or most nearly so of those tried."""
        best = self.near(quality, target, CHECKS, TOO_LOW, TOO_HIGH)
        if not -FAR_TOO_LOW <= self.scores[best] - target <= FAR_TOO_HIGH:
            best = self.near(self.next(target), target, MORE_CHECKS, FAR_TOO_LOW, FAR_TOO_HIGH)
        return best

    def next(self, target: float) -> int:
        """Between the two qualities whose scores enclose the target; on from the nearest where all are on one side."""
        below = [quality for quality, score in self.scores.items() if score < target]
        above = [quality for quality, score in self.scores.items() if score >= target]
        if below and above and max(below) < min(above):
            low, high = max(below), min(above)
            part = (target - self.scores[low]) / (self.scores[high] - self.scores[low])
            return min(max(low + round(part * (high - low)), low + 1), high - 1) if high - low > 1 else high
        nearest = max(below) if below else min(above)
        most = MAX_POINTS * len(self.scores)
        missing = min(max(target + AIMED_ABOVE - self.scores[nearest], -most), most)
        rise = rise_of(self.scores, self._form.rise)
        if missing < 0:
            rise = max(rise, STEEPER * self._form.rise)
        quality = nearest + (round(missing / rise) or (1 if below else -1))
        return min(self._form.highest, max(self._form.lowest, quality))

    def onward(self, quality: int, target: float) -> int:
        """The quality to go on with where a quality's score says how far the target is."""
        return quality if -TOO_LOW <= self.scores[quality] - target <= TOO_LOW else self.next(target)


def _distance(above: float) -> float:
    return above if above >= 0 else -above * SHORTFALL


class Found(Struct, frozen=True):
    """A quality near what the target needs, and what the sample became at it."""

    quality: int
    on_sample: Converted


def quality_for(sample: Sample, form: Form, target: float) -> Found:
    """The quality for a picture of which `sample` is all that is looked at."""
    target += OVER if sample.share < SCANT else 0
    return settled(sample, form, target, _drafted(sample, form, target))


def settled(sample: Sample, form: Form, target: float, quality: int) -> Found:
    """The same, beginning at a quality that is known to be near."""
    search = _Search(form, form.final, sample.image, sample.score)
    quality = search.settled(quality, target)
    return Found(quality, search.at(quality))


def glimpse(sample: Sample, form: Form, target: float) -> Found:
    """About the quality for a picture that `smallest` then looks at whole."""
    if sample.is_whole:
        return quality_for(sample, form, target)
    search = _Search(form, form.final, sample.image, sample.score)
    quality = search.near(_drafted(sample, form, target), target, GLIMPSES, GLIMPSE_OFF, GLIMPSE_OFF)
    return Found(search.onward(quality, target), search.at(quality))


def smallest(
    image: pyvips.Image, profile: bytes | None, form: Form, target: float, sample: Sample, found: Found | None = None
) -> Converted:
    """The smallest file of a picture in memory that looks as asked, or as nearly so as the form can.

    `found` is its `glimpse`, where that was taken already.
    """
    found = found or glimpse(sample, form, target)
    if sample.is_whole:
        return found.on_sample
    if image.width * image.height <= AT_ONCE_PIXELS:
        scored = Sample(image, WHOLE, profile).score
    else:
        scored = partial(score, image, profile=profile)
    search = _Search(form, form.final, image, scored)
    if form.even and search.at(found.quality).score < target - FELL:
        search = _Search(form, form.even, image, scored)
    return search.at(search.settled(found.quality, target))


def _drafted(sample: Sample, form: Form, target: float) -> int:
    """About the quality that a picture needs."""
    drafts = _Search(form, form.draft, sample.image, sample.score)
    if form.drafted:
        drafts.encoded[form.usual], drafts.scores[form.usual] = form.drafted.encoded, form.drafted.score
    wanted = target - form.gain
    return drafts.onward(drafts.near(_usual(form, target), wanted, DRAFTS, ROUGHLY, ROUGHLY), wanted)


def smaller(
    image: pyvips.Image, profile: bytes | None, form: Form, size_bytes: int, target: float, sample: Sample
) -> bytes | None:
    """A lossy picture in memory, encoded anew in its own format; None where it stays.

    `size_bytes` is what its data takes now, without metadata.
    Each time costs quality, so the file must be finer than anything written here: even at the highest quality that
    this writes, a draft takes much less. No result of this is so fine, so it comes back as it is.
    """
    most_bytes = WORTH_IT * size_bytes
    finest = min(form.highest, _usual(form, target) + round(FINER_POINTS / form.rise))
    if len(form.draft(image, finest)) > most_bytes:
        return None
    found = smallest(image, profile, structs.replace(form, highest=finest), target, sample)
    return found.encoded if found.reaches(target) and len(found.encoded) <= most_bytes else None


def _usual(form: Form, target: float) -> int:
    return min(form.highest, max(form.lowest, form.usual + round((target - TARGET_SCORE) / form.rise)))
