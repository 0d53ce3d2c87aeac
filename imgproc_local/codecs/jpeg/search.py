"""The smallest JPEG of a picture in memory that looks as asked: ways to write it, and for each the quality.

What came as a JPEG loses most in its colours when it is encoded again: where they are stored at half the size they are
enlarged, averaged and stored coarsely once more. Yet they take few of its bytes. So they keep their coefficients where
they can, and only the brightness is encoded anew: at equal score that takes a tenth fewer bytes.

The quality is searched on a sample. Up to `CHECKED_PIXELS` the whole is scored then; in larger pictures the sample errs
little.
"""

from __future__ import annotations

import logging

from msgspec import Struct

from imgproc_local.codecs.container import jpeg as container
from imgproc_local.codecs.decode import CheckStop
from imgproc_local.codecs.jpeg.encoders import HIGHEST, LOWEST, Encoder, encoders, for_calm_pictures, with_stored_colour
from imgproc_local.codecs.libvips import pyvips
from imgproc_local.codecs.quality.sample import WHOLE, Sample

log = logging.getLogger(__name__)

HOPELESS = 1.03
"""So much larger than is worth it by a draft, the whole is not packed."""

CHECKED_PIXELS = 4_000_000
OVER, OVER_UNCHECKED = 0.15, 0.5
"""So much more than the target is aimed at where the whole is scored, and where it isn't: samples promise a little too
much.
"""

NEAR = 0.35
"""Half a step of quality: the search seldom comes nearer to what is aimed at."""

MOST_BELOW = 0.7
TOO_LITTLE = 1.5
"""How much worse than too much of a score too little is."""

MAX_PROBES = 6
CHECKS, MAX_CHECKS = 2, 4
"""So often the whole is scored, and at most while it looks worse than it may."""

START = 88
START_PER_STEP = 0.42
"""Where the search begins; for brightness alone so much lower for each step of quantisation that came, in the mean."""

USUAL_RISE, MIN_RISE, MAX_RISE = 0.9, 0.25, 3.0
"""Score per step of quality: where nothing is known, and what is believed."""

COLOUR_IS_CHEAP = 1.05
"""Up to so much larger at the same quality, a JPEG with the colours that came is smaller at the same score."""

CALM_BITS_PER_PIXEL = 0.2
LUMA = [[0.299, 0.587, 0.114]]
"""Source: JFIF 1.02, conversion to and from RGB."""


class Stored(Struct, frozen=True):
    """A JPEG and its EXIF orientation."""

    data: bytes
    orientation: int


class Found(Struct, frozen=True):
    """The quality at which a picture looks as asked, and its scores by quality."""

    encoder: Encoder
    quality: int
    scores: dict[int, float]


def smallest(
    image: pyvips.Image,
    profile: bytes | None,
    stored: Stored | None,
    target: float,
    most_bytes: int,
    check_stop: CheckStop,
) -> bytes | None:
    """The file of a picture of 8 bits, grey or RGB; None where it would take more than `most_bytes`.

    `stored` is where these very pixels come from, None where they were changed since.
    Raises: what `check_stop` raises.
    """
    pixels = image.width * image.height
    sample = Sample(image, profile=profile)
    checked = sample.is_whole or pixels <= CHECKED_PIXELS
    aim = target + (OVER if checked else OVER_UNCHECKED)
    drafted = _smallest_draft(image, sample, stored, aim, check_stop)
    if drafted is None:
        return None
    found, draft = drafted
    whole = Sample(image, WHOLE, profile) if checked and not sample.is_whole else None
    if whole is not None:
        found, draft = _settled(image, found, draft, whole, aim, check_stop)
        if found.scores[found.quality] < aim - MOST_BELOW:  # it can't look as asked with colours at half the size
            other = search(encoders(image, large=False)[1:], sample, aim, check_stop)
            if other is not None:
                draft = other.encoder.draft(image, other.quality, check_stop)
                found, draft = _settled(image, other, draft, whole, aim, check_stop)
    if len(draft) > most_bytes and not sample.is_whole:
        part = found.encoder.draft(sample.image, found.quality, check_stop)
        packed = found.encoder.packed(sample.image, found.quality, part, check_stop)
        if len(draft) * len(packed) > HOPELESS * most_bytes * len(part):
            return None
    encoded = found.encoder.packed(image, found.quality, draft, check_stop)
    if 8 * len(encoded) < CALM_BITS_PER_PIXEL * pixels:
        calm = search([for_calm_pictures()], sample, aim, check_stop)
        if calm is not None and whole is not None:
            draft = calm.encoder.draft(image, calm.quality, check_stop)
            calm, draft = _settled(image, calm, draft, whole, aim, check_stop)
        if calm is not None and calm.scores[calm.quality] >= aim - MOST_BELOW:
            encoded = min(encoded, calm.encoder.packed(image, calm.quality, draft, check_stop), key=len)
    return encoded if len(encoded) <= most_bytes else None


def _smallest_draft(
    image: pyvips.Image, sample: Sample, stored: Stored | None, aim: float, check_stop: CheckStop
) -> tuple[Found, bytes] | None:
    ways = encoders(image, large=False)
    keeping = None if stored is None else with_stored_colour(ways[0], stored.data, stored.orientation)
    kept, kept_draft = None, b""
    if keeping is not None and stored is not None:
        try:
            # not from the file's size: the same pixels in fewer bytes must lead to the same end
            steps = container.luma_quantization(stored.data)
            start = max(LOWEST, round(START - START_PER_STEP * sum(steps) / len(steps)))
            kept = search([keeping], sample, aim, check_stop, start)
            if kept is not None:
                plain = keeping.draft(image, kept.quality, check_stop)
                kept_draft = keeping.spliced(plain)
                if len(kept_draft) <= COLOUR_IS_CHEAP * len(plain):
                    return kept, kept_draft
        except ValueError as error:
            log.debug("A JPEG's colours are encoded anew: %s", error)
            kept = None
    found = search(ways, sample, aim, check_stop)
    if found is None:
        return None if kept is None else (kept, kept_draft)
    draft = found.encoder.draft(image, found.quality, check_stop)
    return (found, draft) if kept is None or len(draft) < len(kept_draft) else (kept, kept_draft)


def _settled(
    image: pyvips.Image, found: Found, draft: bytes, whole: Sample, aim: float, check_stop: CheckStop
) -> tuple[Found, bytes]:
    """The quality at which the whole picture looks as asked, near that of the sample, with its scores and its draft."""
    quality = found.quality
    drafts = {quality: draft}
    scores: dict[int, float] = {}
    while quality not in scores:
        if quality not in drafts:
            drafts[quality] = found.encoder.spliced(found.encoder.draft(image, quality, check_stop))
        scores[quality] = whole.score(pyvips.Image.jpegload_buffer(drafts[quality]))
        best = _best(scores, aim)
        # the sample's scores, so much higher or lower, say what another quality will give
        shift = scores[best] - found.scores.get(best, scores[best])
        expected = {each: score + shift for each, score in found.scores.items()} | scores
        checks = CHECKS if scores[best] >= aim - MOST_BELOW else MAX_CHECKS
        if len(scores) >= checks or _next(scores, aim) is None:
            break
        quality = _next(expected, aim) or _best(expected, aim)
    best = _best(scores, aim)
    return Found(found.encoder, best, scores), drafts[best]


def search(ways: list[Encoder], sample: Sample, aim: float, check_stop: CheckStop, start: int = START) -> Found | None:
    """The quality whose score is next to `aim`, of the first way that gets there."""
    for encoder in ways:
        scores: dict[int, float] = {}
        quality: int | None = start
        while quality is not None and len(scores) < MAX_PROBES:
            scores[quality] = _score(sample, encoder, quality, check_stop)
            quality = _next(scores, aim)
        enough = {quality: score for quality, score in scores.items() if score >= aim - MOST_BELOW}
        if enough:
            return Found(encoder, _best(enough, aim), scores)
    return None


def _score(sample: Sample, encoder: Encoder, quality: int, check_stop: CheckStop) -> float:
    draft = encoder.draft(sample.image, quality, check_stop)
    if encoder.stored is None:
        return sample.score(pyvips.Image.jpegload_buffer(draft))
    if sample.is_whole:
        return sample.score(pyvips.Image.jpegload_buffer(encoder.spliced(draft)))
    # where colours stay, a change of brightness is the same in red, green and blue
    change = (pyvips.Image.jpegload_buffer(draft) - sample.image).recomb(LUMA)
    return sample.score((sample.image + change).rint().cast("uchar").copy(interpretation="srgb"))


def _next(scores: dict[int, float], aim: float) -> int | None:
    """The quality to ask next, None where no other will come nearer."""
    if abs(scores[_best(scores, aim)] - aim) <= NEAR:
        return None
    below = max((quality for quality, score in scores.items() if score < aim), default=None)
    above = min((quality for quality in scores if scores[quality] >= aim and quality > (below or 0)), default=None)
    if below is not None and above is not None:
        if above - below <= 1:
            return None
        part = (aim - scores[below]) / (scores[above] - scores[below])
        return min(max(round(below + part * (above - below)), below + 1), above - 1)
    end = max(scores) if above is None else min(scores)
    steps = (aim - scores[end]) / _rise(scores)
    guess = end + (max(1, round(steps)) if above is None else min(-1, round(steps)))
    guess = min(max(guess, LOWEST), HIGHEST)
    return None if guess in scores else guess


def _best(scores: dict[int, float], aim: float) -> int:
    return min(scores, key=lambda quality: max(scores[quality] - aim, TOO_LITTLE * (aim - scores[quality])))


def _rise(scores: dict[int, float]) -> float:
    """Score per step of quality: between the two asked last, a usual one at first."""
    if len(scores) < 2:
        return USUAL_RISE
    one, other = list(scores)[-2:]
    return min(max((scores[other] - scores[one]) / (other - one), MIN_RISE), MAX_RISE)
