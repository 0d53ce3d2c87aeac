"""Reads the lines of text in a picture in a worker process, and decides which of them are used and whether they are the
content of the picture. The networks and NumPy are loaded in the worker only.

The recogniser knows Latin, Chinese and Japanese characters. It leaves out those that it does not know, often with a
high confidence in the rest, so a line that it reads may still be wrong:

- In other scripts nothing or a few Latin letters remain. Such lines are doubtful if most of the text is unread.
- Of Vietnamese, half of the letters remain. Those that no other language has identify it: then no Latin line is used.
- Greek letters are confused with each other.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from msgspec import Struct

from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.image import Pixels
from imgproc_local.domain.privacy import clean_text
from imgproc_local.vision.describer import ReadLine, TextInPicture
from imgproc_local.vision.text.human_words import human_text

_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_GREEK = re.compile("[\u0370-\u03ff\u1f00-\u1fff]")
_VIETNAMESE = re.compile("[ĩũơư\u1ea0-\u1ef9]|^[^čćšž]*đ[^čćšž]*$", re.DOTALL)
"""In lower case: letters of Vietnamese only, or đ without the other letters of Croatian."""
_NUMBER = re.compile(r"[\W\d]+")
"""Neither a letter nor an underscore."""
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")


class TextRequest(Struct, frozen=True, array_like=True):
    """The picture to read, and the folder of the networks."""

    networks_folder: str
    pixels: Pixels


def read_lines(request: TextRequest, _: CheckStop) -> tuple[ReadLine, ...]:
    """The lines of text in a picture, in reading order. Runs in a worker, which keeps the networks for the next one."""
    from PIL import Image

    from imgproc_local.vision.ocr.ppocr import loaded_networks

    pixels = request.pixels
    picture = Image.frombytes("RGB", (pixels.width_px, pixels.height_px), pixels.rgb)
    return tuple(loaded_networks(request.networks_folder).read(picture))


def text_in_picture(lines: Sequence[ReadLine], kind: str) -> TextInPicture:
    """What may be used of `lines`, which are in reading order. `kind` is the picture's kind, as in `PixelFacts`."""
    is_drawn = kind in ("graphic", "screenshot")
    used = [line for line in lines if _is_read(line, is_drawn)]
    if _VIETNAMESE.search(" ".join(unicodedata.normalize("NFC", line.text).lower() for line in used)):
        used = [line for line in used if not _LATIN.search(line.text)]
    # other things that can't be read are mostly textures; the stripes of a flag have an aspect of 4.5
    unread = [line for line in lines if line not in used and line.aspect >= (2 if line.height_share <= 0.25 else 5)]
    if _edge_share(unread) > _edge_share(used):
        used = [line for line in used if line.confidence >= 0.98]
    # a line with private data is removed alone; the others are cleaned as a whole, because human_text drops a line that
    # is only a number
    public = clean_text("\n".join(line.text for line in used)).text
    text = human_text(" ".join(public.split()))
    return TextInPicture(
        text=text,
        unread_lines=len(unread) if _edge_share(unread) >= 0.1 else 0,
        is_image_of_text=bool(text) and _edge_share(unread) <= _edge_share(used) and _show_little_else(used, kind),
        labels=len(used) if _are_labels(used) else 0,
        was_read=True,
    )


def _show_little_else(lines: Sequence[ReadLine], kind: str) -> bool:
    """Whether a picture with these lines is an image of text.

    The lines have two thirds of its edges. In a sign or poster with a frame or a symbol they have 0.4, but stand close
    together and are large. The lines of drawn posters, pages and screenshots of text have 0.68 to 1.0 of the edges, the
    labels of charts, diagrams and maps 0.15 to 0.66, the words over a photograph 0.1 to 0.61. They cover 0.005 of the
    picture's area, and 0.05 of a photograph's: less is a watermark.
    """
    edges, area = _edge_share(lines), _area(lines)
    if area < (0.05 if kind == "photograph" else 0.005):
        return False
    return edges >= 0.67 or (edges >= 0.4 and area >= 0.15 and _density(lines) >= 0.5)


def _are_labels(lines: Sequence[ReadLine]) -> bool:
    """Whether the lines are short, and far from each other: those of charts fill at most 0.24 of the area between the
    outermost ones, and have 2 to 10 characters on average."""
    return len(lines) >= 4 and _density(lines) <= 0.25 and sum(len(line.text) for line in lines) <= 10 * len(lines)


def _density(lines: Sequence[ReadLine]) -> float:
    """The share of the smallest upright rectangle around all lines that they cover."""
    width = max(line.box[2] for line in lines) - min(line.box[0] for line in lines)
    height = max(line.box[3] for line in lines) - min(line.box[1] for line in lines)
    return _area(lines) / max(1e-6, width * height)


def _is_read(line: ReadLine, is_drawn: bool) -> bool:
    """Whether `line` is used. Lines of one or two letters are often textures; in a drawing, those of digits are read,
    because the values of a chart are short."""
    min_characters = 1 if is_drawn and _NUMBER.fullmatch(line.text) else 2 if _CJK.search(line.text) else 3
    enough = sum(char.isalnum() for char in line.text) >= min_characters
    return line.confidence >= 0.9 and enough and not _GREEK.search(line.text)


def _area(lines: Sequence[ReadLine]) -> float:
    """The share of the picture's area that lies in the lines."""
    boxes = (line.box for line in lines)
    return sum((right - left) * (bottom - top) for left, top, right, bottom in boxes)


def _edge_share(lines: Sequence[ReadLine]) -> float:
    return sum(line.edge_share for line in lines)
