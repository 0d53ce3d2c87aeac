"""All that the program knows of a language, from its file `xx.toml`. A new language is a new file, and a line in
`domain/languages.py`.

Patterns are Python regular expressions, matched without regard to case; texts have ' in place of ’.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Literal

import msgspec
from msgspec import Struct

from imgproc_local.domain.languages import LANGUAGES


class Phrases(Struct, frozen=True, forbid_unknown_fields=True):
    """The fragments of the sentences that are made from facts. Each `{placeholder}` is replaced; by "" if its fragment
    is unused.

    `kind` has the word for each kind of picture, and `slug_kind` those for file names where others are needed. `body`
    orders the fragments. `lead` joins texts that people wrote (a title, names) with the body; `lead_with_colon` is used
    if one of them has a colon already. `comma` separates these texts. `sentence` adds the final punctuation.

    `when` is the date of a photograph. `months` selects the CLDR form of the month names that it needs, or lists
    twelve names if neither form is correct there. `date` is the date of other kinds of pictures, if their content is
    known; its `{date}` is CLDR's month and year. `year_offset` is added to the Gregorian year where a fragment has
    `{year}`.

    `and_pattern` joins the last of several persons if CLDR's pattern is not suitable; `and_others` is for long lists,
    of which only the first persons are named. `conjunction_before` is a regular expression for the beginning of the
    last person's name, and the word for "and" before such a name ("Ana e Isabel", not "Ana y Isabel"). Where "and" is
    written together with the next word, `and_script` is the script of the names that it can join; others are separated
    by commas.
    """

    quotes: tuple[str, str]
    when: str
    keywords: str
    and_others: str
    kind: dict[str, str]
    body: str = "{kind}{when}{date}{keywords}"
    lead: str = "{lead}: {body}"
    lead_with_colon: str = "{lead} – {body}"
    sentence: str = "{body}."
    comma: str = ", "
    months: Literal["format", "stand-alone"] | tuple[str, ...] = "format"
    date: str = ", {date}"
    year_offset: int = 0
    conjunction_before: tuple[str, str] | None = None
    and_pattern: str = ""
    and_script: str = ""
    slug_kind: dict[str, str] = {}


class _Judgement(Struct, frozen=True, forbid_unknown_fields=True):
    """What does not belong in an alt text, and the words that say nothing without others (`generic`). Only English has
    it, because a model describes a picture in English and translates that text."""

    guesses: tuple[str, ...]
    moods: tuple[str, ...]
    camera: tuple[str, ...]
    addresses: tuple[str, ...]
    references: tuple[str, ...]
    generic: str


class _LanguageTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The file of one language.

    `function_words` are articles, prepositions, conjunctions and similar words; file names omit `stop_words`, too.
    `openers` are beginnings that say that this is a picture, or address the reader, instead of describing the content;
    `closers` are the same at the end of a text, for languages that put "picture of" last. `removable_openers` are
    removed, because the rest is a correct text without them. In languages with cases this is not so: German "Bild eines
    Hauses" would leave a genitive. `labels` are removed together with the colon that follows them. `dangling` are words
    that never end a sentence. `refusals` say that a model describes nothing.

    `picture_words` mean a picture. `untitled` are the names that programs give to files and titles until a person
    enters another, and `screenshot` the beginnings of those that operating systems give to screenshots.
    """

    openers: tuple[str, ...]
    labels: tuple[str, ...]
    dangling: str
    refusals: tuple[str, ...]
    picture_words: str
    untitled: str
    screenshot: str
    phrases: Phrases
    function_words: str = ""
    stop_words: str = ""
    removable_openers: tuple[str, ...] = ()
    closers: tuple[str, ...] = ()
    judgement: _Judgement | None = None


@cache
def language_table(code: str) -> _LanguageTable:
    """The table of a supported language."""
    file = resources.files(__package__).joinpath(f"{code}.toml")
    return msgspec.toml.decode(file.read_bytes(), type=_LanguageTable)


def all_tables() -> tuple[_LanguageTable, ...]:
    """The tables of all supported languages, for texts whose language is not known."""
    return tuple(language_table(code) for code in LANGUAGES)
