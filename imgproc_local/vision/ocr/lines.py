"""Which of the lines that OCR reads in a picture are used, and whether they are the content of the picture.

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

from imgproc_local.domain.privacy import clean_text
from imgproc_local.vision.describer import TextInPicture
from imgproc_local.vision.text.human_words import human_text

MIN_CONFIDENCE, MIN_CONFIDENCE_AMONG_UNREAD = 0.90, 0.98
"""The least confidence in a line. The second is required where more text is unread than read."""
MIN_CHARACTERS, MIN_CHARACTERS_CJK = 3, 2
"""The least number of letters and digits in a line; in photographs, shorter ones are often textures."""
FEW_LINES, MIN_EDGE_SHARE_OF_FEW, MIN_EDGE_SHARE_OF_MANY = 8, 0.4, 0.6
"""In an image of text, the lines that are used contain at least this share of all edges of the picture.

The first share is for at most `FEW_LINES` lines, the second for more. The lines of drawn posters, screenshots and signs
have 0.4 to 1.0 of the edges, those of pages 1.0, the labels of a sequence diagram 0.42, those of program windows 0.05
to 0.3, and those of shops and products in photographs less than 0.1."""
MIN_AREA_SHARE, MIN_AREA_SHARE_OF_PHOTOGRAPH = 0.005, 0.05
"""In an image of text, the lines that are used cover at least this share of its area. Less is a watermark."""
MIN_ASPECT, MAX_HEIGHT_SHARE, MIN_UNREAD_EDGE_SHARE = 2.0, 0.25, 0.1
"""A line that can't be read counts if it is at least this many times as long as high, and at most this share of the
picture's height. Such lines are reported if they contain at least the last share of the picture's edges together. Other
ones are mostly textures."""

_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_GREEK = re.compile("[\u0370-\u03ff\u1f00-\u1fff]")
_VIETNAMESE = re.compile("[ĩũơư\u1ea0-\u1ef9]|^[^čćšž]*đ[^čćšž]*$", re.DOTALL)
"""In lower case: letters of Vietnamese only, or đ without the other letters of Croatian."""
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")


class ReadLine(Struct, frozen=True, array_like=True):
    """One line of text in a picture.

    `confidence` is the mean probability of its characters, from 0 to 1. `aspect` is its longer side divided by its
    shorter one, `height_share` its shorter side divided by the picture's height; `area_share` and `edge_share` are the
    shares of the picture's area and of its edges that lie in the line.
    """

    text: str
    confidence: float
    aspect: float
    height_share: float
    area_share: float
    edge_share: float


def text_in_picture(lines: Sequence[ReadLine], kind: str) -> TextInPicture:
    """What may be used of `lines`, which are in reading order. `kind` is the picture's kind, as in `PixelFacts`."""
    used = [line for line in lines if _is_read(line, MIN_CONFIDENCE)]
    if _VIETNAMESE.search(" ".join(unicodedata.normalize("NFC", line.text).lower() for line in used)):
        used = [line for line in used if not _LATIN.search(line.text)]
    unread = [line for line in lines if line not in used and _looks_like_a_line(line)]
    if _edge_share(unread) > _edge_share(used):
        used = [line for line in used if _is_read(line, MIN_CONFIDENCE_AMONG_UNREAD)]
    # a line with private data is removed alone; the others are cleaned as a whole, because human_text drops a line that
    # is only a number
    public = clean_text("\n".join(line.text for line in used)).text
    text = human_text(" ".join(public.split()))
    min_edges = MIN_EDGE_SHARE_OF_FEW if len(used) <= FEW_LINES else MIN_EDGE_SHARE_OF_MANY
    min_area = MIN_AREA_SHARE_OF_PHOTOGRAPH if kind == "photograph" else MIN_AREA_SHARE
    return TextInPicture(
        text=text,
        unread_lines=len(unread) if _edge_share(unread) >= MIN_UNREAD_EDGE_SHARE else 0,
        is_image_of_text=bool(text)
        and _edge_share(used) >= max(min_edges, _edge_share(unread))
        and sum(line.area_share for line in used) >= min_area,
    )


def _is_read(line: ReadLine, min_confidence: float) -> bool:
    characters = sum(char.isalnum() for char in line.text)
    enough = characters >= (MIN_CHARACTERS_CJK if _CJK.search(line.text) else MIN_CHARACTERS)
    return line.confidence >= min_confidence and enough and not _GREEK.search(line.text)


def _looks_like_a_line(line: ReadLine) -> bool:
    return line.aspect >= MIN_ASPECT and line.height_share <= MAX_HEIGHT_SHARE


def _edge_share(lines: Sequence[ReadLine]) -> float:
    return sum(line.edge_share for line in lines)
