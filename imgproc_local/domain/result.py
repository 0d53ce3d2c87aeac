"""What is made of a picture besides files: the texts that describe it, what its alt text is for, and notes on files."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

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


class NeedsTextReason(StrEnum):
    """Why a person has to write an alt text. Source: api/README.md, "Results".

    `NOTHING_KNOWN`: the text states only kind and date. `OTHER_LANGUAGE`: its content words are not in its language.
    `PLACE_OR_DATE_ONLY`: nothing is known but where or when. `UNREAD_TEXT`: the picture shows text that was not read.
    """

    NOTHING_KNOWN = "nothing_known"
    OTHER_LANGUAGE = "other_language"
    PLACE_OR_DATE_ONLY = "place_or_date_only"
    UNREAD_TEXT = "unread_text"


class Review(StrEnum):
    """What a person did with an alt text: accepted it as it was, or wrote or changed it."""

    ACCEPTED = "accepted"
    EDITED = "edited"


class Translation(Struct, frozen=True):
    """A file name and an alt text in one language. `seo_filename` is a slug (`domain.filename`), without extension.

    `needs_text_reason` is None if the alt text can be published. `long_description` is one paragraph, "" if there is
    none. `model` names the vision model that wrote the texts: its name, for an installed one with the beginning of the
    digest of its files (`name@0123456789ab`), for one of another program `program:name`; else "". `review` is None
    until a person has accepted or edited the alt text.
    """

    language_code: str
    seo_filename: str
    seo_alt_text: str
    source: TextSource
    needs_text_reason: NeedsTextReason | None = None
    long_description: str = ""
    model: str = ""
    review: Review | None = None

    @property
    def needs_text(self) -> bool:
        """Whether a person has to write the alt text. It is shown as a placeholder only, and never published."""
        return self.needs_text_reason is not None

    @property
    def belongs_in_files(self) -> bool:
        """Whether a person or a model wrote the alt text. One that was put together from facts would be taken for a
        person's by every later reader of the file."""
        is_written = self.source not in (TextSource.FACTS, TextSource.PIXELS) and not self.needs_text
        return is_written and bool(self.seo_alt_text.strip())


class TextState(Struct, frozen=True):
    """What can be done with a text that is stored.

    `can_undo` and `can_redo` say whether there is an earlier and a later version than the current one. `regenerating`
    says that a request to write the text anew waits or runs; `error` is why the last such request failed, or None.
    `version` is the number of the current version, which grows with each change and shrinks with an undo.
    """

    can_undo: bool = False
    can_redo: bool = False
    regenerating: bool = False
    error: str | None = None
    version: int = 1


class TextName(Struct, frozen=True, forbid_unknown_fields=True):
    """The text of an image in a language. `version` is the one that it must have to be changed; None is any."""

    image_id: str
    language_code: str
    version: int | None = None


class TextEdit(TextName, frozen=True):
    """What a person changes in a text: `words` are those of `seo_alt_text`, `seo_filename` and `long_description` that
    change. An alt text of "" says that the picture is decorative. `new_slug` is the file name that follows from the alt
    text, if any.
    """

    words: Mapping[str, str] = {}
    new_slug: str = ""


class NewTexts(Struct, frozen=True):
    """How texts are written anew.

    `replaces_person` includes texts that a person wrote. `from_language` is the language whose text is translated; None
    has the picture described. With `adds_languages`, a picture gets the texts that it lacks.
    """

    replaces_person: bool = False
    from_language: str | None = None
    adds_languages: bool = False


class StoredText(Translation, frozen=True, kw_only=True):
    """A text in force with the identifiers of its image and job, and the fields of its `TextState`."""

    image_id: str
    job_id: str
    can_undo: bool
    can_redo: bool
    regenerating: bool
    error: str | None
    version: int


WORD_LIMITS = {"caption": 2000, "keywords": 100, "credit": 250}
"""The most characters of each text of `Words`, and the most keywords."""
MAX_KEYWORD_CHARS = 100


class Words(Struct, frozen=True, omit_defaults=True):
    """What a person says of a picture besides its texts; it is written into exported results. None leaves what the file
    says. `keywords` replace those of the file.
    """

    caption: str | None = None
    keywords: tuple[str, ...] | None = None
    credit: str | None = None


def one_line(text: str) -> str:
    """`text` in Unicode NFC and without control characters; each run of white space becomes one space."""
    words = " ".join(unicodedata.normalize("NFC", text).split())
    return "".join(each for each in words if unicodedata.category(each) != "Cc")


class Note(StrEnum):
    """What a file could not carry of the picture, or why it was not kept, or should not be served."""

    NOT_SMALLER = "not_smaller"
    LARGER_THAN_OPTIMIZED = "larger_than_optimized"
    GAIN_MAP_DROPPED = "gain_map_dropped"
    TONE_MAPPED = "tone_mapped"
    NOT_LOSSLESS = "not_lossless"

    @property
    def message(self) -> str:
        """The note for people, one sentence."""
        return _NOTES[self]


_NOTES = {
    Note.NOT_SMALLER: "The converted file was not kept, because it was not smaller than the optimized file or,"
    " without one, than the upload.",
    Note.LARGER_THAN_OPTIMIZED: "The converted file is not smaller than the optimized one, which is the one to serve.",
    Note.GAIN_MAP_DROPPED: "The gain map, which HDR displays use, is not in the file.",
    Note.TONE_MAPPED: "The picture is HDR, and the file shows it as displays without HDR do.",
    Note.NOT_LOSSLESS: "This JPEG can't become a JPEG XL without loss, so it was encoded at the target score.",
}


class _Sized(Protocol):
    @property
    def size_bytes(self) -> int: ...


def conversion_notes(notes: tuple[Note, ...], converted: _Sized | None, optimized: _Sized | None) -> tuple[Note, ...]:
    """The notes on a converted file, with the one that follows from its size."""
    is_larger = converted and optimized and converted.size_bytes >= optimized.size_bytes
    return (*notes, Note.LARGER_THAN_OPTIMIZED) if is_larger else notes


class SuggestedRole(StrEnum):
    """What a picture seems to be, for a person who chooses its role. Source: W3C WAI, "An alt Decision Tree"."""

    INFORMATIVE = "informative"
    DECORATIVE = "decorative"
    TEXT = "text"
    CHART = "chart"
    LOGO = "logo"


class RoleSuggestion(Struct, frozen=True):
    """A suggested role, and the reason for people, in English."""

    role: SuggestedRole
    reason: str
