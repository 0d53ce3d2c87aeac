"""Detects a text that a model repeats for unlike pictures: such a text describes none of them.

Two views of one subject may have the same text. So a repetition only counts if the colours of the two pictures differ.
"""

from __future__ import annotations

from imgproc_local.domain.image import Pixels

MAX_TEXTS = 200
"""Texts that are remembered per language."""
SAMPLES = 4096
QUANTILES = 16
MIN_DISTANCE = 48.0
"""Mean difference between the quantiles of two pictures, in 8-bit steps, above which they are unlike. Measured: up to
41 between two drawings of one scene, at least 43 for half of all pairs of photographs."""

ColourProfile = tuple[int, ...]


def colour_profile(image: Pixels) -> ColourProfile:
    """16 quantiles (0 to 255) of each of the red, green and blue channel."""
    step = 3 * max(1, image.width_px * image.height_px // SAMPLES)
    quantiles: list[int] = []
    for channel in range(3):
        values = sorted(image.rgb[channel::step])
        quantiles += [values[len(values) * (2 * part + 1) // (2 * QUANTILES)] for part in range(QUANTILES)]
    return tuple(quantiles)


class TextHistory:
    """The last texts of each language, with the colour profile of the first picture that each described."""

    def __init__(self) -> None:
        self._profiles: dict[str, dict[str, ColourProfile]] = {}

    def is_of_unlike_picture(self, profile: ColourProfile, language: str, text: str) -> bool:
        """Whether an unlike picture had this text before. A text that is new is recorded with this picture."""
        profiles = self._profiles.setdefault(language, {})
        key = " ".join(text.casefold().split())
        first = profiles.pop(key, profile)
        profiles[key] = first
        if len(profiles) > MAX_TEXTS:
            del profiles[next(iter(profiles))]
        return sum(abs(a - b) for a, b in zip(first, profile, strict=True)) / len(profile) > MIN_DISTANCE
