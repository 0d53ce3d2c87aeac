"""Drawn pictures by what they are for: text, charts, other content, and nothing."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageFont

from tests.support.pictures import photo

Colour = tuple[int, int, int]
WHITE, BLACK, RED, BLUE = (255, 255, 255), (0, 0, 0), (200, 30, 40), (20, 60, 160)


def canvas(
    draw: Callable[[ImageDraw.ImageDraw], object], size: tuple[int, int] = (800, 600), colour: Colour = WHITE
) -> Image.Image:
    """A picture of one colour on which `draw` has drawn."""
    picture = Image.new("RGB", size, colour)
    draw(ImageDraw.Draw(picture))
    return picture


def write(draw: ImageDraw.ImageDraw, x: float, y: float, text: str, size: int = 24, fill: Colour = BLACK) -> None:
    """Write one line; `x` and `y` are its centre."""
    draw.text((x, y), text, fill, ImageFont.load_default(size), anchor="mm")


def blend(
    size: tuple[int, int], share: Callable[[np.ndarray, np.ndarray], np.ndarray], a: Colour, b: Colour
) -> Image.Image:
    """From colour `a` to `b` as `share` says: it is called with x and y of all pixels, from 0 to 1, and returns 0 to 1.

    The pixels are computed as a whole, because every process of a test run makes these pictures.
    """
    width, height = size
    y, x = np.mgrid[0:height, 0:width]
    shares = share(x / width, y / height)[..., None]
    return Image.fromarray(np.rint(a + (np.array(b) - a) * shares).astype(np.uint8))


def dithered(picture: Image.Image, levels: int = 3) -> Image.Image:
    """`picture` with noise of fewer than `levels` levels."""
    noise = Image.frombytes("RGB", picture.size, random.Random(1).randbytes(picture.width * picture.height * 3))
    return ImageChops.add(picture, noise.point([level * levels // 256 for level in range(256)] * 3))


def rows(texts: Sequence[str], size: int = 60, background: Colour = WHITE, fill: Colour = BLACK) -> Image.Image:
    """Lines of text below each other."""
    return canvas(
        lambda draw: [write(draw, 400, 80 + 1.5 * size * row, text, size, fill) for row, text in enumerate(texts)],
        colour=background,
    )


# ---- pictures that show nothing


@cache
def decorations() -> dict[str, Image.Image]:
    return {
        "a spacer": Image.new("RGBA", (1, 1), (0, 0, 0, 0)),
        "one pixel": Image.new("RGB", (1, 1), "grey"),
        "a slice of a gradient": blend((1, 300), lambda _, y: y, RED, BLUE),
        "two columns": blend((2, 60), lambda _, y: y, WHITE, BLUE),
        "transparent": Image.new("RGBA", (300, 200), (255, 0, 0, 0)),
        "a transparent icon": Image.new("RGBA", (16, 16), (0, 0, 0, 0)),
        "white": Image.new("RGB", (600, 400), "white"),
        "navy": Image.new("RGB", (300, 300), (10, 20, 80)),
        "a grey with dithering": dithered(Image.new("RGB", (200, 200), (120, 120, 120))),
        "a gradient down": blend((300, 200), lambda _, y: y, (240, 90, 60), (90, 20, 120)),
        "a gradient across": blend((400, 100), lambda x, _: x, (0, 120, 160), (0, 60, 110)),
        "a soft gradient": blend((300, 300), lambda _, y: y, (250, 250, 250), (225, 225, 225)),
        "from black to white": blend((512, 256), lambda x, _: x, BLACK, WHITE),
        "a diagonal gradient": blend((300, 240), lambda x, y: (x + y) / 2, (255, 120, 80), (60, 40, 160)),
        "three stops": blend((500, 400), lambda x, y: abs(x + y - 1), (255, 200, 180), (120, 140, 230)),
        "a radial gradient": blend((300, 300), lambda x, y: np.hypot(x - 0.5, y - 0.5), WHITE, (150, 170, 210)),
        "a light in the corner": blend((400, 300), lambda x, y: np.hypot(x, y) / 1.5, (80, 160, 220), (10, 30, 80)),
        "a vignette": blend((400, 300), lambda x, y: (1.4 * np.hypot(x - 0.5, y - 0.5)) ** 2.5, WHITE, (170, 160, 150)),
        "a dithered gradient": dithered(blend((400, 300), lambda x, y: y, (230, 120, 60), (120, 40, 110))),
        "a line": canvas(lambda draw: draw.line((0, 10, 800, 10), fill=BLACK), (800, 20)),
        "a red line": canvas(lambda draw: draw.line((0, 1, 600, 1), fill=RED), (600, 3)),
        "a double line": canvas(
            lambda draw: [draw.line((0, y, 900, y), fill=BLACK, width=2) for y in (10, 20)], (900, 30)
        ),
        "a line that fades": blend(
            (800, 12), lambda x, y: np.where(abs(y - 0.5) < 0.1, abs(2 * x - 1), 1), (60, 60, 60), WHITE
        ),
        "an upright line": canvas(lambda draw: draw.line((6, 0, 6, 500), fill=BLUE, width=2), (12, 500)),
        "a shadow": blend((1000, 24), lambda _, y: y, (120, 120, 120), WHITE),
    }


@cache
def lookalikes() -> dict[str, Image.Image]:
    """Pictures with content that resemble those without."""
    white_shape, mark = (Image.new("RGBA", (size, size), (255, 255, 255, 0)) for size in (300, 1000))
    ImageDraw.Draw(white_shape).ellipse((100, 50, 250, 250), fill=(255, 255, 255, 255))
    ImageDraw.Draw(mark).rectangle((480, 480, 500, 500), fill=(255, 0, 0, 255))

    def stripes(draw: ImageDraw.ImageDraw) -> None:
        width, height = draw.im.size
        draw.rectangle((0, 0, width, height // 3), fill=RED)
        draw.rectangle((0, 2 * height // 3, width, height), fill=BLUE)

    def bars(draw: ImageDraw.ImageDraw) -> None:
        for x in range(10, 290, 7):
            draw.line((x, 0, x, 100), fill=BLACK, width=2)

    def curve(draw: ImageDraw.ImageDraw) -> None:
        draw.line([(x, 10 + 7 * math.sin(x / 9)) for x in range(0, 200, 4)], fill=BLACK)

    return {
        "a flag": canvas(stripes, (600, 400)),
        "the icon of a flag": canvas(stripes, (32, 21)),
        "a barcode": canvas(bars, (300, 100)),
        "a faint word": canvas(lambda draw: write(draw, 200, 50, "Members", 50, (244, 244, 244)), (400, 100)),
        "a strip of text": canvas(lambda draw: write(draw, 200, 12, "Free delivery", 16), (700, 24)),
        "a progress bar": canvas(lambda draw: draw.rectangle((0, 0, 260, 20), fill=BLUE), (400, 20)),
        "a sparkline": canvas(curve, (200, 20)),
        "four stars": canvas(
            lambda draw: [draw.ellipse((32 * i, 2, 32 * i + 16, 18), fill=RED) for i in range(4)], (160, 20)
        ),
        "a dot": canvas(lambda draw: draw.ellipse((190, 190, 200, 200), fill=RED), (400, 400)),
        "a full radio button": canvas(lambda draw: draw.ellipse((4, 4, 12, 12), fill=BLACK), (16, 16)),
        "two colours": canvas(lambda draw: draw.rectangle((0, 200, 400, 400), fill=BLACK), (400, 400)),
        "the moon": canvas(lambda draw: draw.ellipse((300, 80, 340, 120), fill=WHITE), (400, 300), (10, 10, 40)),
        "a thin curve": canvas(
            lambda draw: draw.line([(x, 50 + 40 * math.sin(x / 50)) for x in range(0, 900, 5)], fill=(180, 180, 180)),
            (900, 100),
        ),
        "a white shape": white_shape,
        "a small mark": mark,
        "a photograph": photo(640, 480),
        "a soft photograph": photo(640, 480, 2).filter(ImageFilter.GaussianBlur(12)),
        "a very soft photograph": photo(640, 480, 3).filter(ImageFilter.GaussianBlur(30)),
        "a preview of few pixels": photo(640, 480, 4).resize((8, 6)).resize((640, 480), Image.Resampling.BICUBIC),
        "fog": Image.blend(photo(640, 480, 5), Image.new("RGB", (640, 480), (150, 150, 155)), 0.9),
        "a grey photograph": photo(640, 480, 6).convert("L").convert("RGB"),
    }


# ---- pictures with words


def images_of_text() -> dict[str, Image.Image]:
    def sign(draw: ImageDraw.ImageDraw) -> None:
        draw.rectangle((20, 20, 780, 580), outline=WHITE, width=12)
        write(draw, 400, 210, "Please", 170, WHITE)
        write(draw, 400, 410, "ring twice", 150, WHITE)

    prose = [
        "The old bridge should be repaired",
        "before winter. The path along",
        "the river remains closed, and",
        "the mill is open on Sundays.",
    ]
    return {
        "a notice": rows(["Road closed"], 110),
        "a poster": rows(["SUMMER", "JAZZ NIGHT", "Friday at eight", "Free entry"], 80, (20, 30, 80), WHITE),
        "a page": rows(prose, 44),
        "opening hours": rows(["Monday 9 to 18", "Tuesday 10 to 20", "Saturday closed"], 60),
        "a sign with a frame": canvas(sign, colour=BLUE),
        "a quotation": rows(["Patience is the", "companion of wisdom."], 64, (245, 240, 228), (60, 50, 40)),
    }


def charts() -> dict[str, Image.Image]:
    months = list(zip(("Jan", "Feb", "Mar", "Apr", "May"), (120, 180, 240, 310, 390), strict=True))

    def bar(draw: ImageDraw.ImageDraw) -> None:
        write(draw, 400, 40, "Visitors", 30)
        draw.line((90, 80, 90, 520, 760, 520), fill=BLACK, width=2)
        for i, (month, value) in enumerate(months):
            draw.rectangle((120 + i * 130, 520 - value, 200 + i * 130, 520), fill=BLUE)
            write(draw, 160 + i * 130, 500 - value, str(value))
            write(draw, 160 + i * 130, 545, month)

    def pie(draw: ImageDraw.ImageDraw) -> None:
        start = 0.0
        for share, name, fill in ((45, "Rent", RED), (30, "Food", BLUE), (25, "Travel", (90, 160, 90))):
            draw.pieslice((200, 100, 600, 500), start, start + 3.6 * share, fill=fill, outline=WHITE, width=3)
            angle = math.radians(start + 1.8 * share)
            write(draw, 400 + 260 * math.cos(angle), 300 + 240 * math.sin(angle), name, 28)
            write(draw, 400 + 120 * math.cos(angle), 300 + 120 * math.sin(angle), f"{share} %", 30, WHITE)
            start += 3.6 * share

    def flow(draw: ImageDraw.ImageDraw) -> None:
        for i, text in enumerate(("Start", "Read the file", "Is it valid?", "Save", "End")):
            draw.rectangle((280, 20 + i * 115, 520, 90 + i * 115), outline=BLACK, width=3)
            write(draw, 400, 55 + i * 115, text)
            draw.line((400, 90 + i * 115, 400, 135 + i * 115), fill=BLACK, width=3)

    def street_map(draw: ImageDraw.ImageDraw) -> None:
        for x in range(60, 800, 150):
            draw.line((x, 0, x + 60, 600), fill=WHITE, width=18)
        draw.line((0, 250, 800, 330), fill=(250, 210, 110), width=26)
        draw.rectangle((480, 60, 700, 200), fill=(200, 230, 190))
        for x, y, text in (
            (590, 130, "City Park"),
            (160, 270, "Main Street"),
            (620, 420, "Station"),
            (130, 80, "Market"),
            (300, 480, "Harbour"),
        ):
            write(draw, x, y, text)

    return {
        "bars": canvas(bar),
        "a pie": canvas(pie),
        "a flow chart": canvas(flow),
        "a map": canvas(street_map, colour=(225, 222, 210)),
    }


def other_pictures_with_words() -> dict[str, Image.Image]:
    meme, soft, caption = photo(800, 600, 7), photo(800, 600, 8).filter(ImageFilter.GaussianBlur(8)), photo(800, 600, 9)
    for picture in (meme, soft):
        write(ImageDraw.Draw(picture), 400, 60, "WHEN THE CAKE", 80, WHITE)
        write(ImageDraw.Draw(picture), 400, 540, "IS ALL GONE", 80, WHITE)
    write(ImageDraw.Draw(caption), 400, 560, "The harbour on market day", 40, WHITE)
    product = Image.new("RGB", (800, 600), "white")
    product.paste(photo(300, 300, 10), (250, 100))
    write(ImageDraw.Draw(product), 400, 500, "Blue bowl 24.50", 50)
    return {"a meme": meme, "a soft meme": soft, "a photograph with a caption": caption, "a product": product}


@cache
def logos() -> dict[str, Image.Image]:
    def letter(draw: ImageDraw.ImageDraw) -> None:
        draw.ellipse((20, 20, 180, 180), fill=RED)
        write(draw, 100, 100, "N", 110, WHITE)

    arrow = [(10, 26), (34, 26), (34, 12), (56, 32), (34, 52), (34, 38), (10, 38)]
    return {
        "a letter in a circle": canvas(letter, (200, 200)),
        "an arrow": canvas(lambda draw: draw.polygon(arrow, fill=BLACK), (64, 64)),
        "a favicon": canvas(lambda draw: write(draw, 8, 8, "K", 14, WHITE), (16, 16), BLUE),
    }
