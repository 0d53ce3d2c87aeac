"""The alt text of an image of text: its text.

Source: W3C WAI, "Images of Text"; WCAG 2.2, 1.1.1.
"""

from __future__ import annotations

from imgproc_local.vision.describer import PixelFacts, TextInPicture
from imgproc_local.vision.facts.phrases import Mentions, sentence
from imgproc_local.vision.text.language import detect_language, is_readable
from imgproc_local.vision.text.shorten import PREFERRED_ALT_CHARS, shorten

MAX_QUOTE_CHARS = 160
"""A longer text is shortened in a quotation."""


def image_of_text_alt(found: TextInPicture | None, language: str, facts: PixelFacts) -> str:
    """The alt text in `language` of an image of text; "" for other pictures.

    It is the text itself, which is never translated. In a sentence of `language`, it is quoted if it is known to be in
    another language or in a script that readers of `language` don't use.
    """
    if found is None or not found.is_image_of_text:
        return ""
    if is_text_in_language(found, language):
        return shorten(found.text)
    return sentence(language, facts, Mentions(quote=shorten(found.text, PREFERRED_ALT_CHARS, MAX_QUOTE_CHARS)))


def is_text_in_language(found: TextInPicture | None, language: str) -> bool:
    """Whether the picture is an image of text that serves readers of `language` as it is.

    The language of a few words, such as a name on a sign, is unknown; then their script decides.
    """
    if found is None or not found.is_image_of_text:
        return False
    return detect_language(found.text) in (None, language) and is_readable(found.text, language)
