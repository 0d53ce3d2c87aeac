"""The phrase table of a language, and how a sentence is put together from it.

All inflection lives in the tables: a fragment stands there in the very form its sentence needs, with its own spaces and
commas. Code only chooses fragments, fills names, months and numbers in, and leaves the least telling ones out when the
sentence grows long. What CLDR knows (lists, months, plurals) comes from Babel.
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

from imgproc_local.vision.facts.pixels import PixelFacts

NORMAL_CHARS = 125
MAX_CHARS = 250
MAX_LEAD_CHARS = 180
MAX_PERSONS = 4


class Phrases(Struct, frozen=True, forbid_unknown_fields=True):
    """One table. `{braces}` are filled by code; a fragment that is not said leaves nothing behind.

    `lead` joins what a person wrote (a title, names) with the rest, `body` is the order of fragments.
    `months` says which of CLDR's forms fits into `when`, or lists the twelve where none does.
    `pair` joins two colours where CLDR's list would be no phrase; without `join_names` commas part persons.
    `slug_kind` and `slug_colour` are words for file names where those of the sentence would read badly.
    """

    quotes: tuple[str, str]
    lead: str
    body: str
    colours: str
    many_colours: str
    transparent_areas: str
    length: str
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
    """What a sentence is made of besides the looks: quoted text and names as a person wrote them."""

    quote: str = ""
    plain: tuple[str, ...] = ()
    persons: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    keywords: str = ""
    filename_words: str = ""
    taken: tuple[int, int] | None = None


@cache
def phrases(language_code: str) -> Phrases:
    """The table of `language_code`."""
    table = resources.files(__package__).joinpath("sentences", f"{language_code}.toml")
    return msgspec.toml.decode(table.read_bytes(), type=Phrases)


def sentence(language_code: str, looks: PixelFacts, said: Mentions) -> str:
    """One sentence in `language_code`, normally below 125 characters and never above 250."""
    table = phrases(language_code)
    locale = Locale(language_code)
    lead = _lead(table, locale, said)
    fragments = {
        "kind": _kind(table, looks),
        "shape": table.shape.get(looks.shape, ""),
        "colours": _colours(table, locale, looks),
        "transparent_areas": table.transparent_areas if looks.transparent_areas else "",
        "length": _length(table, locale, looks.length_ms),
        "when": _when(table, locale, said.taken),
        "keywords": table.keywords.format(words=said.keywords) if said.keywords else "",
        "file": table.file.format(words=said.filename_words) if said.filename_words else "",
    }
    # the shape is worth hearing where little else is known; most pictures are landscape, so that is said last of all
    little_known = not (lead or said.keywords or said.filename_words) and looks.kind in ("photograph", "picture")
    if not little_known or (looks.shape == "landscape" and (looks.colours or said.taken)):
        fragments["shape"] = ""
    text = _assemble(table, lead, fragments)
    # under a caption the date is worth more than colours, without one the colours are all there is to see
    later = ("colours", "when") if lead else ("when", "colours")
    for least in ("shape", "transparent_areas", *later, "file", "keywords"):
        if len(text) <= NORMAL_CHARS:
            break
        fragments[least] = ""
        text = _assemble(table, lead, fragments)
    return text


def _kind(table: Phrases, looks: PixelFacts) -> str:
    if looks.empty:
        return table.kind["empty"]
    return table.kind[looks.kind + "_bw" if looks.black_and_white else looks.kind]


def slug_words(language_code: str, looks: PixelFacts, taken: tuple[int, int] | None) -> tuple[str, ...]:
    """Words for kind, colours and year, the most telling first."""
    table = phrases(language_code)
    key = "empty" if looks.empty else looks.kind + ("_bw" if looks.black_and_white else "")
    words = [table.slug_kind.get(key) or table.kind[key]]
    words += [table.slug_colour.get(name) or table.colour[name] for name in looks.colours]
    if taken:
        words.append(str(taken[0]))
    return tuple(words)


def _assemble(table: Phrases, lead: str, fragments: dict[str, str]) -> str:
    body = table.body.format(**fragments).strip(" ,،、，")
    whole = table.lead.format(lead=lead, body=body) if lead else body
    # a name may bring its own full stop (Washington D.C.)
    text = table.sentence.format(body=whole.rstrip(".") if table.sentence.endswith(".") else whole)
    # a name keeps its own small letter
    return unicodedata.normalize("NFC", text if text.startswith(lead or "\0") else text[:1].upper() + text[1:])


def _lead(table: Phrases, locale: Locale, said: Mentions) -> str:
    parts = [table.quotes[0] + said.quote + table.quotes[1]] if said.quote else []
    parts += said.plain
    if said.persons:
        parts.append(_persons(table, locale, said.persons))
    parts += said.places
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


def _colours(table: Phrases, locale: Locale, looks: PixelFacts) -> str:
    if looks.colours:
        names = [table.colour[name] for name in looks.colours]
        own_pair = table.pair.format(*names) if table.pair and len(names) == 2 else None
        return table.colours.format(list=own_pair or format_list(names, locale=locale))
    return table.many_colours if looks.many_colours else ""


def _length(table: Phrases, locale: Locale, length_ms: int) -> str:
    if length_ms < 100:
        return ""
    seconds = round(length_ms / 1000) if length_ms >= 1950 else round(length_ms / 1000, 1)
    if seconds == int(seconds):
        seconds = int(seconds)
    if "{number}" in table.length:
        return table.length.format(number=format_decimal(seconds, locale=locale))
    return table.length.format(seconds=format_unit(seconds, "duration-second", "long", locale=locale))


def _when(table: Phrases, locale: Locale, taken: tuple[int, int] | None) -> str:
    if taken is None:
        return ""
    year, month = taken
    own = table.months if isinstance(table.months, tuple) else ()
    name = own[month - 1] if own else locale.months[str(table.months)]["wide"][month]
    return table.when.format(month=name, month_number=month, year=year + table.year_offset)
