"""The phrase table of each language, and the sentence that is assembled from its fragments.

All grammar is in the tables: each fragment has the inflection, spaces and punctuation that the sentence needs. The code
selects fragments, inserts names, months and numbers, and omits the least informative fragments if the sentence would be
too long. Lists, and month names with their years, come from CLDR, through Babel.

A sentence that says something about the content (a quotation, names, keywords) adds only the kind of picture and the
date. Colours, shape and transparency are mentioned only if the content is unknown.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import date
from functools import cache
from importlib import resources
from typing import Literal

import msgspec
from babel import Locale
from babel.dates import format_skeleton
from babel.lists import format_list
from msgspec import Struct

from imgproc_local.domain.alt_text import PREFERRED_ALT_CHARS
from imgproc_local.vision.describer import PixelFacts

MAX_LEAD_CHARS = 180
"""Limit for the lead of a sentence: the quotation, keywords, events and names. Those that do not fit are omitted."""
MAX_QUOTE_CHARS = 160
"""Limit for a quotation. A longer text is shortened before it is quoted."""
MAX_PERSONS = 4
"""The number of persons that a sentence names before “and others”, which stands for at least two."""

_QUOTATION_MARKS = frozenset('"“”„«»「」『』')


class Phrases(Struct, frozen=True, forbid_unknown_fields=True):
    """The phrase table of one language. Each `{placeholder}` is replaced; by "" if its fragment is unused.

    `body` orders the fragments. `lead` joins texts that people wrote (a title, names) with the body; `lead_with_colon`
    is used if one of them has a colon already. `comma` separates these texts. `sentence` adds the final punctuation.

    `colours` is the fragment for one colour, and for two colours if `two_colours` is empty. `pair` joins two
    colours if CLDR's list pattern is not suitable. `many_colours` and `transparent_areas` are one fragment, or one
    fragment per kind of picture where they are inflected to agree with it.

    `when` is the date of a photograph. `months` selects the CLDR form of the month names that it needs, or lists
    twelve names if neither form is correct there. `when_after_kind` replaces `when` if the sentence has no colours,
    shape or transparency. `date` is the date of other kinds of pictures, if their content is known; its `{date}` is
    CLDR's month and year. `year_offset` is added to the Gregorian year where a fragment has `{year}`.

    `and_pattern` joins the last of several persons if CLDR's pattern is not suitable; `and_others` is for long lists,
    of which only the first persons are named. `conjunction_before` is a regular expression for the beginning of the
    last person's name, and the word for "and" before such a name ("Ana e Isabel", not "Ana y Isabel"). Where "and" is
    written together with the next word, `and_script` is the script of the names that it can join; others are separated
    by commas.

    `slug_kind` and `slug_colour` have the words for file names where those of the sentence are not suitable.
    """

    quotes: tuple[str, str]
    colours: str
    many_colours: str | dict[str, str]
    transparent_areas: str | dict[str, str]
    when: str
    keywords: str
    and_others: str
    shape: dict[str, str]
    kind: dict[str, str]
    colour: dict[str, str]
    body: str = "{kind}{shape}{colours}{many_colours}{transparent_areas}{when}{date}{keywords}"
    lead: str = "{lead}: {body}"
    lead_with_colon: str = "{lead} – {body}"
    sentence: str = "{body}."
    comma: str = ", "
    two_colours: str = ""
    pair: str = ""
    when_after_kind: str = ""
    months: Literal["format", "stand-alone"] | tuple[str, ...] = "format"
    date: str = ", {date}"
    year_offset: int = 0
    conjunction_before: tuple[str, str] | None = None
    and_pattern: str = ""
    and_script: str = ""
    slug_kind: dict[str, str] = {}
    slug_colour: dict[str, str] = {}


class Mentions(Struct, frozen=True):
    """What a sentence mentions besides the pixel facts.

    `quote` is put in quotation marks, `keywords` follow a label. `verbatim` (keywords without a label, events),
    `persons` and `places` are copied.
    `capture_month` is (year, month).
    """

    quote: str = ""
    verbatim: tuple[str, ...] = ()
    persons: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    keywords: str = ""
    capture_month: tuple[int, int] | None = None

    @property
    def has_content(self) -> bool:
        """Whether anything besides the date is mentioned."""
        return bool(self.quote or self.verbatim or self.persons or self.places or self.keywords)


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
    fragments = dict.fromkeys(_OPTIONAL_FRAGMENTS, "") | {"kind": table.kind[_kind_key(facts)]}
    if mentions.keywords:
        fragments["keywords"] = table.keywords.format(words=mentions.keywords)
    if not mentions.has_content:
        fragments |= _pixel_fragments(table, locale, facts, has_date=mentions.capture_month is not None)
    if mentions.capture_month and facts.kind == "photograph":
        described = any(fragments[name] for name in ("shape", "colours", "many_colours", "transparent_areas"))
        pattern = table.when if described or not table.when_after_kind else table.when_after_kind
        fragments["when"] = _month(table, locale, pattern, *mentions.capture_month)
    elif mentions.capture_month and mentions.has_content:
        fragments["date"] = _month(table, locale, table.date, *mentions.capture_month)
    text = _assemble(language_code, lead, fragments)
    for name in _OPTIONAL_FRAGMENTS:
        if len(text) <= PREFERRED_ALT_CHARS or (name == "keywords" and not lead):
            break
        fragments[name] = ""
        text = _assemble(language_code, lead, fragments)
    return text


_OPTIONAL_FRAGMENTS = ("shape", "transparent_areas", "when", "date", "keywords", "colours", "many_colours")
"""The fragments that are omitted from a sentence that is too long, the least informative first."""


def capitalized(text: str, language_code: str) -> str:
    """`text` with a capital at the beginning, by the rules of `language_code` (Turkish İ, Dutch IJ).

    A word with a capital at another place, such as "iPhone", remains unchanged.
    """
    first_word = text.split(" ", 1)[0]
    if first_word != first_word.lower():
        return text
    if language_code == "tr" and text.startswith("i"):
        return "İ" + text[1:]
    if language_code == "nl" and text.startswith("ij"):
        return "IJ" + text[2:]
    return text[:1].upper() + text[1:]


def slug_words(language_code: str, facts: PixelFacts) -> tuple[str, ...]:
    """The word for the kind of picture, and then those for its colours."""
    table = phrases(language_code)
    key = _kind_key(facts)
    words = [table.slug_kind.get(key) or table.kind[key]]
    words += [table.slug_colour.get(name) or table.colour[name] for name in facts.colours]
    return tuple(words)


def _kind_key(facts: PixelFacts) -> str:
    if facts.fully_transparent:
        return "fully_transparent"
    return facts.kind + ("_bw" if facts.black_and_white else "")


def _pixel_fragments(table: Phrases, locale: Locale, facts: PixelFacts, *, has_date: bool) -> dict[str, str]:
    """The fragments for what was measured in the pixels."""
    transparent_areas = _for_kind(table.transparent_areas, facts.kind) if facts.has_transparent_areas else ""
    if facts.many_colours and not facts.colours:
        return {"many_colours": _for_kind(table.many_colours, facts.kind), "transparent_areas": transparent_areas}
    # landscape is the usual shape: it is mentioned only if there is nothing else to say
    mention_shape = not facts.black_and_white and (facts.shape != "landscape" or not (facts.colours or has_date))
    return {
        "colours": _colours(table, locale, facts.colours),
        "shape": table.shape.get(facts.shape, "") if mention_shape and facts.kind in ("photograph", "picture") else "",
        "transparent_areas": transparent_areas,
    }


def _for_kind(fragment: str | dict[str, str], kind: str) -> str:
    """`fragment` in the inflection that agrees with `kind`."""
    return fragment if isinstance(fragment, str) else fragment[kind]


def _assemble(language_code: str, lead: str, fragments: dict[str, str]) -> str:
    """The sentence of `lead` and `fragments`, with its capital and final punctuation."""
    table = phrases(language_code)
    body = table.body.format(**fragments).strip(" ,،、，")
    has_colon = any(colon in lead + fragments["keywords"] for colon in ":：")
    joiner = table.lead_with_colon if has_colon else table.lead
    whole = joiner.format(lead=lead, body=body) if lead else body
    # the sentence adds a full stop, and a name or an abbreviated year may end in one (Washington D.C., 2023 г.)
    text = table.sentence.format(body=whole.rstrip(".") if table.sentence.endswith(".") else whole)
    # a lead at the beginning of the sentence keeps the case in which a person wrote it
    begins_with_lead = bool(lead) and text.startswith(lead)
    return unicodedata.normalize("NFC", text if begins_with_lead else capitalized(text, language_code))


def _lead(table: Phrases, locale: Locale, mentions: Mentions) -> str:
    """The texts at the beginning of the sentence, separated by commas; those that make it too long are omitted."""
    parts = [table.quotes[0] + _unquoted(mentions.quote) + table.quotes[1]] if mentions.quote else []
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


def _unquoted(text: str) -> str:
    """`text` without a pair of quotation marks around all of it."""
    inner = text[1:-1]
    enclosed = text[:1] in _QUOTATION_MARKS and text[-1:] in _QUOTATION_MARKS and not set(inner) & _QUOTATION_MARKS
    return inner.strip() if enclosed and inner.strip() else text


def _persons(table: Phrases, locale: Locale, persons: tuple[str, ...]) -> str:
    if len(persons) > MAX_PERSONS + 1:
        return table.and_others.format(names=_separated_by_commas(table, locale, persons[:MAX_PERSONS]))
    last = persons[-1]
    if table.and_script and not unicodedata.name(last[:1], "").startswith(table.and_script):
        return _separated_by_commas(table, locale, persons)
    if table.and_pattern and len(persons) > 1:
        return table.and_pattern.format(_separated_by_commas(table, locale, persons[:-1]), last)
    joined = format_list(persons, locale=locale)
    if table.conjunction_before and len(persons) > 1:
        beginning, conjunction = table.conjunction_before
        if re.match(beginning, last, re.IGNORECASE):
            before = joined.removesuffix(last).rstrip().rsplit(" ", 1)[0]
            joined = f"{before} {conjunction} {last}"
    return joined


def _separated_by_commas(table: Phrases, locale: Locale, names: tuple[str, ...]) -> str:
    """`names` with the separator that CLDR has between the first elements of a list, unless that is "and"."""
    middle = locale.list_patterns["standard"]["middle"].replace("{0}", "").replace("{1}", "")
    return (middle if middle.strip() and not any(map(str.isalpha, middle)) else table.comma).join(names)


def _colours(table: Phrases, locale: Locale, colours: tuple[str, ...]) -> str:
    if not colours:
        return ""
    names = [table.colour[name] for name in colours]
    if len(names) == 1:
        return table.colours.format(list=names[0])
    joined = table.pair.format(*names) if table.pair else format_list(names, locale=locale)
    return (table.two_colours or table.colours).format(list=joined)


def _month(table: Phrases, locale: Locale, pattern: str, year: int, month: int) -> str:
    """`pattern`, a fragment of `table`, with year and month."""
    listed = table.months if isinstance(table.months, tuple) else ()
    return pattern.format(
        month=listed[month - 1] if listed else locale.months[str(table.months)]["wide"][month],
        month_number=month,
        year=year + table.year_offset,
        date=format_skeleton("yMMMM", date(year, month, 1), locale=locale),
    )
