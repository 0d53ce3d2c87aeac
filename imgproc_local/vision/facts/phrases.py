"""The phrase table of each language, and the sentence that is assembled from its fragments.

All grammar is in the tables: each fragment has the inflection, spaces and punctuation that the sentence needs. The code
selects fragments, inserts names, months and numbers, and omits the least informative fragments if the sentence would be
too long. Lists, month names and plurals come from CLDR, through Babel.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from importlib import resources
from typing import Literal

import msgspec
from babel import Locale
from babel.lists import format_list
from babel.numbers import format_decimal
from babel.units import format_unit
from msgspec import Struct

from imgproc_local.vision.describer import PixelFacts
from imgproc_local.vision.text.human_words import PREFERRED_ALT_CHARS

MAX_LEAD_CHARS = 180
"""Limit for the part of a sentence that people wrote: quotation, events, names. What does not fit is omitted."""
MAX_PERSONS = 4
"""The number of persons that a sentence names."""


class Phrases(Struct, frozen=True, forbid_unknown_fields=True):
    """The phrase table of one language. The code replaces each `{placeholder}`, that of an unused fragment by "".

    `body` orders the fragments. `lead` joins texts that people wrote (a title, names) with the body; `comma` separates
    these texts. `sentence` adds the final punctuation. `months` selects the CLDR form of month names that `when` needs,
    or lists twelve names if neither form is correct there. `year_offset` is added to the Gregorian year. `pair` joins
    two colours if CLDR's list pattern is not suitable; `join_names = false` separates persons by commas instead of
    "and". `slug_kind` and `slug_colour` have the words for file names if those of the sentence are not suitable.
    """

    quotes: tuple[str, str]
    lead: str
    body: str
    colours: str
    many_colours: str
    transparent_areas: str
    duration: str
    when: str
    file: str
    keywords: str
    shape: dict[str, str]
    kind: dict[str, str]
    colour: dict[str, str]
    sentence: str = "{body}."
    comma: str = ", "
    months: Literal["format", "stand-alone"] | tuple[str, ...] = "format"
    year_offset: int = 0
    pair: str = ""
    join_names: bool = True
    slug_kind: dict[str, str] = {}
    slug_colour: dict[str, str] = {}


class Mentions(Struct, frozen=True):
    """What a sentence mentions besides the pixel facts; all texts are used as a person wrote them.

    `quote` is put in quotation marks; `verbatim`, `persons` and `places` are copied. `keywords` and `filename` follow a
    label. `capture_month` is (year, month).
    """

    quote: str = ""
    verbatim: tuple[str, ...] = ()
    persons: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    keywords: str = ""
    filename: str = ""
    capture_month: tuple[int, int] | None = None


@cache
def phrases(language_code: str) -> Phrases:
    """The phrase table of `language_code`."""
    table = resources.files(__package__).joinpath("sentences", f"{language_code}.toml")
    return msgspec.toml.decode(table.read_bytes(), type=Phrases)


def sentence(language_code: str, facts: PixelFacts, mentions: Mentions) -> str:
    """One sentence in `language_code`, of at most 250 characters and usually at most 125, in NFC."""
    table = phrases(language_code)
    locale = Locale(language_code)
    lead = _lead(table, locale, mentions)
    fragments = {
        "kind": _kind(table, facts),
        "shape": table.shape.get(facts.shape, ""),
        "colours": _colours(table, locale, facts),
        "transparent_areas": table.transparent_areas if facts.has_transparent_areas else "",
        "duration": _duration(table, locale, facts.duration_ms),
        "when": _when(table, locale, mentions.capture_month),
        "keywords": table.keywords.format(words=mentions.keywords) if mentions.keywords else "",
        "file": table.file.format(words=mentions.filename) if mentions.filename else "",
    }
    # the shape is mentioned only without texts; landscape, the usual one, only without colours and date as well
    little_known = not (lead or mentions.keywords or mentions.filename) and facts.kind in ("photograph", "picture")
    if not little_known or (facts.shape == "landscape" and (facts.colours or mentions.capture_month)):
        fragments["shape"] = ""
    text = _assemble(table, lead, fragments)
    # with a caption the date is more informative than colours; without one, only colours describe the content
    by_informativeness = ("colours", "when") if lead else ("when", "colours")
    for name in ("shape", "transparent_areas", *by_informativeness, "file", "keywords"):
        if len(text) <= PREFERRED_ALT_CHARS:
            break
        fragments[name] = ""
        text = _assemble(table, lead, fragments)
    return text


def slug_words(language_code: str, facts: PixelFacts, capture_month: tuple[int, int] | None) -> tuple[str, ...]:
    """Words for the kind of picture, its colours and the year, the most informative first."""
    table = phrases(language_code)
    key = _kind_key(facts)
    words = [table.slug_kind.get(key) or table.kind[key]]
    words += [table.slug_colour.get(name) or table.colour[name] for name in facts.colours]
    if capture_month:
        words.append(str(capture_month[0]))
    return tuple(words)


def _kind_key(facts: PixelFacts) -> str:
    if facts.fully_transparent:
        return "fully_transparent"
    return facts.kind + ("_bw" if facts.black_and_white else "")


def _kind(table: Phrases, facts: PixelFacts) -> str:
    return table.kind[_kind_key(facts)]


def _assemble(table: Phrases, lead: str, fragments: dict[str, str]) -> str:
    body = table.body.format(**fragments).strip(" ,،、，")
    whole = table.lead.format(lead=lead, body=body) if lead else body
    # the sentence adds a full stop, and a name may end in one (Washington D.C.)
    text = table.sentence.format(body=whole.rstrip(".") if table.sentence.endswith(".") else whole)
    # a sentence begins with a capital, except for a lead, which keeps the case in which a person wrote it
    begins_with_lead = bool(lead) and text.startswith(lead)
    return unicodedata.normalize("NFC", text if begins_with_lead else text[:1].upper() + text[1:])


def _lead(table: Phrases, locale: Locale, mentions: Mentions) -> str:
    """The texts at the beginning of the sentence, separated by commas; those that make it too long are omitted."""
    parts = [table.quotes[0] + mentions.quote + table.quotes[1]] if mentions.quote else []
    parts += mentions.verbatim
    if mentions.persons:
        parts.append(_persons(table, locale, mentions.persons))
    parts += mentions.places
    lead = ""
    for part in parts:
        longer = lead + table.comma + part if lead else part
        if len(longer) <= MAX_LEAD_CHARS:
            lead = longer
    return lead


def _persons(table: Phrases, locale: Locale, persons: tuple[str, ...]) -> str:
    if len(persons) > MAX_PERSONS:
        return table.comma.join(persons[:MAX_PERSONS]) + " …"
    return format_list(persons, locale=locale) if table.join_names else table.comma.join(persons)


def _colours(table: Phrases, locale: Locale, facts: PixelFacts) -> str:
    if facts.colours:
        names = [table.colour[name] for name in facts.colours]
        pair = table.pair.format(*names) if table.pair and len(names) == 2 else None
        return table.colours.format(list=pair or format_list(names, locale=locale))
    return table.many_colours if facts.many_colours else ""


def _duration(table: Phrases, locale: Locale, duration_ms: int) -> str:
    if duration_ms < 100:
        return ""
    seconds = round(duration_ms / 1000) if duration_ms >= 1950 else round(duration_ms / 1000, 1)
    if seconds == int(seconds):
        seconds = int(seconds)
    if "{number}" in table.duration:
        return table.duration.format(number=format_decimal(seconds, locale=locale))
    return table.duration.format(seconds=format_unit(seconds, "duration-second", "long", locale=locale))


def _when(table: Phrases, locale: Locale, capture_month: tuple[int, int] | None) -> str:
    if capture_month is None:
        return ""
    year, month = capture_month
    listed = table.months if isinstance(table.months, tuple) else ()
    name = listed[month - 1] if listed else locale.months[str(table.months)]["wide"][month]
    return table.when.format(month=name, month_number=month, year=year + table.year_offset)
