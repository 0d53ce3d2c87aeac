"""The texts that describe a picture."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class TextSource(StrEnum):
    """Where the texts of a translation come from. Source: api/README.md, "Results".

    `VISION` is the vision model. `EMBEDDED` is a text of the file in the requested language. `FACTS` is made from what
    a person wrote into the file: captions, people, places, keywords, event. `PIXELS` is made from the kind of picture
    and its date, because nothing else is known. `PERSON` is a text edited by hand.
    """

    VISION = "vision"
    EMBEDDED = "embedded"
    FACTS = "facts"
    PIXELS = "pixels"
    PERSON = "person"


class Translation(Struct, frozen=True):
    """A file name and an alt text in one language. `seo_filename` is a slug (`domain.filename`), without extension."""

    language_code: str
    seo_filename: str
    seo_alt_text: str
    source: TextSource

    @property
    def needs_text(self) -> bool:
        """Whether a person has to write the alt text, because `seo_alt_text` says nothing about the content.

        Such a text is shown as a placeholder only.
        """
        return self.source is TextSource.PIXELS

    @property
    def belongs_in_files(self) -> bool:
        """Whether a person or a model wrote the alt text. One that was put together from facts would be taken for a
        person's by every later reader of the file."""
        return self.source not in (TextSource.FACTS, TextSource.PIXELS) and bool(self.seo_alt_text.strip())


class TextState(Struct, frozen=True):
    """What can be done with a text that is stored.

    `can_undo` and `can_redo` say whether there is an earlier and a later version than the current one. `regenerating`
    says that a request to write the text anew waits or runs; `error` is why the last such request failed, or None.
    """

    can_undo: bool = False
    can_redo: bool = False
    regenerating: bool = False
    error: str | None = None
