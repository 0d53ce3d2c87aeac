"""Searches for the smallest JPEG that meets the target score, with several encoders and a quality setting for each.

Encoding a JPEG again harms its chroma most, which takes few of the bytes: it is stored at half the resolution, so it is
enlarged, averaged and quantised a second time. Where possible, the chroma coefficients of the original are preserved
and only luma is encoded again. At equal score this takes a tenth fewer bytes.

The quality is searched on a sample. Pictures of up to `MAX_SCORED_PIXELS` are then scored as a whole, except with the
effort "fast"; for larger ones the score of the sample is accurate enough.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from math import inf

from msgspec import Struct

from imgproc_local.codecs.container import jpeg as container
from imgproc_local.codecs.jpeg.encoders import (
    HIGHEST_QUALITY,
    LOWEST_QUALITY,
    Encoder,
    Original,
    encoders,
    low_detail_encoder,
    with_chroma_of,
)
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.codecs.quality.sample import WHOLE, Sample
from imgproc_local.codecs.quality.search import Limits, QualityScale, SearchResult, Tolerance, best_quality, search
from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.plan import Effort

log = logging.getLogger(__name__)

SCALE = QualityScale(lowest=LOWEST_QUALITY, initial=88, highest=HIGHEST_QUALITY, slope=0.9)
MAX_SHORTFALL = 0.7
"""A result may score this many points less than the aim: the target plus a margin."""

SAMPLE_LIMITS = Limits(close=Tolerance(0.35, 0.35), max_trials=6)
WHOLE_LIMITS = Limits(Tolerance(0.35, 0.35), max_trials=2, acceptable=Tolerance(MAX_SHORTFALL, inf), max_extra_trials=2)

MARGIN, SAMPLE_ONLY_MARGIN = 0.15, 0.5
"""Points added to the target. The second value is used where only a sample of the picture is scored, because samples
score a little higher than the whole.
"""

MAX_SCORED_PIXELS = 4_000_000
"""Larger pictures are scored by a sample only."""

SKIP_IF_OVER_BUDGET = 1.03
"""The final encoding is skipped if the sample predicts a file larger than this multiple of the allowed size."""

QUALITY_PER_QUANTIZATION_STEP = 0.42
"""With preserved chroma, the initial quality of the search is lowered by this number times the mean of the original's
luma quantisation table.
"""

MAX_PRESERVED_CHROMA_SIZE_RATIO = 1.05
"""At the same quality setting, a JPEG with preserved chroma scores higher than one with chroma encoded again. So it is
chosen if its size is at most this multiple of the other's.
"""

LOW_DETAIL_BITS_PER_PIXEL = 0.2
"""A result with fewer bits per pixel shows little detail, and another quantisation table may make it smaller."""

LUMA_WEIGHTS = [[0.299, 0.587, 0.114]]
"""The weights of red, green and blue in luma. Source: JFIF 1.02, conversion to and from RGB."""


class Choice(Struct, frozen=True):
    """An encoder, the quality setting at which its score is nearest to the aim, and its scores by quality setting."""

    encoder: Encoder
    quality: int
    scores: dict[int, float]

    def meets(self, aim: float) -> bool:
        return self.scores[self.quality] >= aim - MAX_SHORTFALL


class _Task(Struct, frozen=True):
    """The picture to encode, and the score to aim at. `whole` is None if only `sample` is scored or it is the whole."""

    image: pyvips.Image
    sample: Sample
    whole: Sample | None
    aim: float
    check_stop: CheckStop

    def draft(self, choice: Choice) -> bytes:
        return choice.encoder.draft(self.image, choice.quality, self.check_stop)

    def final(self, choice: Choice, draft: bytes) -> bytes:
        return choice.encoder.final(self.image, choice.quality, draft, self.check_stop)


def smallest(
    image: pyvips.Image,
    profile: bytes | None,
    original: Original | None,
    target: float,
    max_bytes: int,
    check_stop: CheckStop,
    effort: Effort = "balanced",
) -> bytes | None:
    """The smallest JPEG of an 8-bit picture, grey or RGB.

    None if it would take more than `max_bytes`, or no encoder meets the target on the sample.
    `original` is the JPEG that `image` was decoded from, None if its pixels were changed after decoding.
    Raises: what `check_stop` raises.
    """
    pixels = image.width * image.height
    sample = Sample(image, profile=profile)
    scored = sample.is_whole or (effort != "fast" and pixels <= MAX_SCORED_PIXELS)
    whole = Sample(image, WHOLE, profile) if scored and not sample.is_whole else None
    task = _Task(image, sample, whole, target + (MARGIN if scored else SAMPLE_ONLY_MARGIN), check_stop)
    chosen = _smallest_draft(task, original)
    if chosen is None:
        return None
    choice, draft = _refined(task, *chosen)
    if not choice.meets(task.aim):
        other = choose(encoders(image, large=False)[1:], sample, task.aim, check_stop)  # chroma in full resolution
        if other is not None:
            choice, draft = _refined(task, other, task.draft(other))
    if len(draft) > max_bytes and not sample.is_whole:
        # the final encoding is expected to be smaller than its draft by the same factor as on the sample
        sample_draft = choice.encoder.draft(sample.image, choice.quality, check_stop)
        sample_final = choice.encoder.final(sample.image, choice.quality, sample_draft, check_stop)
        if len(draft) * len(sample_final) > SKIP_IF_OVER_BUDGET * max_bytes * len(sample_draft):
            return None
    encoded = task.final(choice, draft)
    if 8 * len(encoded) < LOW_DETAIL_BITS_PER_PIXEL * pixels and effort != "fast":
        low_detail = choose([low_detail_encoder()], sample, task.aim, check_stop)
        if low_detail is not None:
            # mozjpeg needs the draft only to score it
            low_detail, draft = _refined(task, low_detail, b"" if whole is None else task.draft(low_detail))
            if low_detail.meets(task.aim):
                encoded = min(encoded, task.final(low_detail, draft), key=len)
    return encoded if len(encoded) <= max_bytes else None


def choose(
    candidates: Sequence[Encoder], sample: Sample, aim: float, check_stop: CheckStop, start: int = SCALE.initial
) -> Choice | None:
    """The first of `candidates` that meets `aim` on the sample, None if none does. The search begins at `start`."""
    for encoder in candidates:

        def attempt(quality: int, encoder: Encoder = encoder) -> SearchResult:
            draft = encoder.draft(sample.image, quality, check_stop)
            return SearchResult(quality, draft, _score(sample, encoder, draft))

        trials = search(attempt, SCALE, SAMPLE_LIMITS, aim, start)
        scores = {quality: trial.score for quality, trial in trials.items()}
        passing = {quality: score for quality, score in scores.items() if score >= aim - MAX_SHORTFALL}
        if passing:
            return Choice(encoder, best_quality(passing, aim), scores)
    return None


def _smallest_draft(task: _Task, original: Original | None) -> tuple[Choice, bytes] | None:
    """The choice with the smallest draft of the whole picture, and the draft. None if none meets the aim on the sample.

    Preserved chroma is chosen without a comparison if its draft is hardly larger than with chroma encoded again.
    """
    candidates, drafts = encoders(task.image, large=False), []
    preserved = None if original is None else _with_preserved_chroma(task, candidates[0], original)
    if preserved is not None:
        choice, draft, unspliced_bytes = preserved
        if len(draft) <= MAX_PRESERVED_CHROMA_SIZE_RATIO * unspliced_bytes:
            return choice, draft
        drafts.append((choice, draft))
    other = choose(candidates, task.sample, task.aim, task.check_stop)
    if other is not None:
        drafts.insert(0, (other, task.draft(other)))
    return min(drafts, key=lambda each: len(each[1]), default=None)


def _with_preserved_chroma(task: _Task, encoder: Encoder, original: Original) -> tuple[Choice, bytes, int] | None:
    """The choice with the chroma of the original, its draft, and the draft's size with chroma encoded again."""
    preserving = with_chroma_of(original, encoder)
    if preserving is None:
        return None
    # the start does not depend on the file's size: the same pixels in fewer bytes must give the same result
    steps = container.luma_quantization(original.data)
    start = SCALE.clamped(round(SCALE.initial - QUALITY_PER_QUANTIZATION_STEP * sum(steps) / len(steps)))
    try:
        choice = choose([preserving], task.sample, task.aim, task.check_stop, start)
        if choice is None:
            return None
        unspliced = task.draft(choice)
        return choice, preserving.spliced(unspliced), len(unspliced)
    except ValueError as error:
        log.debug("The chroma of a JPEG can't be preserved and is encoded again: %s", error)
        return None


def _refined(task: _Task, choice: Choice, draft: bytes) -> tuple[Choice, bytes]:
    """The choice and its draft after scoring the whole picture; unchanged if only the sample is scored."""
    whole = task.whole
    if whole is None:
        return choice, draft

    def attempt(quality: int) -> SearchResult:
        encoded = draft
        if quality != choice.quality:
            encoded = choice.encoder.spliced(choice.encoder.draft(task.image, quality, task.check_stop))
        return SearchResult(quality, encoded, whole.score(pyvips.Image.jpegload_buffer(encoded)))

    trials = search(attempt, SCALE, WHOLE_LIMITS, task.aim, choice.quality, choice.scores)
    scores = {quality: trial.score for quality, trial in trials.items()}
    best = best_quality(scores, task.aim)
    return Choice(choice.encoder, best, scores), trials[best].encoded


def _score(sample: Sample, encoder: Encoder, draft: bytes) -> float:
    if encoder.original is None:
        return sample.score(pyvips.Image.jpegload_buffer(draft))
    if sample.is_whole:
        return sample.score(pyvips.Image.jpegload_buffer(encoder.spliced(draft)))
    # tiles can't be spliced; with preserved chroma, a change of luma changes red, green and blue by the same amount
    change = (pyvips.Image.jpegload_buffer(draft) - sample.image).recomb(LUMA_WEIGHTS)
    return sample.score((sample.image + change).rint().cast("uchar").copy(interpretation="srgb"))
