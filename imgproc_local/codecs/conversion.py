"""A still picture in another format, as small as it may be while it looks as asked.

The quality is found with quick drafts of a sample, brought right with the slow encoder on the sample, and seen to be
right on the whole result. A coarsely stored original spends its bytes on artefacts, and another format may take more
bytes to show the same: that is not answered with a picture that looks worse, for the original is there to be served.
"""

from __future__ import annotations

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

WORTH_IT = 0.85
"""So much smaller a lossy file must become to be encoded anew in its own format."""

FINER = 5
"""So far above the usual quality, at most, is it then encoded."""

CHECKED_PIXELS = 4_000_000
MANY_TILES = 54
"""Up to so many pixels a result is scored whole, above on so many tiles: two megapixels."""

DRAFTS, ROUGHLY = 3, 2.0
"""So many drafts are made, or until one comes so near the target. The slow encoder scores differently anyway."""

TOO_LOW, TOO_HIGH = 0.7, 1.2
"""So far from the target, a sample gets another quality."""

WHOLE_TOO_LOW, WHOLE_TOO_HIGH = 1.1, 1.7
"""So far from it, a whole picture whose sample was right does: it costs a whole encoding."""

SHORTFALL = 4
"""A point below the target is as far from it as so many above."""

CHECKS = 3
MAX_STEP = 15


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


def _distance(above: float) -> float:
    return above if above >= 0 else -above * SHORTFALL


def quality_for(sample: Sample, form: Form, target: float) -> tuple[int, float, Converted]:
    """The quality for a picture of which `sample` is taken, the score per step there, and what the sample became."""
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
    return quality, rise, search.at(quality)


def smallest(image: pyvips.Image, profile: bytes | None, form: Form, target: float, sample: Sample) -> Converted:
    """The smallest file of a picture in memory that looks as asked, or as nearly so as the form can."""
    quality, rise, found = quality_for(sample, form, target)
    if sample.is_whole:
        return found
    tiles = WHOLE if image.width * image.height <= CHECKED_PIXELS else MANY_TILES
    whole = Sample(image, tiles, profile)
    search = _Search(form, image, lambda decoded: whole.score(whole.part_of(decoded)), rise)
    return search.at(search.near(quality, target, WHOLE_TOO_LOW, WHOLE_TOO_HIGH))


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
    found = smallest(image, profile, structs.replace(form, highest=finest), target, sample)
    return found.encoded if found.reaches(target) and len(found.encoded) <= most_bytes else None


def _usual(form: Form, target: float) -> int:
    return min(form.highest, max(form.lowest, form.usual + round((target - TARGET_SCORE) / USUAL_RISE)))
