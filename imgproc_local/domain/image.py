"""Pictures as data: formats, headers, pixels for describers, and the words of the metadata."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Format(StrEnum):
    JPEG = "jpeg"
    PNG = "png"
    GIF = "gif"
    WEBP = "webp"
    AVIF = "avif"


class ImageInfo(Struct, frozen=True):
    """What the header of a picture says; known before decoding.

    `width_px` and `height_px` are of one frame as stored; `orientation` is EXIF's 1 to 8 (5 to 8 swap the sides).
    """

    format: Format
    width_px: int
    height_px: int
    frames: int = 1
    orientation: int = 1
    has_alpha: bool = False
    bits_per_sample: int = 8
    duration_ms: int = 0

    @property
    def pixels(self) -> int:
        """The number of pixels of all frames."""
        return self.width_px * self.height_px * self.frames

    @property
    def display_size_px(self) -> tuple[int, int]:
        """Width and height as a viewer shows them, the orientation applied."""
        if self.orientation >= 5:
            return self.height_px, self.width_px
        return self.width_px, self.height_px


class Pixels(Struct, frozen=True):
    """A scaled-down picture for describers: H×W×3 uint8 sRGB rows without padding, orientation applied.

    Transparent pixels are composited over white; `alpha_mean` is the mean opacity from 0.0 to 1.0 before that.
    """

    width_px: int
    height_px: int
    rgb: bytes
    alpha_mean: float = 1.0


class EmbeddedText(Struct, frozen=True):
    """One text found in a picture's metadata. `language` is its BCP 47 tag, None where the file does not say."""

    text: str
    language: str | None = None


class KeepLocation(StrEnum):
    """How exact the place names are that results carry. No value preserves coordinates."""

    NONE = "none"
    CITY = "city"
    ALL = "all"


class Embedded(Struct, frozen=True):
    """The words and facts in the metadata of a picture: IPTC-IIM, XMP and EXIF read into one shape, blank ones dropped.

    Names follow the IPTC Photo Metadata Standard. A text that several blocks repeat appears once.
    `created` is EXIF's DateTimeOriginal as `YYYY-MM-DD`, None where absent or not a real date.
    `gps` is (latitude, longitude) in degrees.
    """

    alt_text: tuple[EmbeddedText, ...] = ()
    extended_description: tuple[EmbeddedText, ...] = ()
    description: tuple[EmbeddedText, ...] = ()
    headline: tuple[EmbeddedText, ...] = ()
    title: tuple[EmbeddedText, ...] = ()
    keywords: tuple[EmbeddedText, ...] = ()
    event: tuple[EmbeddedText, ...] = ()
    persons: tuple[str, ...] = ()
    sublocation: str | None = None
    city: str | None = None
    province: str | None = None
    country: str | None = None
    creator: tuple[str, ...] = ()
    copyright: str | None = None
    created: str | None = None
    camera: str | None = None
    gps: tuple[float, float] | None = None


def compression_percentage(original_bytes: int, optimized_bytes: int) -> int:
    """Whole percent saved, never negative. Source: api/README.md, "Job and image"."""
    if original_bytes <= 0:
        return 0
    return max(0, round(100 * (1 - optimized_bytes / original_bytes)))
