"""Removes private data from the texts of one file, as many as its bounds allow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from imgproc_local.codecs.metadata import xmp
from imgproc_local.codecs.metadata.bounds import MAX_CLEANED_CHARACTERS, MAX_CLEANED_TEXTS
from imgproc_local.domain.privacy import MAX_TEXT_CHARACTERS, Removed, clean_text

_ATTRIBUTION = (
    *(xmp.DC + "rights", xmp.DC + "creator", xmp.PHOTOSHOP + "Credit", xmp.PHOTOSHOP + "Source"),
    *(xmp.TIFF, xmp.RIGHTS, xmp.CC, xmp.PLUS),
)
"""The properties that say whose the picture is. A namespace stands for all its properties."""


class TextCleaner:
    """Cleans the texts of one file, up to `MAX_CLEANED_TEXTS` and `MAX_CLEANED_CHARACTERS`; further ones become empty.

    `removed` are the kinds of what was removed from them; callers add to `dropped` the kinds of whole texts that they
    drop.
    """

    def __init__(self) -> None:
        self.removed: set[Removed] = set()
        self.dropped: set[Removed] = set()
        self._texts_left, self._characters_left = MAX_CLEANED_TEXTS, MAX_CLEANED_CHARACTERS

    def of(self, name: str) -> Callable[[str], str]:
        """The cleaner of a property's texts. In those that say whose the picture is, it keeps all sentences."""
        return partial(self, keep_sentences=name.startswith(_ATTRIBUTION))

    def __call__(self, text: str, *, keep_sentences: bool = False) -> str:
        self._texts_left -= bool(text)
        self._characters_left -= min(len(text), MAX_TEXT_CHARACTERS)
        if self._texts_left < 0 or self._characters_left < 0:
            self.removed.add(Removed.UNREADABLE)
            return ""
        cleaned = clean_text(text, keep_sentences=keep_sentences)
        self.removed.update(cleaned.removed)
        return cleaned.text
