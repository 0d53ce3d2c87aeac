"""All that the program knows of a language, from its file `xx.toml`, and the sentences that it makes with that. A new
language is a new file, and a line in `domain/languages.py`.

Patterns are Python regular expressions, matched without regard to case; texts have ' in place of ’.

All grammar of the sentences is in these files: each fragment has the inflection, spaces and punctuation that the
sentence needs. The code selects fragments, inserts names, months and numbers, and omits the least informative fragments
if the sentence would be too long. Lists, and month names with their years, come from CLDR, through Babel.

A sentence says what is known of the content (a quotation, names, keywords), the kind of picture and its date. Colours
and shapes are not mentioned: they say nothing about the content, which a person has to describe.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import date
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct

from imgproc_local.domain.alt_text import PREFERRED_ALT_CHARS
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.vision.describer import PixelFacts

if TYPE_CHECKING:
    from babel import Locale

MAX_QUOTE_CHARS = 160
"""Limit for a quotation. A longer text is shortened before it is quoted."""
_MAX_PERSONS = 4
"""The number of persons that a sentence names before “and others”, which stands for at least two."""

_QUOTATION_MARKS = frozenset('"“”„«»「」『』')


class _Phrases(Struct, frozen=True, forbid_unknown_fields=True):
    """The fragments of the sentences that are made from facts. Each `{placeholder}` is replaced; by "" if its fragment
    is unused.

    `quote_language` follows a quotation in another language, whose name comes from CLDR.

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
    quote_language: str = " ({language})"
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


class Judgement(Struct, frozen=True, forbid_unknown_fields=True):
    """What does not belong in an alt text. Only English has it, because a model describes a picture in English and
    translates that text.

    `remarks` are patterns by the complaint about what they find, and `claims` are the same for what may be noted.
    `traits`, and the adjectives of `peoples`, are claims only before a word of `persons`, or before `adjectives` and
    such a word: "a black coat" can be seen. `generic` are words that say nothing without others. `capitals` are words
    with a capital that, like those of `peoples`, name nothing in particular, and `capital_phrases` are patterns for
    several such words, with regard to case.
    """

    remarks: dict[str, tuple[str, ...]]
    claims: dict[str, tuple[str, ...]]
    traits: tuple[str, ...]
    peoples: str
    adjectives: str
    persons: str
    generic: str
    capitals: str
    capital_phrases: tuple[str, ...]


class _LanguageTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The file of one language.

    `function_words` are articles, prepositions, conjunctions and similar words; file names omit `stop_words`, too.
    `romanised_stop_words` are those of languages in other scripts, as `domain/romanise` writes them: some are part of
    the word after them, or there are no spaces.
    `openers` are beginnings that say that this is a picture, or address the reader, instead of describing the content;
    `closers` are the same at the end of a text, for languages that put "picture of" last. `removable_openers` are
    removed, because the rest is a correct text without them. In languages with cases this is not so: German "Bild eines
    Hauses" would leave a genitive. `picture_clause` follows the word for a picture in a text whose subject it is, as in
    "A photo of a sailor stands on a piano": such a text has no opener. `labels` are removed together with the colon
    that follows them. `dangling` are words that never end a sentence. `refusals` say that a model describes nothing.

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
    phrases: _Phrases
    function_words: str = ""
    stop_words: str = ""
    romanised_stop_words: str = ""
    removable_openers: tuple[str, ...] = ()
    picture_clause: str = ""
    closers: tuple[str, ...] = ()
    judgement: Judgement | None = None


@cache
def language_table(code: str) -> _LanguageTable:
    """The table of a supported language."""
    return msgspec.toml.decode((resources.files(__package__) / f"{code}.toml").read_bytes(), type=_LanguageTable)


def all_tables() -> tuple[_LanguageTable, ...]:
    """The tables of all supported languages, for texts whose language is not known."""
    return tuple(language_table(code) for code in LANGUAGES)


def is_about_a_picture(text: str, code: str) -> bool:
    """Whether the subject of `text` is a picture, as in "A photo of a sailor stands on a piano".

    Without "A photo of", such a text would say that the sailor does.
    """
    table = language_table(code)
    pattern = rf"(?:\w+[ '])?(?:{table.picture_words.replace(' ', '|')}) {table.picture_clause}"
    return bool(table.picture_clause) and re.match(pattern, straight(text), re.IGNORECASE) is not None


def straight(text: str) -> str:
    """`text` with ' in place of ’, as patterns have it."""
    return text.replace("’", "'")


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


# ---- sentences made from facts


class Mentions(Struct, frozen=True):
    """What a sentence mentions besides the pixel facts.

    `quote` is put in quotation marks; `quote_language` is the code of its language if readers have to know it, "" if
    not. `keywords` follow a label. `verbatim` (keywords without a label, events),
    `persons` and `places` are copied.
    `capture_month` is (year, month).
    """

    quote: str = ""
    verbatim: tuple[str, ...] = ()
    persons: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    keywords: str = ""
    capture_month: tuple[int, int] | None = None
    quote_language: str = ""

    @property
    def has_content(self) -> bool:
        """Whether anything besides the date is mentioned."""
        return bool(self.quote or self.verbatim or self.persons or self.places or self.keywords)


def sentence(language_code: str, facts: PixelFacts, mentions: Mentions) -> str:
    """One sentence in `language_code`, of at most 250 characters and usually at most 125, in NFC."""
    from babel import Locale  # worker processes measure pictures, but write no sentence

    phrases = language_table(language_code).phrases
    locale = Locale(language_code)
    lead = _lead(phrases, locale, mentions)
    fragments = dict.fromkeys(_OPTIONAL_FRAGMENTS, "") | {"kind": phrases.kind[_kind_key(facts)]}
    if mentions.keywords:
        fragments["keywords"] = phrases.keywords.format(words=mentions.keywords)
    if mentions.capture_month and facts.kind == "photograph":
        fragments["when"] = _month(phrases, locale, phrases.when, *mentions.capture_month)
    elif mentions.capture_month and mentions.has_content:
        fragments["date"] = _month(phrases, locale, phrases.date, *mentions.capture_month)
    text = _assemble(language_code, lead, fragments)
    for name in _OPTIONAL_FRAGMENTS:
        if len(text) <= PREFERRED_ALT_CHARS or (name == "keywords" and not lead):
            break
        fragments[name] = ""
        text = _assemble(language_code, lead, fragments)
    return text


_OPTIONAL_FRAGMENTS = ("when", "date", "keywords")
"""The fragments that are omitted from a sentence that is too long, the least informative first."""


def slug_kind(language_code: str, facts: PixelFacts) -> str:
    """The word for the kind of picture in file names."""
    phrases, key = language_table(language_code).phrases, _kind_key(facts)
    return phrases.slug_kind.get(key) or phrases.kind[key]


def _kind_key(facts: PixelFacts) -> str:
    return facts.kind + ("_bw" if facts.black_and_white else "")


def _assemble(language_code: str, lead: str, fragments: dict[str, str]) -> str:
    """The sentence of `lead` and `fragments`, with its capital and final punctuation."""
    phrases = language_table(language_code).phrases
    body = phrases.body.format(**fragments).strip(" ,،、，")
    has_colon = any(colon in lead + fragments["keywords"] for colon in ":：")
    joiner = phrases.lead_with_colon if has_colon else phrases.lead
    whole = joiner.format(lead=lead, body=body) if lead else body
    # the sentence adds a full stop, and a name or an abbreviated year may end in one (Washington D.C., 2023 г.)
    text = phrases.sentence.format(body=whole.rstrip(".") if phrases.sentence.endswith(".") else whole)
    # a lead at the beginning of the sentence keeps the case in which a person wrote it
    begins_with_lead = bool(lead) and text.startswith(lead)
    return unicodedata.normalize("NFC", text if begins_with_lead else capitalized(text, language_code))


def _lead(phrases: _Phrases, locale: Locale, mentions: Mentions) -> str:
    """The texts at the beginning of the sentence, separated by commas; those that do not fit into 190 characters are
    omitted.
    """
    parts = [phrases.quotes[0] + _unquoted(mentions.quote) + phrases.quotes[1]] if mentions.quote else []
    if parts and (language := _language_name(locale, mentions.quote_language)):
        parts[0] += phrases.quote_language.format(language=language)
    parts += mentions.verbatim
    if mentions.persons:
        parts.append(_persons(phrases, locale, mentions.persons))
    parts += mentions.places
    lead = ""
    for part in parts:
        longer = lead + phrases.comma + part if lead else part
        if len(longer) <= 190:
            lead = longer
    return lead


def _language_name(locale: Locale, code: str) -> str:
    """The name of a language in the language of `locale`, without its script or variety; "" if CLDR has none."""
    is_other_script = code == "zh-hant" and locale.language == "zh"
    names = {"nb": "no", "nn": "no", "zh-hant": "zh_Hant" if is_other_script else "zh"}
    return str(locale.languages.get(names.get(code, code), ""))


def country_name(name: str, language_code: str) -> str:
    """The name of a country in `language_code`, if `name` is its name in any language, or its code; else `name`."""
    from babel import Locale

    return str(Locale(language_code).territories.get(_country_codes().get(straight(name).casefold(), ""), name))


@cache
def _country_codes() -> dict[str, str]:
    """The ISO codes of countries by their case-folded names in all languages and by their codes.

    It is read for the first picture with a country, in a quarter of a second, and Babel keeps 37 MB of it in memory.
    """
    from babel import Locale
    from babel.core import get_global

    codes = {alias.casefold(): new[0] for alias, new in get_global("territory_aliases").items() if len(new) == 1}
    for language in LANGUAGES:
        for code, name in Locale(language).territories.items():
            if code.isalpha():
                codes |= {code.casefold(): code, straight(name).casefold(): code}
    # CLDR lacks these; "Kongo" is one country in Polish and another one in Norwegian
    others = {"turkey": "TR", "czech republic": "CZ", "united states of america": "US", "great britain": "GB"}
    return codes | others | {"kongo": ""}


def _unquoted(text: str) -> str:
    """`text` without a pair of quotation marks around all of it."""
    inner = text[1:-1]
    enclosed = text[:1] in _QUOTATION_MARKS and text[-1:] in _QUOTATION_MARKS and not set(inner) & _QUOTATION_MARKS
    return inner.strip() if enclosed and inner.strip() else text


def _persons(phrases: _Phrases, locale: Locale, persons: tuple[str, ...]) -> str:
    if len(persons) > _MAX_PERSONS + 1:
        return phrases.and_others.format(names=_separated_by_commas(phrases, locale, persons[:_MAX_PERSONS]))
    last = persons[-1]
    if phrases.and_script and not unicodedata.name(last[:1], "").startswith(phrases.and_script):
        return _separated_by_commas(phrases, locale, persons)
    if phrases.and_pattern and len(persons) > 1:
        return phrases.and_pattern.format(_separated_by_commas(phrases, locale, persons[:-1]), last)
    from babel.lists import format_list

    joined = format_list(persons, locale=locale)
    if phrases.conjunction_before and len(persons) > 1:
        beginning, conjunction = phrases.conjunction_before
        if re.match(beginning, last, re.IGNORECASE):
            before = joined.removesuffix(last).rstrip().rsplit(" ", 1)[0]
            joined = f"{before} {conjunction} {last}"
    return joined


def _separated_by_commas(phrases: _Phrases, locale: Locale, names: tuple[str, ...]) -> str:
    """`names` with the separator that CLDR has between the first elements of a list, unless that is "and"."""
    middle = locale.list_patterns["standard"]["middle"].replace("{0}", "").replace("{1}", "")
    return (middle if middle.strip() and not any(map(str.isalpha, middle)) else phrases.comma).join(names)


def _month(phrases: _Phrases, locale: Locale, pattern: str, year: int, month: int) -> str:
    """`pattern`, a fragment of `phrases`, with year and month."""
    from babel.dates import format_skeleton

    listed = phrases.months if isinstance(phrases.months, tuple) else ()
    return pattern.format(
        month=listed[month - 1] if listed else locale.months[str(phrases.months)]["wide"][month],
        month_number=month,
        year=year + phrases.year_offset,
        date=format_skeleton("yMMMM", date(year, month, 1), locale=locale),
    )
