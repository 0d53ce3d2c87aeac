"""Reads text in drawn screenshots, posters and signs, and in photographs without text.

`python -m tests.bench.text_in_pictures MODELS [--photos FOLDER] [--save FOLDER]`. MODELS is the models folder, in which
`imgproc-local models pull ocr` installed the networks. The drawings need the Noto fonts (on Debian fonts-noto-core and
fonts-noto-cjk). For each drawing it prints the character error rate of everything that was read, and of the lines that
were accepted; for the photographs, the lines that were accepted; and the memory and the end of the process that reads.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter, ImageFont

from imgproc_local.domain.image import Pixels
from imgproc_local.system.child import program
from imgproc_local.vision.describer import PixelFacts, TextInPicture
from imgproc_local.vision.facts.image_of_text import image_of_text_alt
from imgproc_local.vision.ocr.lines import ReadLine, text_in_picture
from imgproc_local.vision.ocr.model_files import MEMORY_MB, installed_folder
from imgproc_local.vision.ocr.reader import TextReader
from imgproc_local.vision.text.language import detect_language

TEXTS = Path(__file__).with_name("drawn_text.toml")
FONTS = Path("/usr/share/fonts")
MAX_SIDE_PX = 2048
IDLE_S = 2.0
MAX_ERROR_RATE = 0.15
"""The most characters of an alt text that may be wrong."""
LANGUAGES_READ = {"chinese": "zh", "japanese": "ja"}
"""The languages in which an alt text is requested if the language of the text is unknown; English for all others."""


def font(name: str, size: int, *, bold: bool = False) -> ImageFont.FreeTypeFont:
    weight = "Bold" if bold else "Regular"
    path = next(FONTS.rglob(f"{name}-{weight}.tt[cf]"), None)
    if path is None:
        sys.exit(f"The font {name} is missing: install fonts-noto-core and fonts-noto-cjk.")
    return ImageFont.truetype(path, size)


def draw_screen(lines: list[str], name: str, seed: int) -> Image.Image:
    """A window with a title bar, a side bar and one line of small text per row."""
    picture = Image.new("RGB", (1366, 768), "#f3f3f3")
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, 0, 1366, 44), fill=("#2d4a7a", "#303030", "#0b6e4f")[seed % 3])
    draw.rectangle((0, 44, 260, 768), fill="#e2e4e8")
    draw.text((24, 8), lines[0], font=font(name, 20), fill="white")
    for row, line in enumerate(lines[1:], 1):
        draw.line((290, 56 + row * 72, 1330, 56 + row * 72), fill="#dddddd")
        draw.text((300, 70 + row * 72), line, font=font(name, 17), fill="#202020")
    return picture


def draw_poster(lines: list[str], name: str, seed: int) -> Image.Image:
    """A gradient with a large title and smaller lines below it."""
    dark = ((24, 30, 80), (90, 20, 40), (10, 70, 60))[seed % 3]
    picture = Image.linear_gradient("L").resize((900, 1200))
    picture = Image.merge("RGB", [picture.point(lambda value, base=base: base + value // 4) for base in dark])
    draw = ImageDraw.Draw(picture)
    for row, line in enumerate(lines):
        size = 84 if row == 0 else 44
        while (width := draw.textlength(line, font=font(name, size, bold=row == 0))) > 820:
            size -= 4
        position = (450 - width / 2, 220 + row * 190)
        draw.text(position, line, font=font(name, size, bold=row == 0), fill="#ffe9a8" if row == 0 else "white")
    return picture


def draw_sign(lines: list[str], name: str, seed: int) -> Image.Image:
    """A plate seen from the side before a blurred background, with grain."""
    random.seed(seed)
    background = Image.effect_noise((48, 36), 120).resize((1200, 900), Image.Resampling.BICUBIC)
    background = Image.merge("RGB", [background.point(lambda value, k=k: value * k // 10) for k in (6, 7, 5)])
    plate = Image.new("RGB", (900, 160 + 150 * len(lines)), ("#f5c400", "#0a5f38", "#c0202a")[seed % 3])
    draw = ImageDraw.Draw(plate)
    colour = "black" if seed % 3 == 0 else "white"
    draw.rectangle((14, 14, plate.width - 15, plate.height - 15), outline=colour, width=8)
    for row, line in enumerate(lines):
        size = 100
        while (width := draw.textlength(line, font=font(name, size, bold=True))) > 780:
            size -= 4
        position = (450 - width / 2, 60 + row * 150)
        draw.text(position, line, font=font(name, size, bold=True), fill=colour)
    tilt = 40 + 10 * (seed % 4)
    size = (plate.width, plate.height + tilt)
    # the quadrilateral of the source that fills the result: the right side of the plate is farther away
    corners = (0, -tilt, 0, plate.height, plate.width, plate.height + tilt, plate.width, -tilt / 3)
    shape = Image.new("L", plate.size, 255).transform(size, Image.Transform.QUAD, corners)
    seen = plate.transform(size, Image.Transform.QUAD, corners, Image.Resampling.BICUBIC)
    background.paste(seen, (150, 200), shape)
    grain = Image.effect_noise(background.size, 14).convert("RGB")
    return Image.blend(background.filter(ImageFilter.GaussianBlur(0.8)), grain, 0.06)


def drawings() -> Iterator[tuple[str, str, bool, list[str], Image.Image]]:
    """Script, kind, whether it can be read, lines and picture of each drawing."""
    draw = {"screen": draw_screen, "poster": draw_poster, "sign": draw_sign}
    for seed, (script, entry) in enumerate(tomllib.loads(TEXTS.read_text(encoding="utf-8")).items()):
        for kind, function in draw.items():
            yield script, kind, entry["read"], entry[kind], function(entry[kind], entry["font"], seed)


def error_rate(expected: str, actual: str) -> float:
    """The edit distance divided by the length of `expected`; spaces don't count."""
    expected, actual = ("".join(text.split()) for text in (expected, actual))
    row = list(range(len(actual) + 1))
    for index, wanted in enumerate(expected, 1):
        previous, row[0] = row[0], index
        for column, found in enumerate(actual, 1):
            previous, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, previous + (wanted != found))
    return row[-1] / max(1, len(expected))


def pixels_of(picture: Image.Image) -> Pixels:
    picture = picture.convert("RGB")
    picture.thumbnail((MAX_SIDE_PX, MAX_SIDE_PX))
    return Pixels(*picture.size, picture.tobytes())


class Reader:
    """The reading process, as the service runs it."""

    def __init__(self, models_folder: Path, work_folder: Path) -> None:
        folder = installed_folder(models_folder)
        if folder is None:
            sys.exit(f"{models_folder} has no networks: run `imgproc-local models pull ocr`.")
        self.process = TextReader(lambda: folder, work_folder, program("ocr-worker"), os.environ, idle_s=IDLE_S)

    def read(self, picture: Image.Image, kind: str) -> tuple[tuple[ReadLine, ...], TextInPicture]:
        """All lines, and what of them is used."""
        lines = self.process.read(pixels_of(picture), lambda: None)
        return lines, text_in_picture(lines, kind)


def print_row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def read_drawings(reader: Reader, save_to: Path | None) -> bool:
    passed = True
    print_row("script", "kind", "error rate of all lines", "alt text: error rate", "")
    for script, kind, can_be_read, expected, picture in drawings():
        if save_to:
            picture.save(save_to / f"{script}-{kind}.png")
        lines, found = reader.read(picture, "screenshot" if kind == "screen" else "graphic")
        wrong = error_rate("".join(expected), "".join(line.text for line in lines))
        language = detect_language(found.text) or LANGUAGES_READ.get(script, "en")
        alt = image_of_text_alt(found, language, PixelFacts("graphic"))
        if can_be_read:
            published = error_rate("".join(expected), alt)
            right = found.is_image_of_text and published <= MAX_ERROR_RATE
            result = f"{published:.2f}"
        else:
            # nothing may be guessed, and the text must be reported
            right = not found.text and found.unread_lines > 0
            result = found.text or f"unread, {found.unread_lines} of {len(expected)} lines"
        passed &= right
        print_row(script, kind, f"{wrong:.2f}", result, "ok" if right else "WRONG")
    return passed


def read_photographs(reader: Reader, folder: Path) -> bool:
    paths, gained = sorted(folder.iterdir()), 0
    print_row("photograph", "regions", "text", "unread lines")
    for path in paths:
        with Image.open(path) as picture:
            lines, found = reader.read(picture, "photograph")
        gained += bool(found.text)
        print_row(path.name, len(lines), found.text or "–", found.unread_lines)
    print(f"{gained} of {len(paths)} photographs gained words.")
    return gained == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--save", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        reader = Reader(arguments.models, Path(work))
        passed = read_drawings(reader, arguments.save)
        if arguments.photos:
            passed &= read_photographs(reader, arguments.photos)
        peak_mb = reader.process.peak_bytes / 1e6
        time.sleep(2 * IDLE_S)
        ended = reader.process.pid is None
    print(f"Peak memory {peak_mb:.0f} MB of {MEMORY_MB}; the idle process {'has ended' if ended else 'is running'}.")
    sys.exit(0 if passed and peak_mb <= MEMORY_MB and ended else 1)


if __name__ == "__main__":
    main()
