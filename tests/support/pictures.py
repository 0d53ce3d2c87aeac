"""Small synthetic pictures for tests. Files are kept, because many tests use the same."""

from __future__ import annotations

import io
import random
from functools import cache

from PIL import Image, ImageDraw, ImageFilter


def photo(width: int = 320, height: int = 240, seed: int = 1) -> Image.Image:
    """A soft, noisy scene that compresses as photographs do. It depends on nothing but the arguments."""
    rng = random.Random(seed)
    picture = Image.new("RGB", (width, height))
    draw = ImageDraw.Draw(picture)
    for y in range(height):
        draw.line([(0, y), (width, y)], fill=(60 + 120 * y // height, 110, 200 - 120 * y // height))
    for _ in range(24):
        x, y, size = rng.randrange(width), rng.randrange(height), rng.randrange(6, 60)
        colour = tuple(rng.randrange(30, 226) for _ in range(3))
        draw.ellipse([x - size, y - size, x + size, y + size], fill=colour)
    picture = picture.filter(ImageFilter.GaussianBlur(1.2))
    grain = Image.frombytes("L", (width, height), rng.randbytes(width * height))
    noise = grain.point([97 + 62 * level // 255 for level in range(256)]).convert("RGB")
    return Image.blend(picture, noise, 0.12)


def encoded(picture: Image.Image, format: str = "JPEG", **options: object) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format, **options)
    return buffer.getvalue()


@cache
def jpeg(width: int = 320, height: int = 240, seed: int = 1, quality: int = 95) -> bytes:
    return encoded(photo(width, height, seed), "JPEG", quality=quality)


@cache
def png(width: int = 160, height: int = 120, seed: int = 1) -> bytes:
    return encoded(photo(width, height, seed), "PNG")


@cache
def gif(frames: int = 3, width: int = 64, height: int = 48) -> bytes:
    pictures = [photo(width, height, seed) for seed in range(frames)]
    return encoded(pictures[0], "GIF", save_all=True, append_images=pictures[1:], duration=120, loop=0)


@cache
def webp(width: int = 160, height: int = 120) -> bytes:
    return encoded(photo(width, height), "WEBP", quality=95)


@cache
def avif(width: int = 160, height: int = 120) -> bytes:
    return encoded(photo(width, height), "AVIF", quality=90)


def broken_jpeg() -> bytes:
    """A JPEG with a valid header and half of its data."""
    complete = jpeg(640, 480)
    return complete[: len(complete) // 2]
