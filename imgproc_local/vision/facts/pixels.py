"""What the pixels of a picture say for sure: its kind, black and white, its main colours, its shape.

Nothing here guesses at content. Pillow's C code does the work on pixels; Python sees some dozens of values.
"""

from __future__ import annotations

from msgspec import Struct
from PIL import Image, ImageChops, ImageStat

from imgproc_local.domain.image import Format, ImageInfo, Pixels
from imgproc_local.vision.facts.colours import FAMILIES, Rgb, dominant_colours

SAMPLE_PX = 160
PALETTE = 48

GREY_TOLERANCE = 10
"""Largest difference between channels of a grey pixel: JPEG's chroma rounding stays below it, sepia lies far above."""

MAIN_SHARE = 0.30
SECOND_SHARE = 0.15
BOTH_SHARE = 0.45
"""Least shares of the picture: of a colour said alone, of a second one, of two together."""

FLAT_SHARE = 0.60
SOFT_SHARE = 0.55
"""A graphic: most pixels equal their neighbours exactly, and of the others most differ clearly. In photographs
(noise) and paintings the opposite holds; product shots on a pure ground fail the second test."""

PANORAMA_RATIO = 2.0
OBLONG_RATIO = 1.15
SQUARE_TOLERANCE = 0.02


class PixelFacts(Struct, frozen=True):
    """`kind` is photograph, graphic, screenshot, animation or picture (not known which), `colours` has at most two
    names of `vision.colours`, `shape` is portrait, landscape, square, panorama or "" where it is none clearly."""

    kind: str
    black_and_white: bool = False
    colours: tuple[str, ...] = ()
    many_colours: bool = False
    shape: str = ""
    transparent_areas: bool = False
    empty: bool = False
    length_ms: int = 0


def look(image: Pixels, info: ImageInfo, *, from_camera: bool, is_screenshot_name: bool) -> PixelFacts:
    """What `image` shows for certain; `from_camera` and `is_screenshot_name` are proved by metadata and file name."""
    picture = Image.frombytes("RGB", (image.width_px, image.height_px), image.rgb)
    opacity = image.alpha_mean if info.has_alpha else 1.0
    if opacity < 0.005:
        return PixelFacts("picture", empty=True)
    animated = info.frames > 1
    graphic = info.format is not Format.JPEG and _is_graphic(picture, opacity)
    if animated:
        kind = "animation"
    elif is_screenshot_name:
        kind = "screenshot"
    elif graphic:
        kind = "graphic"
    elif from_camera:
        kind = "photograph"
    else:
        kind = "picture"
    sample = picture.copy()
    sample.thumbnail((SAMPLE_PX, SAMPLE_PX), Image.Resampling.BOX)
    grey = not animated and opacity > 0.98 and kind in ("photograph", "picture") and _is_black_and_white(sample)
    colours, many = ((), False) if grey else _main_colours(sample, opacity)
    return PixelFacts(
        kind,
        black_and_white=grey,
        colours=colours,
        many_colours=many,
        shape=_shape(*info.display_size_px),
        transparent_areas=opacity < 0.98,
        length_ms=info.duration_ms if animated else 0,
    )


def _is_graphic(picture: Image.Image, opacity: float) -> bool:
    width, height = picture.size
    if min(width, height) < 32:
        return False
    here = picture.crop((0, 0, width - 1, height - 1))
    right = ImageChops.difference(here, picture.crop((1, 0, width, height - 1)))
    below = ImageChops.difference(here, picture.crop((0, 1, width - 1, height)))
    red, green, blue = ImageChops.lighter(right, below).split()
    steps = ImageChops.lighter(ImageChops.lighter(red, green), blue).histogram()
    total = sum(steps)
    # transparent areas came as white: they are flat, but say nothing of the drawing
    flat = (steps[0] / total - (1 - opacity)) / opacity
    soft = sum(steps[1:9]) / total / opacity
    return flat >= FLAT_SHARE and soft <= SOFT_SHARE * (1 - flat)


def _is_black_and_white(sample: Image.Image) -> bool:
    red, green, blue = sample.split()
    spread = ImageChops.subtract(
        ImageChops.lighter(ImageChops.lighter(red, green), blue), ImageChops.darker(ImageChops.darker(red, green), blue)
    )
    coloured = sum(spread.histogram()[GREY_TOLERANCE + 1 :])
    # a plain surface has one tone and is better told by its name
    return coloured <= 0.001 * sample.width * sample.height and ImageStat.Stat(green).stddev[0] >= 12


def _main_colours(sample: Image.Image, opacity: float) -> tuple[tuple[str, ...], bool]:
    """One or two colour names, and whether there are too many to name."""
    palette_image = sample.quantize(PALETTE, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    palette = palette_image.getpalette() or []
    counts: list[tuple[int, Rgb]] = []
    for count, index in palette_image.getcolors() or []:
        assert isinstance(index, int)
        r, g, b = palette[3 * index : 3 * index + 3]
        counts.append((count, (r, g, b)))
    shares = dominant_colours(counts)
    if opacity < 0.98:
        # what lies under transparent areas is the white they came on
        shares["white"] = max(0.0, shares.get("white", 0.0) - (1 - opacity))
        total = sum(shares.values()) or 1.0
        shares = {name: share / total for name, share in sorted(shares.items(), key=lambda item: -item[1])}
    # shades of one hue count for the largest of them
    families: dict[str, tuple[str, float]] = {}
    for name, share in shares.items():
        family = FAMILIES.get(name, name)
        first, so_far = families.get(family, (name, 0.0))
        families[family] = (first, so_far + share)
    ranked = sorted(families.values(), key=lambda item: -item[1])
    hues = sum(share >= 0.06 for name, share in ranked if FAMILIES.get(name, name) not in ("white", "grey", "black"))
    main = ranked[0]
    second = ranked[1] if len(ranked) > 1 and ranked[1][1] >= SECOND_SHARE else None
    if second and main[1] + second[1] >= BOTH_SHARE:
        return (main[0], second[0]), False
    if main[1] >= MAIN_SHARE:
        return (main[0],), False
    return (), hues >= 4


def _shape(width_px: int, height_px: int) -> str:
    """Source: ISO 12231's usage of landscape and portrait; a panorama from 2:1, twice as wide as high."""
    if width_px >= PANORAMA_RATIO * height_px:
        return "panorama"
    if abs(width_px - height_px) <= SQUARE_TOLERANCE * max(width_px, height_px):
        return "square"
    if width_px >= OBLONG_RATIO * height_px:
        return "landscape"
    if height_px >= OBLONG_RATIO * width_px:
        return "portrait"
    return ""
