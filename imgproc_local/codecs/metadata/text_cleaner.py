"""Removes private data from the texts of one file, as many as its bounds allow."""

from __future__ import annotations

from imgproc_local.codecs.metadata.bounds import MAX_CLEANED_CHARACTERS, MAX_CLEANED_TEXTS
from imgproc_local.domain.privacy import MAX_TEXT_CHARACTERS, Removed, clean_text


class TextCleaner:
    """Cleans the texts of one file, up to `MAX_CLEANED_TEXTS` and `MAX_CLEANED_CHARACTERS`; further ones become empty.

    `removed` are the kinds of what was removed from them; callers add to `dropped` the kinds of whole texts that they
    drop.
    """

    def __init__(self) -> None:
        self.removed: set[Removed] = set()
        self.dropped: set[Removed] = set()
        self._texts_left, self._characters_left = MAX_CLEANED_TEXTS, MAX_CLEANED_CHARACTERS

    def __call__(self, text: str) -> str:
        self._texts_left -= bool(text)
        self._characters_left -= min(len(text), MAX_TEXT_CHARACTERS)
        if self._texts_left < 0 or self._characters_left < 0:
            self.removed.add(Removed.UNREADABLE)
            return ""
        cleaned = clean_text(text)
        self.removed.update(cleaned.removed)
        return cleaned.text
