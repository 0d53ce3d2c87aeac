"""Which texts are removed from a file because a camera or a program wrote them.

A caption that is removed wrongly is lost, so a caption is removed only if it is certainly a camera's default. A comment
is removed unless it reads as a caption, because most comments are written by programs. Which texts are used for a
description is decided more strictly in `vision/text/human_words.py`.
"""

from __future__ import annotations

import re
import unicodedata

_CAMERA_DEFAULT = re.compile(
    r"(olympus|minolta|kodak|konica|samsung|sony|nikon|ricoh|pentax|casio|vivitar)?[ <]*"
    r"(digital (still )?camera|dsc|digimax.*|kenox.*|dcim|exif_jpeg_picture|jpeg|untitled|default|charset=.*)>?",
    re.IGNORECASE,
)
_NOT_IN_CAPTIONS = re.compile(
    r"\b(created|made|generated|edited|optimi[sz]ed|compressed|converted|encoded|exported|processed|resized|saved"
    r"|produced|built|written|animated) (with|by|using|in|from|on)\b"
    r"|\b(gimp|photoshop|adobe|imagemagick|ezgif|giphy|tenor|imgur|ulead|paint|software|converter|encoder|optimizer"
    r"|shareware|unregistered|trial|version|gif|jpe?g|png|webp|lead technologies|gps|latitude|longitude"
    r"|serial|camera)\b"
    r"|https?:|www\.|\.(com|net|org|io|app)\b|@|\bver\.?\s?\d|\bv?\d+\.\d|[={}<>|\\_~^°]",
    re.IGNORECASE,
)
_UNSPACED_LETTERS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]{2}")
"""Two letters of a script without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""

_MAX_COMMENT_CHARACTERS = 2000
_MAX_DEFAULT_CHARACTERS = 200


def is_camera_default(text: str) -> bool:
    """Whether a caption is a camera's default, such as "OLYMPUS DIGITAL CAMERA", and may be removed from a file."""
    return len(text) <= _MAX_DEFAULT_CHARACTERS and _CAMERA_DEFAULT.fullmatch(text) is not None


def reads_as_a_caption(comment: str) -> bool:
    """Whether a comment seems to be about the picture, not a program's advertisement, its settings or a position."""
    comment = " ".join(comment.split())
    several_words = sum(_letters(word) >= 2 for word in comment.split()) >= 2
    return (
        0 < len(comment) <= _MAX_COMMENT_CHARACTERS
        and _letters(comment) + sum(comment.count(sign) for sign in " ,.;:!?'’-–") >= 0.85 * len(comment)
        and (several_words or bool(_UNSPACED_LETTERS.search(comment)))
        and not _NOT_IN_CAPTIONS.search(comment)
    )


def _letters(text: str) -> int:
    """The number of letters, and of marks that belong to letters."""
    return sum(unicodedata.category(character)[0] in "LM" for character in text)
