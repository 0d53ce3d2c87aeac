"""Pictures as data: file formats, headers, decoded pixels, and the texts in the metadata."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, get_args

from msgspec import Struct

from imgproc_local.domain.privacy import Removed


class Format(StrEnum):
    """The file formats that the service reads. The values are their names in the HTTP interface.

    TIFF, JPEG XL and HEIC are accepted from the command line and the local page only.
    """

    JPEG = "jpeg"
    PNG = "png"
    GIF = "gif"
    WEBP = "webp"
    AVIF = "avif"
    TIFF = "tiff"
    JXL = "jxl"
    HEIC = "heic"


ConvertTarget = Literal["webp", "avif", "jxl"]
"""The formats that pictures are converted to, by their names in the HTTP interface. Schemas, messages, choices and the
local page are made from this list.
"""
CONVERT_TARGETS = tuple(Format(name) for name in get_args(ConvertTarget))

READ_ONLY_FORMATS = (Format.TIFF, Format.JXL, Format.HEIC)
"""Formats that are decoded, but not optimized: the optimized file has another format."""


class ScaledSize(Struct, frozen=True):
    """The displayed size of a picture after both sides were multiplied by `factor`, which is below 1, and rounded.

    Each side has at least 1 pixel.
    """

    width_px: int
    height_px: int
    factor: float


HDR_TRANSFERS = (16, 18)
"""The codes of PQ and HLG. Source: ITU-T H.273, 8.2."""


class CodedColours(Struct, frozen=True):
    """Colours that numbers define in place of a profile: HDR, or a wide gamut.

    `primaries` and `transfer` are the codes of ITU-T H.273 (CICP). `max_nits` is the light of the brightest pixel of an
    HDR picture in cd/m², None where the file does not say it.
    """

    primaries: int
    transfer: int
    max_nits: float | None = None

    @property
    def is_hdr(self) -> bool:
        """Whether the samples are coded by PQ or HLG."""
        return self.transfer in HDR_TRANSFERS


class ImageInfo(Struct, frozen=True):
    """The properties of a picture that its header states, known before decoding.

    `width_px` and `height_px` are those of one frame as stored, before `orientation` is applied. `orientation` is the
    EXIF value from 1 to 8; values from 5 to 8 swap width and height. If a file has several `pages`, the other
    properties are those of the first, the only one processed. `taken_at` is when the picture was taken, in the time of
    the camera: an ISO 8601 date and time without a zone, None if the file does not say. `colours` is None for sRGB and
    where a profile defines the colours. A gain map says how much brighter the pixels are on HDR displays.
    """

    format: Format
    width_px: int
    height_px: int
    frames: int = 1
    orientation: int = 1
    has_alpha: bool = False
    bits_per_sample: int = 8
    pages: int = 1
    taken_at: str | None = None
    colours: CodedColours | None = None
    has_gain_map: bool = False

    @property
    def pixels(self) -> int:
        """The number of pixels of all frames."""
        return self.width_px * self.height_px * self.frames

    @property
    def display_size_px(self) -> tuple[int, int]:
        """Width and height as displayed, with the orientation applied."""
        if self.orientation >= 5:
            return self.height_px, self.width_px
        return self.width_px, self.height_px

    def scaled_within(self, max_width_px: int | None, max_height_px: int | None) -> ScaledSize | None:
        """The size after scaling down to fit inside both limits; None if the picture fits already."""
        width_px, height_px = self.display_size_px
        factor = min((max_width_px or width_px) / width_px, (max_height_px or height_px) / height_px)
        if factor >= 1:
            return None
        return ScaledSize(max(1, int(width_px * factor + 0.5)), max(1, int(height_px * factor + 0.5)), factor)


class Pixels(Struct, frozen=True):
    """A decoded picture, scaled down to a thumbnail.

    `rgb` is H×W×3 uint8 sRGB, rows from the top without padding, orientation applied. Transparent pixels are composited
    over white; `alpha_mean` is the mean opacity before that, from 0.0 (transparent) to 1.0 (opaque).
    """

    width_px: int
    height_px: int
    rgb: bytes
    alpha_mean: float = 1.0


class EmbeddedText(Struct, frozen=True):
    """One text in a picture's metadata. `language` is its BCP 47 tag, None if the file does not state one."""

    text: str
    language: str | None = None


class KeepLocation(StrEnum):
    """Which place names a result preserves: none, from country to city, or all. Coordinates are always removed."""

    NONE = "none"
    CITY = "city"
    ALL = "all"


class NamePeople(StrEnum):
    """Which names of persons in the metadata a result has, and the texts that are written for it: those in captions and
    alt texts, all, also those of face tags and PersonInImage, or none but those in a person's alt text."""

    CAPTIONS = "captions"
    ALL = "all"
    NONE = "none"


class Kept(StrEnum):
    """What a result preserves of the camera's and the catalogue's own fields, if it is asked for: when the picture was
    taken, digitised and modified; camera, lens and exposure, without serial numbers; rating and label."""

    DATES = "dates"
    CAMERA = "camera"
    RATING = "rating"


class Disclosure(Struct, frozen=True):
    """What results may say of places, persons, dates, the camera and the rating."""

    keep_location: KeepLocation = KeepLocation.CITY
    name_people: NamePeople = NamePeople.CAPTIONS
    kept: frozenset[Kept] = frozenset()


EVERYTHING = Disclosure(KeepLocation.ALL, NamePeople.ALL, frozenset(Kept))
"""Keeps all that a result may say, whatever it was made with."""


class EmbeddedMetadata(Struct, frozen=True):
    """What the metadata of a picture says about it: IPTC-IIM, XMP and EXIF merged, without blank values.

    Field names follow the IPTC Photo Metadata Standard. A text that several blocks repeat appears once.
    `alt_text` and `extended_description` are those of persons, `model_alt_text` and `model_extended_description` those
    that a vision model wrote in an earlier run of this program.
    `created` is EXIF's DateTimeOriginal as `YYYY-MM-DD`; None if it is missing or not a calendar date.
    `removed` are the kinds of private data that were removed from the texts.
    """

    alt_text: tuple[EmbeddedText, ...] = ()
    model_alt_text: tuple[EmbeddedText, ...] = ()
    extended_description: tuple[EmbeddedText, ...] = ()
    model_extended_description: tuple[EmbeddedText, ...] = ()
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
    removed: tuple[Removed, ...] = ()


def compression_percentage(original_bytes: int, optimized_bytes: int) -> int:
    """The bytes saved, as a rounded percentage of the original, at least 0. Source: api/README.md, "Job and image"."""
    if original_bytes <= 0:
        return 0
    return max(0, round(100 * (1 - optimized_bytes / original_bytes)))
