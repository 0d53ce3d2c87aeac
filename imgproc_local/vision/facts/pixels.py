"""Measures the pixels of a picture: its kind, main colours and shape, and whether it is black and white.

Content is never guessed. Pillow's C code processes the pixels; Python only sees histograms and small palettes.
"""

from __future__ import annotations

from PIL import Image, ImageChops, ImageStat

from imgproc_local.domain.image import EmbeddedMetadata, Format, ImageInfo, Pixels
from imgproc_local.vision.describer import PixelFacts
from imgproc_local.vision.facts.colours import FAMILIES, Rgb, colour_shares
from imgproc_local.vision.text.screenshot_name import is_screenshot_name

SAMPLE_SIDE_PX = 160
"""Colours are measured in a copy whose sides are at most this long."""
PALETTE_SIZE = 48
"""The number of colours to which that copy is quantised."""
MIN_VISIBLE_OPACITY = 0.005
"""Mean opacity (0 to 1) below which a picture counts as fully transparent."""
MIN_OPAQUE_OPACITY = 0.98
"""Mean opacity below which a picture counts as having transparent areas."""

GREY_TOLERANCE = 10
"""Largest difference between the channels of a grey pixel, in 8-bit steps. The rounding of chroma in a JPEG
remains below it; sepia exceeds it."""
MAX_COLOURED_SHARE = 0.001
"""Maximum share of the pixels (0 to 1) that are coloured in a black-and-white picture."""
MIN_BLACK_AND_WHITE_DEVIATION = 12
"""Minimum standard deviation of a black-and-white picture, in 8-bit steps. A surface of one grey is not called black
and white, because the name of its grey says more."""

MIN_MAIN_SHARE = 0.30
"""Minimum share of the picture's area for a colour to be named alone."""
MIN_SECOND_SHARE = 0.15
MIN_PAIR_SHARE = 0.45
"""Two colours are named if the second has at least `MIN_SECOND_SHARE` and both together have `MIN_PAIR_SHARE`."""

MIN_FLAT_SHARE = 0.60
MAX_SOFT_SHARE = 0.55
"""A picture is a graphic if at least `MIN_FLAT_SHARE` of its pixels equal their neighbours, and at most
`MAX_SOFT_SHARE` of the other pixels differ from their neighbours by at most `SOFT_DIFFERENCE`. Photographs fail the
first test because of noise; product photographs on a plain background fail the second."""
SOFT_DIFFERENCE = 8
"""The largest difference that counts as soft, in 8-bit steps."""
MIN_GRAPHIC_SIDE_PX = 32
"""Smaller pictures have too few pixels for these tests."""

MIN_PANORAMA_RATIO = 2.0
"""Minimum ratio of width to height of a panorama."""
MIN_LONG_SIDE_RATIO = 1.15
"""Minimum ratio of the longer to the shorter side of a landscape or portrait picture."""
SQUARE_TOLERANCE = 0.02
"""Maximum difference of the sides of a square picture, as a share of the longer side."""

MIN_HUE_SHARE = 0.06
MANY_HUES = 4
"""A picture without a main colour has "many colours" if at least `MANY_HUES` hues cover `MIN_HUE_SHARE` each."""


def pixel_facts(image: Pixels, info: ImageInfo, embedded: EmbeddedMetadata, original_filename: str) -> PixelFacts:
    """The measurements of `image`. Its metadata and its file name help to determine its kind."""
    return measure(
        image,
        info,
        # a date would not prove a camera: operating systems also write one into screenshots
        from_camera=embedded.camera is not None,
        is_screenshot=is_screenshot_name(original_filename),
    )


def measure(image: Pixels, info: ImageInfo, *, from_camera: bool, is_screenshot: bool) -> PixelFacts:
    """The measurements of `image`. `from_camera` is whether the metadata name a camera, `is_screenshot` whether
    the file name is that of a screenshot."""
    picture = Image.frombytes("RGB", (image.width_px, image.height_px), image.rgb)
    opacity = image.alpha_mean if info.has_alpha else 1.0
    if opacity < MIN_VISIBLE_OPACITY:
        return PixelFacts("picture", fully_transparent=True)
    graphic = info.format is not Format.JPEG and _is_graphic(picture, opacity)
    if info.frames > 1:
        kind = "animation"
    elif is_screenshot:
        kind = "screenshot"
    elif graphic:
        kind = "graphic"
    elif from_camera:
        kind = "photograph"
    else:
        kind = "picture"
    sample = picture.copy()
    sample.thumbnail((SAMPLE_SIDE_PX, SAMPLE_SIDE_PX), Image.Resampling.BOX)
    black_and_white = kind in ("photograph", "picture") and opacity > MIN_OPAQUE_OPACITY and _is_black_and_white(sample)
    colours, many_colours = ((), False) if black_and_white else _main_colours(sample, opacity)
    return PixelFacts(
        kind,
        black_and_white=black_and_white,
        colours=colours,
        many_colours=many_colours,
        shape=_shape(*info.display_size_px),
        has_transparent_areas=opacity < MIN_OPAQUE_OPACITY,
    )


def _is_graphic(picture: Image.Image, opacity: float) -> bool:
    """Whether the pixels look drawn: flat areas with sharp edges. `opacity` is the mean opacity, 0 to 1."""
    width, height = picture.size
    if min(width, height) < MIN_GRAPHIC_SIDE_PX:
        return False
    inner = picture.crop((0, 0, width - 1, height - 1))
    right = ImageChops.difference(inner, picture.crop((1, 0, width, height - 1)))
    below = ImageChops.difference(inner, picture.crop((0, 1, width - 1, height)))
    red, green, blue = ImageChops.lighter(right, below).split()
    differences = ImageChops.lighter(ImageChops.lighter(red, green), blue).histogram()
    total = sum(differences)
    # transparent areas are uniformly white here: flat, but not part of the drawing
    flat = (differences[0] / total - (1 - opacity)) / opacity
    soft = sum(differences[1 : SOFT_DIFFERENCE + 1]) / total / opacity
    return flat >= MIN_FLAT_SHARE and soft <= MAX_SOFT_SHARE * (1 - flat)


def _is_black_and_white(sample: Image.Image) -> bool:
    red, green, blue = sample.split()
    spread = ImageChops.subtract(
        ImageChops.lighter(ImageChops.lighter(red, green), blue), ImageChops.darker(ImageChops.darker(red, green), blue)
    )
    coloured = sum(spread.histogram()[GREY_TOLERANCE + 1 :])
    is_grey = coloured <= MAX_COLOURED_SHARE * sample.width * sample.height
    return is_grey and ImageStat.Stat(green).stddev[0] >= MIN_BLACK_AND_WHITE_DEVIATION


def _main_colours(sample: Image.Image, opacity: float) -> tuple[tuple[str, ...], bool]:
    """The names of the one or two main colours, and whether there are many colours instead of main ones."""
    quantized = sample.quantize(PALETTE_SIZE, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    palette = quantized.getpalette() or []
    counts: list[tuple[int, Rgb]] = []
    for count, index in quantized.getcolors() or []:
        assert isinstance(index, int)
        r, g, b = palette[3 * index : 3 * index + 3]
        counts.append((count, (r, g, b)))
    shares = colour_shares(counts)
    if opacity < MIN_OPAQUE_OPACITY:
        # transparent areas were composited over white, which is not a colour of the picture
        shares["white"] = max(0.0, shares.get("white", 0.0) - (1 - opacity))
        total = sum(shares.values()) or 1.0
        shares = {name: share / total for name, share in sorted(shares.items(), key=lambda item: -item[1])}
    # a colour family is named by its most frequent shade and has the share of all its shades
    families: dict[str, tuple[str, float]] = {}
    for name, share in shares.items():
        family = FAMILIES.get(name, name)
        shade, family_share = families.get(family, (name, 0.0))
        families[family] = (shade, family_share + share)
    ranked = sorted(families.values(), key=lambda item: -item[1])
    neutral = ("white", "grey", "black")
    hues = sum(share >= MIN_HUE_SHARE for name, share in ranked if FAMILIES.get(name, name) not in neutral)
    main = ranked[0]
    second = ranked[1] if len(ranked) > 1 and ranked[1][1] >= MIN_SECOND_SHARE else None
    if second and main[1] + second[1] >= MIN_PAIR_SHARE:
        return (main[0], second[0]), False
    if main[1] >= MIN_MAIN_SHARE:
        return (main[0],), False
    return (), hues >= MANY_HUES


def _shape(width_px: int, height_px: int) -> str:
    """The name of the shape, or "" for none. Source: ISO 12231 for landscape and portrait."""
    if width_px >= MIN_PANORAMA_RATIO * height_px:
        return "panorama"
    if abs(width_px - height_px) <= SQUARE_TOLERANCE * max(width_px, height_px):
        return "square"
    if width_px >= MIN_LONG_SIDE_RATIO * height_px:
        return "landscape"
    if height_px >= MIN_LONG_SIDE_RATIO * width_px:
        return "portrait"
    return ""
