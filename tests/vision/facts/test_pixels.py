"""What pixels prove, on pictures made here."""

from __future__ import annotations

import random

import pytest
from PIL import Image, ImageDraw, ImageFilter, ImageOps

from imgproc_local.domain.image import Format, ImageInfo, Pixels
from imgproc_local.vision.facts.pixels import PixelFacts, look

SIZE = (320, 240)


def seen(
    picture: Image.Image,
    format_: Format = Format.PNG,
    *,
    camera: bool = False,
    named: bool = False,
    alpha: float = 1.0,
    frames: int = 1,
    orientation: int = 1,
) -> PixelFacts:
    width, height = picture.size
    stored = (height, width) if orientation >= 5 else (width, height)
    info = ImageInfo(format_, *stored, frames=frames, orientation=orientation, has_alpha=alpha < 1, duration_ms=900)
    return look(Pixels(width, height, picture.tobytes(), alpha), info, from_camera=camera, is_screenshot_name=named)


def noisy(picture: Image.Image, strength: int = 24) -> Image.Image:
    """As a sensor would have it: no two neighbours alike."""
    source = random.Random(7)
    grain = Image.frombytes("RGB", picture.size, source.randbytes(picture.width * picture.height * 3))
    return Image.blend(picture, grain.filter(ImageFilter.GaussianBlur(1)), strength / 255)


def page() -> Image.Image:
    picture = Image.new("RGB", SIZE, "white")
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, 0, 319, 40), fill=(30, 60, 150))
    for y in range(60, 230, 16):
        for x in range(20, 300, 9):
            draw.rectangle((x, y, x + 4, y + 6), fill=(20, 20, 20))
    return picture


def scene() -> Image.Image:
    picture = Image.new("RGB", SIZE)
    for y in range(SIZE[1]):
        ImageDraw.Draw(picture).line((0, y, SIZE[0], y), fill=(110 + y // 8, 150 + y // 6, 210 - y // 8))
    return noisy(picture)


def test_flat_areas_with_clear_edges_are_a_graphic() -> None:
    assert seen(page()).kind == "graphic"


def test_a_picture_with_noise_is_no_graphic_and_only_metadata_makes_it_a_photograph() -> None:
    assert seen(scene()).kind == "picture"
    assert seen(scene(), camera=True).kind == "photograph"


def test_a_flat_graphic_with_a_cameras_metadata_is_not_called_a_photograph() -> None:
    assert seen(page(), camera=True).kind == "graphic"


def test_a_product_shot_on_pure_white_is_no_graphic() -> None:
    picture = Image.new("RGB", SIZE, "white")
    picture.paste(scene().resize((150, 150)), (85, 45))
    assert seen(picture).kind == "picture"


def test_a_smooth_gradient_is_no_graphic() -> None:
    assert seen(Image.linear_gradient("L").resize(SIZE).convert("RGB")).kind == "picture"


def test_only_a_systems_own_name_makes_a_screenshot() -> None:
    assert seen(page(), named=True).kind == "screenshot"
    assert seen(page()).kind != "screenshot"


def test_more_frames_than_one_are_an_animation_of_its_length() -> None:
    looks = seen(page(), Format.GIF, frames=9)
    assert (looks.kind, looks.length_ms) == ("animation", 900)
    assert seen(page(), Format.GIF).length_ms == 0


@pytest.mark.parametrize("tint", [0, 4])
def test_a_grey_picture_is_black_and_white_even_with_a_faint_tint(tint: int) -> None:
    red, green, blue = ImageOps.autocontrast(scene().convert("L")).convert("RGB").split()
    picture = Image.merge("RGB", (red.point(lambda value: min(255, value + tint)), green, blue))
    looks = seen(picture, Format.JPEG)
    assert looks.black_and_white
    assert not looks.colours


def test_sepia_is_not_black_and_white() -> None:
    grey = ImageOps.autocontrast(scene().convert("L"))
    sepia = Image.merge("RGB", (grey.point(lambda v: min(255, v + 12)), grey, grey.point(lambda v: max(0, v - 20))))
    assert not seen(sepia, Format.JPEG).black_and_white


def test_one_spot_of_colour_ends_black_and_white() -> None:
    picture = noisy(Image.linear_gradient("L").resize(SIZE).convert("RGB"), 4).convert("L").convert("RGB")
    assert seen(picture, Format.JPEG).black_and_white
    ImageDraw.Draw(picture).ellipse((100, 100, 130, 130), fill="red")
    assert not seen(picture, Format.JPEG).black_and_white


def test_a_plain_grey_surface_is_told_by_its_colour() -> None:
    looks = seen(Image.new("RGB", SIZE, (128, 128, 128)), Format.JPEG)
    assert (looks.black_and_white, looks.colours) == (False, ("grey",))


@pytest.mark.parametrize(
    ("parts", "colours"),
    [
        ({(200, 20, 30): 100}, ("red",)),
        ({(30, 140, 60): 60, (240, 200, 30): 40}, ("green", "yellow")),
        ({(30, 90, 200): 55, (150, 200, 250): 20, (255, 255, 255): 25}, ("blue", "white")),
        ({(200, 20, 30): 90, (30, 90, 200): 10}, ("red",)),
    ],
)
def test_the_main_colours_are_named_largest_first(
    parts: dict[tuple[int, int, int], int], colours: tuple[str, ...]
) -> None:
    picture = Image.new("RGB", (200, 200))
    y = 0
    for colour, percent in parts.items():
        picture.paste(colour, (0, y, 200, y + 2 * percent))
        y += 2 * percent
    assert seen(picture).colours == colours


def test_many_hues_and_no_main_one_are_many_colours() -> None:
    picture = Image.new("RGB", (210, 210))
    hues = [
        (220, 30, 40),
        (240, 140, 20),
        (240, 210, 30),
        (40, 160, 70),
        (30, 90, 210),
        (130, 60, 180),
        (240, 140, 170),
    ]
    for index, hue in enumerate(hues):
        picture.paste(hue, (index * 30, 0, index * 30 + 30, 210))
    looks = seen(picture)
    assert looks.many_colours
    assert not looks.colours


def test_the_white_under_transparent_areas_is_no_colour_of_the_picture() -> None:
    picture = Image.new("RGB", (200, 200), "white")
    picture.paste((200, 20, 30), (0, 0, 200, 60))
    looks = seen(picture, alpha=0.3)
    assert looks.transparent_areas
    assert looks.colours == ("red",)
    assert "white" in seen(picture).colours


def test_a_graphic_with_transparent_areas_is_still_one() -> None:
    assert seen(page(), alpha=0.6).kind == "graphic"


def test_a_cut_out_photograph_is_no_graphic_for_the_flat_area_around_it() -> None:
    picture = Image.new("RGB", SIZE, "white")
    picture.paste(scene().resize((80, 80)).filter(ImageFilter.SHARPEN).filter(ImageFilter.EDGE_ENHANCE_MORE), (40, 40))
    assert seen(picture).kind == "graphic"
    assert seen(picture, alpha=80 * 80 / (SIZE[0] * SIZE[1])).kind == "picture"


def test_a_wholly_transparent_picture_has_nothing_else_to_tell() -> None:
    assert seen(Image.new("RGB", SIZE, "white"), alpha=0.0) == PixelFacts("picture", empty=True)


@pytest.mark.parametrize(
    ("size", "shape"),
    [
        ((300, 400), "portrait"),
        ((400, 300), "landscape"),
        ((300, 300), "square"),
        ((301, 300), "square"),
        ((330, 300), ""),
        ((600, 300), "panorama"),
        ((599, 300), "landscape"),
        ((300, 900), "portrait"),
    ],
)
def test_the_shape_is_told_where_it_is_clear(size: tuple[int, int], shape: str) -> None:
    assert seen(Image.new("RGB", size, "red")).shape == shape


def test_the_shape_is_that_on_display() -> None:
    assert seen(Image.new("RGB", (300, 400), "red"), Format.JPEG, orientation=6).shape == "portrait"
    assert seen(Image.new("RGB", (300, 400), "red"), Format.JPEG, orientation=1).shape == "portrait"


@pytest.mark.parametrize("size", [(1, 1), (1, 500), (500, 1), (2, 2)])
def test_the_smallest_pictures_are_looked_at_too(size: tuple[int, int]) -> None:
    assert seen(Image.new("RGB", size, (30, 90, 200))).colours == ("blue",)
