"""Detects when a model generates the same text for dissimilar pictures: such a text describes none of them.

Similar pictures, such as two views of one subject, may have the same text. Similarity is measured by colour.
"""

from __future__ import annotations

from imgproc_local.domain.image import Pixels

MAX_TEXTS = 200
"""The number of texts per language that are remembered."""
MIN_SAMPLES = 4096
"""Larger pictures are subsampled to at least this many pixels."""
QUANTILES = 16
MIN_DISTANCE = 48.0
"""Pictures are dissimilar if the mean absolute difference of their quantiles (0 to 255) is above this threshold.

Measured: at most 41 for two drawings of one scene; the median for two different photographs is 43."""

ColourQuantiles = tuple[int, ...]


def colour_quantiles(image: Pixels) -> ColourQuantiles:
    """For each of the red, green and blue channels, QUANTILES quantiles of its values (0 to 255)."""
    step = 3 * max(1, image.width_px * image.height_px // MIN_SAMPLES)
    quantiles: list[int] = []
    for channel in range(3):
        values = sorted(image.rgb[channel::step])
        quantiles += [values[len(values) * (2 * part + 1) // (2 * QUANTILES)] for part in range(QUANTILES)]
    return tuple(quantiles)


class TextHistory:
    """The latest MAX_TEXTS texts per language, each with the colours of the first picture that it described."""

    def __init__(self) -> None:
        self._first_colours: dict[str, dict[str, ColourQuantiles]] = {}

    def check_and_record(self, colours: ColourQuantiles, language: str, text: str) -> bool:
        """Record the text, and return whether it was first generated for a dissimilar picture."""
        known = self._first_colours.setdefault(language, {})
        key = " ".join(text.casefold().split())
        first = known.pop(key, colours)
        known[key] = first
        if len(known) > MAX_TEXTS:
            del known[next(iter(known))]
        return sum(abs(a - b) for a, b in zip(first, colours, strict=True)) / len(colours) > MIN_DISTANCE
