"""Which pictures got which text, so that one text for pictures of every kind is noticed: it describes none of them.

Two views of the same thing may well share a text. So only pictures that differ in what colours they are made of count
as others; a model that says the same of everything is soon found out.
"""

from __future__ import annotations

from imgproc_local.domain.image import Pixels

MAX_SEEN = 200
"""Texts that are remembered of each language."""
SAMPLES = 4096
QUANTILES = 16
UNLIKE = 48.0
"""Mean distance of two pictures' quantiles, in steps of 8-bit sRGB, from which on they can't show one thing: two
drawings of one scene differ by up to 41, half of all pairs of photographs by 43 and more.
"""

Look = tuple[int, ...]


def colour_profile(image: Pixels) -> Look:
    """How bright the darkest to the brightest parts are in red, green and blue: 3 × 16 quantiles, 0 to 255."""
    step = 3 * max(1, image.width_px * image.height_px // SAMPLES)
    quantiles: list[int] = []
    for channel in range(3):
        values = sorted(image.rgb[channel::step])
        quantiles += [values[len(values) * (2 * part + 1) // (2 * QUANTILES)] for part in range(QUANTILES)]
    return tuple(quantiles)


class TextHistory:
    """The last texts of each language, with the look of the picture that had each first."""

    def __init__(self) -> None:
        self._looks: dict[str, dict[str, Look]] = {}

    def on_unlike(self, look: Look, language: str, text: str) -> bool:
        """Whether a picture of quite another look has this text; if none has, this one has from now on."""
        looks = self._looks.setdefault(language, {})
        key = " ".join(text.casefold().split())
        first = looks.pop(key, look)
        looks[key] = first
        if len(looks) > MAX_SEEN:
            del looks[next(iter(looks))]
        return sum(abs(one - other) for one, other in zip(first, look, strict=True)) / len(look) > UNLIKE
