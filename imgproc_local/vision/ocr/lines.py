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
    """What may be used of `lines`, which are in reading order. `kind` is the picture's kind, as in `PixelFacts`.

    In an image of text, the lines that are used contain at least 0.4 of all edges of the picture, and 0.6 if there are
    more than eight. The lines of drawn posters, screenshots and signs have 0.4 to 1.0 of the edges, those of pages 1.0,
    the labels of a sequence diagram 0.42, those of program windows 0.05 to 0.3, and those of shops and products in
    photographs less than 0.1. They cover 0.005 of the picture's area, and 0.05 of a photograph's: less is a watermark.
    """
    used = [line for line in lines if _is_read(line, 0.9)]
    if _VIETNAMESE.search(" ".join(unicodedata.normalize("NFC", line.text).lower() for line in used)):
        used = [line for line in used if not _LATIN.search(line.text)]
    # other things that can't be read are mostly textures
    unread = [line for line in lines if line not in used and line.aspect >= 2 and line.height_share <= 0.25]
    if _edge_share(unread) > _edge_share(used):
        used = [line for line in used if _is_read(line, 0.98)]
    # a line with private data is removed alone; the others are cleaned as a whole, because human_text drops a line that
    # is only a number
    public = clean_text("\n".join(line.text for line in used)).text
    text = human_text(" ".join(public.split()))
    min_edges = max(0.4 if len(used) <= 8 else 0.6, _edge_share(unread))
    min_area = 0.05 if kind == "photograph" else 0.005
    is_image_of_text = _edge_share(used) >= min_edges and sum(line.area_share for line in used) >= min_area
    return TextInPicture(
        text=text,
        unread_lines=len(unread) if _edge_share(unread) >= 0.1 else 0,
        is_image_of_text=bool(text) and is_image_of_text,
    )


def _is_read(line: ReadLine, min_confidence: float) -> bool:
    """Whether `line` is used. In photographs, lines of one or two letters are often textures."""
    min_characters = 2 if _CJK.search(line.text) else 3
    enough = sum(char.isalnum() for char in line.text) >= min_characters
    return line.confidence >= min_confidence and enough and not _GREEK.search(line.text)


def _edge_share(lines: Sequence[ReadLine]) -> float:
    return sum(line.edge_share for line in lines)
