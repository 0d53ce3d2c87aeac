"""The alt text of an image of text, which is that text.

Source: W3C WAI, "Images of Text"; WCAG 2.2, 1.1.1.
"""

from __future__ import annotations

from imgproc_local.domain.alt_text import PREFERRED_ALT_CHARS
from imgproc_local.vision.describer import PixelFacts, TextInPicture
from imgproc_local.vision.facts.phrases import MAX_QUOTE_CHARS, Mentions, sentence
from imgproc_local.vision.text.language import detect_language, is_readable
from imgproc_local.vision.text.shorten import shorten


def image_of_text_alt(text_in_picture: TextInPicture | None, language: str, facts: PixelFacts) -> str:
    """The alt text in `language` of an image of text; "" for other pictures.

    The alt text is the text in the picture, never translated. If this text is in another language, or in a script that
    readers of `language` don't know, the alt text is a sentence in `language` that quotes it.
    """
    if text_in_picture is None or not text_in_picture.is_image_of_text:
        return ""
    if is_image_of_readable_text(text_in_picture, language):
        return shorten(text_in_picture.text)
    return sentence(
        language, facts, Mentions(quote=shorten(text_in_picture.text, PREFERRED_ALT_CHARS, MAX_QUOTE_CHARS))
    )


def is_image_of_readable_text(text_in_picture: TextInPicture | None, language: str) -> bool:
    """Whether the picture is an image of text, and readers of `language` can read this text.

    The language of a few words, such as a name on a sign, is usually unknown; then only their script is checked.
    """
    if text_in_picture is None or not text_in_picture.is_image_of_text:
        return False
    return detect_language(text_in_picture.text) in (None, language) and is_readable(text_in_picture.text, language)
