"""Removes private data from the texts of a picture.

Descriptions in files contain words, but also data: the JSON of a phone with its position, the settings of a program,
coordinates. `clean_text` separates the words from the data, for metadata, alt texts and file names. A sentence with an
e-mail address or with a personal number (`personal_numbers.py`) is left out as a whole, because its other words are
about that address or number.
Every pattern takes linear time: its quantifiers are bounded or possessive.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct

from imgproc_local.domain.alt_text import sentence_ends


class Removed(StrEnum):
    """The kinds of private data that are removed from a picture. api/README.md describes each."""

    GPS = "gps"
    LOCATION = "location"
    CONTACT = "contact"
    PERSON = "person"
    IDENTIFIER = "identifier"
    CAMERA = "camera"
    DATE = "date"
    SOFTWARE = "software"
    THUMBNAIL = "thumbnail"
    COMMENT = "comment"
    OTHER = "other"
    UNREADABLE = "unreadable"

    @classmethod
    def _missing_(cls, value: object) -> Removed:
        """The kind that stands for one that an earlier version stored."""
        return _EARLIER_KINDS.get(str(value), cls.OTHER)


_EARLIER_KINDS = {
    "email": Removed.CONTACT,
    "owner": Removed.PERSON,
    "faces": Removed.PERSON,
    "serial_number": Removed.IDENTIFIER,
    "history": Removed.SOFTWARE,
    "maker_note": Removed.CAMERA,
    "data_text": Removed.COMMENT,
}


MAX_TEXT_CHARACTERS = 32 * 1024


class CleanText(Struct, frozen=True):
    """A text without private data. `text` is "" if no word remains; it is unchanged if `removed` is empty."""

    text: str
    removed: frozenset[Removed] = frozenset()


# The long patterns are strings, which `re` compiles at their first use: all take 60 ms, and most pictures have no text.

_ALPHABETIC = "0-9A-Za-z\u00aa-\u052f\u1e00-\u1fff_"
"""Latin, Greek and Cyrillic letters, ASCII digits and the underscore."""
_SYLLABIC = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
"""Thai, Lao, Burmese, Khmer, Japanese, Chinese and Korean, beside whose letters an e-mail address needs no space."""
_AT = r"(?:@|%40|&#0{0,4}64;|&#x0{0,4}40;|&commat;|\s{0,2}[\[({<]\s{0,2}(?:at|@|ät|arroba)\s{0,2}[\])}>]\s{0,2})"
_DOT = r"(?:\.|\s{0,2}[\[({<]\s{0,2}(?:dot|\.|punkt|point|punto)\s{0,2}[\])}>]\s{0,2}|\sdot\s)"
_LABEL = rf"(?:[{_ALPHABETIC}-]{{1,63}}+|[{_SYLLABIC}]{{1,63}}+)"
_EMAIL = (
    r"(?i)(?:\b(?:e-?mail|mailto)\s{0,2}[:=]?\s{0,2})?"
    r"(?!(?:here|images|it|me|more|now|online|photos?|pictures?|shop|store|us|view)\sat\s)"
    rf"(?:(?<![{_ALPHABETIC}.+'-])[{_ALPHABETIC}.+'-]++|(?<![{_SYLLABIC}])[{_SYLLABIC}]++)"
    rf"(?:{_AT}|\s(?:at|@)\s(?=[\w-]{{1,63}}(?:\sdot\s|(?:\.[\w-]{{1,63}}){{0,3}}\.(?:[a-z]{{2}}|com|net|org|info|edu)\b)))"
    rf"{_LABEL}(?:{_DOT}{_LABEL}){{1,8}}"
)
"""E-mail addresses at a host name, also with "@" and "." written as words or escaped. Not "photos at example.com". The
host after a bare "at" ends like one, unlike "at St.Pauli".

Source: RFC 5322; RFC 5321, 4.5.3.1 (lengths)."""

_DEGREE = r"(?:[°º˚]|\s?deg(?:rees?)?\b|&deg;)"
_NUMBER = r"[+\-−]?\d{1,3}(?:[.,]\d{1,15})?"
_HEMISPHERE = r"(?:[NSEWO]|north|south|east|west)"
"""O is east in German (Ost) and west in French, Spanish and Italian."""
_END = r"(?![\w'’-])"
_START = r"(?<![0-9A-Za-z_.,])"
_AXIS = (
    r"(?:gps\s?)?(?:lat(?:itude|itud|itudine)?|lon(?:g|gitude|gitud|gitudine)?|lng|breite|länge|breitengrad|längengrad"
    r"|широта|долгота|緯度|経度|纬度|经度|easting|northing)"
)
_SEPARATORS, _DECIMAL = r"[\s,;/|]{1,3}", r"[+\-−]?\d{1,3}[.,]\d{1,15}"
_COORDINATES = "(?i)" + "|".join(
    (
        r"\bgeo:\s?[+-]?\d[^\s\"'<>]{0,200}+",
        r"\bpoint\s?z?\s?\([^)]{1,80}\)",
        # a value after the name of its axis
        rf"(?:\b|(?<=_)){_AXIS}(?:ref)?[\"']?\s{{0,2}}(?:[:=]\s{{0,2}}[\"'(\[]?|is\s){_NUMBER}(?:{_DEGREE})?\s?(?:{_HEMISPHERE}{_END})?",
        rf"\b(?!long\s|lon\s){_AXIS}\s{{1,2}}{_DECIMAL}(?:{_SEPARATORS}{_AXIS}\s{{1,2}}{_DECIMAL})?",
        rf"\bgps\b[\w ]{{0,12}}?[:=]?\s{{0,2}}[(\[]?{_NUMBER}{_SEPARATORS}{_NUMBER}",
        # degrees, minutes and seconds
        rf"(?:\b{_HEMISPHERE}\s?)?{_START}[+\-−]?\d{{1,3}}\s?{_DEGREE}\s{{0,2}}\d{{1,2}}(?:[.,]\d{{1,10}})?\s?['′’´‘]"
        rf"(?:\s{{0,2}}\d{{1,2}}(?:[.,]\d{{1,10}})?\s?(?:[\"″”“]|''|′′|’’)?)?(?:\s{{0,2}}{_HEMISPHERE}{_END})?",
        rf"{_START}\d{{1,3}}(?:[\s:,]|\s?{_DEGREE}\s?)\d{{1,2}}(?:[\s:,]\d{{1,2}}(?:[.,]\d{{1,10}})?|[.,]\d{{1,10}})\s?{_HEMISPHERE}{_END}",
        rf"\b[NSEWO]\s?\d{{1,3}}\s?(?:\s|{_DEGREE}\s?)\d{{1,2}}(?:\s\d{{1,2}})?[.,]\d{{1,10}}",
        # fractions, as Exif stores them
        r"\b\d{1,4}/\d{1,9}[,;\s]{1,3}\d{1,9}/\d{1,9}[,;\s]{1,3}\d{1,9}/\d{1,9}\b",
        # decimal degrees
        rf"{_START}[+\-−]?\d{{1,3}}(?:[.,]\d{{1,15}})?\s?{_DEGREE}\s?{_HEMISPHERE}{_END}",
        rf"\b[NSEWO]\s?\d{{1,3}}(?:[.,]\d{{1,15}})?\s?{_DEGREE}",
        rf"\b[NS]\s?\d{{1,2}}[.,]\d{{1,15}}{_SEPARATORS}[EWO]\s?\d{{1,3}}(?:[.,]\d{{1,15}})?",
        rf"{_START}\d{{1,2}}[.,]\d{{1,15}}\s?(?:[NS]|north|south){_END}"
        rf"(?:{_SEPARATORS}\d{{1,3}}(?:[.,]\d{{1,15}})?\s?(?:[EWO]|east|west){_END})?",
        rf"{_START}[+\-−]?\d{{1,3}}[.,]\d{{3,15}}\s?(?:{_DEGREE}|(?:[EWO]|east|west){_END})",
        r"\b(?:[NS]\s?\d{1,2}[.,]\d{2}|[EWO]\s?\d{1,3}[.,]\d{3})\d{0,13}",
        rf"{_START}[+\-−]?\d{{1,3}}(?:\.\d{{4,15}}|,\d{{4,15}}){_SEPARATORS}[+\-−]?\d{{1,3}}(?:\.\d{{4,15}}|,\d{{4,15}})(?!\d)",
        rf"{_START}[+\-−]?\d{{1,3}}\.\d{{3,15}}\s?[,;]\s?[+\-−]?\d{{1,3}}\.\d{{3,15}}(?![.\d])",
        # ISO 6709
        r"[+-]\d{2,6}(?:\.\d{1,10})?[+-]\d{3,7}(?:\.\d{1,10})?(?:[+-]\d{1,6}(?:\.\d{1,6})?)?/",
        # what3words
        r"(?<![:/\w])///[^\s./]{1,40}\.[^\s./]{1,40}\.[^\s./]{1,40}",
    )
)
_GRID_REFERENCES = "|".join(
    (
        # Open Location Code
        r"\b(?=[\d+]{0,10}[CFGHJMPQRVWX])[23456789CFGHJMPQRVWX]{4,8}\+[23456789CFGHJMPQRVWX]{2,3}\b",
        # MGRS, UTM, national grid
        r"\b\d{1,2}[C-HJ-NP-X]\s?[A-HJ-NP-Z]{2}\s?\d{2,5}\s?\d{2,5}\b",
        r"\b\d{1,2}\s?[C-HJ-NP-X]\s?\d{6}\s?(?:m?E)?,?\s?\d{6,7}(?:\s?m?N)?\b",
        r"\b[HNSTO][A-HJ-Z]\s?\d{4,5}\s?\d{4,5}\b",
    )
)
_MAY_BE_PRIVATE = re.compile(r"[\d@＠﹫%&\[{(<=/:：]|\sat\s", re.IGNORECASE)
"""Matches every text in which there may be anything to remove, so that all other texts are returned quickly."""

_URL = re.compile(r"(?:\b[a-z]{2,10}://|\bwww\.)[^\s<>\"']{1,4096}+", re.IGNORECASE)
_MAP_LINK = (
    r"(?i)(?:\b[a-z]{2,10}://)?(?<![\w.-])(?:[\w-]{1,63}\.){0,4}"
    r"(?:google\.[a-z.]{2,6}/maps|maps\.google\.[a-z.]{2,6}|goo\.gl/maps|maps\.app\.goo\.gl|openstreetmap\.[a-z]{2,3}"
    r"|osm\.org|maps\.apple\.com|bing\.com/maps|waze\.com|what3words\.com|w3w\.co|yandex\.[a-z]{2,3}/maps|here\.com"
    r"|mapillary\.com|amap\.com|map\.baidu\.com|wikimapia\.org|mapcarta\.com|plus\.codes|geohash\.org|geonames\.org)"
    r"(?![\w.-])[^\s<>\"']{0,4096}+"
)
_POSITION_IN_URL = re.compile(
    r"[@=/,!](?:loc:)?[+-]?\d{1,3}\.\d{1,15}(?:,|%2C|/|!|&)[^\s/]{0,12}?[+-]?\d{1,3}\.\d{1,15}|[?&#](?:lat|lon|lng)",
    re.IGNORECASE,
)
_SERIAL = (
    r"(?i)\b(?:(?:body|lens|camera|device|flash)?[ _-]?serial[ _-]?(?:number|num|no|nr|#)?|s/n|sn(?=\s?[:=#])"
    r"|seriennummer|seriennr|imei|num[eé]ro de s[eé]rie|n[uú]mero de serie|numero di serie)"
    r"\.?\s{0,2}[:=#]?\s{0,2}(?=[A-Z/-]{0,40}\d)[A-Z\d][A-Z\d/-]{3,40}"
)
_BLOB = (
    r"(?i)\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"
    r"|(?<![\w+/.:@])(?=[A-Za-z+/]{0,4096}\d[A-Za-z+/]{0,4096}\d)(?=[\d+/]{0,4096}[A-Za-z])[A-Za-z0-9+/]{24,}+={0,2}(?![\w.])"
)
"""A UUID, a hash or Base64."""

_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]{0,63})((?:\s[^<>]{0,2000})?)>")
_HTML_NAMES = """
a abbr acronym address article aside b bdi bdo big blockquote br caption center cite code dd del details dfn div dl dt
em figcaption figure font footer h1 h2 h3 h4 h5 h6 header hr i img ins kbd li main mark nav ol p pre q rp rt ruby s
samp section small span strike strong sub summary sup table tbody td th time tr tt u ul var wbr
"""
_HTML = frozenset(_HTML_NAMES.split())
_PAIR = re.compile(r"(?:^|[\s,;&|?])[^\W\d][\w.:-]{0,60}=(?:[^\s=,;&|]|\"|$)")
_NUMERIC_ENTRY = re.compile(r"(?:^|[\n,;|])\s{0,8}[^\W\d][\w .-]{0,40}[:\t]\s{0,4}[+-]?\d[\d.,:/ -]{0,30}(?=$|[\s,;|])")
_WORD = re.compile(rf"[^\W\d_]{{2}}|[{_SYLLABIC}]")
_SEPARATED_NUMBERS = re.compile(r"(?:^|[,;|\t])\s{0,4}[+-]?\d{1,15}(?:[.,]\d{1,15})?(?=$|\s{0,4}[,;|\t])")
_LIST_OF_NUMBERS = re.compile(r"(?:^|[,;|\t\s])[+-]?\d{1,15}(?:[.,]\d{1,15})?(?=$|[,;|\t\s])")

_LEFTOVER = (
    r"(?i)\(\s{0,4}[,;:/|-]?\s{0,4}\)|\[\s{0,4}[,;:/|-]?\s{0,4}\]|<\s{0,4}>|\{\s{0,4}\}|\"\s{0,4}\""
    r"|\b(?:e-?mail|mail|mailto|gps|coordinates?|position|koordinaten|coordonnées|coordenadas)\s{0,2}[:=]\s{0,2}(?=$|[\s,;.)\]])"
)
"""Empty brackets, and labels without a value."""
_TIDYING = (
    (_LEFTOVER, " "),
    (_LEFTOVER, " "),
    (r"(?<=\s)[,;](?=\s)", " "),
    (r"([,;:|/])(?:\s{0,4}[,;:|/]){1,8}+(?=\s|$)", r"\1"),
    (r"[^\S\r\n]{2,}+", " "),
    (r"[^\S\r\n](?=[,.;:!?)\]](?:\s|$))", ""),
    (r"[,;:]\s{0,4}(?=[.!?](?:\s|$))", ""),
)
"""What removals leave behind, and what replaces it, in order."""
_EDGES = " \t\r\n,;:|/–—-&"
_BREAK = re.compile(
    r"[\r\n]|</?(?:p|div|br|li|ul|ol|h[1-6]|t[drh]|table|blockquote|figcaption|section)\b[^<>]{0,2000}>", re.IGNORECASE
)
"""What separates sentences that end without a full stop."""


@lru_cache(maxsize=64)
def clean_text(text: str, *, keep_sentences: bool = False) -> CleanText:
    """`text` without positions, serial numbers, data such as JSON, and sentences with an e-mail address or a personal
    number; HTML elements are preserved.

    With `keep_sentences`, only the address or number itself is removed: a copyright notice still says whose it is. A
    text that is mainly data, or that is longer than `MAX_TEXT_CHARACTERS`, becomes "".
    """
    if len(text) > MAX_TEXT_CHARACTERS:
        return CleanText("", frozenset((Removed.COMMENT,)))
    if not _MAY_BE_PRIVATE.search(text):
        return CleanText(text)
    if _is_data(text):
        return CleanText("", frozenset((Removed.COMMENT, *_kinds_in(text))))
    removed: set[Removed] = set()
    cleaned = _without_data(text)
    if cleaned != text:
        removed |= {Removed.COMMENT, *_kinds_in(text)}
    for kind, pattern, replacement in _PRIVATE:
        shorter = re.sub(pattern, replacement, cleaned)
        if shorter != cleaned:
            removed.add(kind)
            cleaned = shorter
    if personal := _personal(cleaned):
        removed |= {kind for kind, _ in personal}
        spans = [span for _, span in personal]
        cleaned = _without(cleaned, spans if keep_sentences else _sentences_with(cleaned, spans))
    # only now, because the number of a bank account looks like a hash
    shorter = re.sub(_BLOB, " ", cleaned)
    if not removed and shorter == text:
        return CleanText(text)
    removed |= {Removed.COMMENT} if shorter != cleaned else set()
    for remains, replacement in _TIDYING:
        shorter = re.sub(remains, replacement, shorter)
    cleaned = shorter.strip(_EDGES)
    return CleanText(cleaned if _WORD.search(cleaned) and not _is_data(cleaned) else "", frozenset(removed))


_PRIVATE: tuple[tuple[Removed, str | re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (Removed.GPS, _URL, lambda link: " " if _POSITION_IN_URL.search(link[0]) else link[0]),
    (Removed.GPS, _MAP_LINK, " "),
    (Removed.IDENTIFIER, _SERIAL, " "),
    (Removed.GPS, _GRID_REFERENCES, " "),
    (Removed.GPS, _COORDINATES, " "),
)
"""The patterns of private data, in the order of their search, and what replaces what they find."""


def _kinds_in(data: str) -> set[Removed]:
    """The kinds of private data in `data`."""
    kinds = {kind for kind, pattern, replacement in _PRIVATE if re.sub(pattern, replacement, data) != data}
    return kinds | {kind for kind, _ in _personal(data)}


def _personal(text: str) -> list[tuple[Removed, tuple[int, int]]]:
    """The kind of each e-mail address and personal number, and its start and end."""
    # imported here, because its patterns take time to compile, too
    from imgproc_local.domain.personal_numbers import folded, personal_numbers

    same_length = folded(text)
    found = [(Removed.CONTACT, match.span()) for match in re.finditer(_EMAIL, same_length)]
    kinds = {"telephone": Removed.CONTACT, "identity": Removed.IDENTIFIER}
    return found + [(kinds[kind], span) for kind, span in personal_numbers(same_length)]


def _sentences_with(text: str, spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The sentences of `text` that contain a part of one of the `spans`."""
    breaks = {end for found in _BREAK.finditer(text) for end in found.span()}
    # a full stop after an address or number is never that of an abbreviation
    stops = {end + 1 for _, end in spans if re.match(r"[.!?]\s", text[end : end + 2])}
    bounds = sorted({0, len(text)} | breaks | stops | {*sentence_ends(text)})
    numbers = {
        number for start, end in spans for number in range(bisect_right(bounds, start) - 1, bisect_left(bounds, end))
    }
    return [(bounds[number], bounds[number + 1]) for number in numbers]


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    gone = {index for start, end in spans for index in range(start, end)}
    return "".join(character for index, character in enumerate(text) if index not in gone)


def _is_data(text: str) -> bool:
    """Whether `text` is a file format such as JSON or XML, or consists mainly of settings (`name=value`) or numbers."""
    text = text.strip()
    if text.startswith(("<?xml", "<!", "bplist", "%PDF", "data:")):
        return True
    if text and not _without_data(text).strip(" \t\r\n,;"):
        return True
    if not _WORD.search(text):
        return len(_LIST_OF_NUMBERS.findall(text)) > 1 or bool(re.search(r"\d[.,]\d", text))
    text = _URL.sub(" ", text)
    pairs, entries = len(_PAIR.findall(text)), len(_NUMERIC_ENTRY.findall(text))
    others = sum("=" not in token and _WORD.search(token) is not None for token in re.split(r"[\s,;&|]+", text))
    return (
        pairs >= max(1, others)
        or (entries >= 2 and 2 * entries > len(re.split(r"[\n,;|]+", text)))
        or (len(_SEPARATED_NUMBERS.findall(text)) >= 3 and sum(map(str.isalpha, text)) < 0.3 * len(text))
    )


def _without_data(text: str) -> str:
    """`text` without objects and arrays of JSON or code, and without XML elements that are not HTML."""
    return _without_objects(_without_elements(text))


def _without_objects(text: str) -> str:
    """`text` without objects and arrays of JSON or code. The last one may be unclosed."""
    out: list[str] = []
    depth = start = end = 0
    for found in re.finditer(r"[{}\[\]]|\Z", text):
        if found[0] in ("{", "["):
            start = start if depth else found.start()
            depth += 1
        elif depth:
            depth = depth - 1 if found[0] else 0
            if depth == 0:
                inside = text[start : found.end()]
                out += [text[end:start], " " if _is_object(inside) else inside]
                end = found.end()
    return "".join([*out, text[end:]])


def _is_object(text: str) -> bool:
    """Whether `text`, which begins with a bracket, is an object or array of JSON or code. It may be truncated."""
    inside = text[1:].lstrip()
    if text[0] == "{":
        return not inside[:1].strip("}") or bool(re.search(r"[:=,]", inside))
    return inside[:1] in ("{", '"', "'", "[") or bool(re.match(r"[+-]?\d[\d.]{0,20}\s{0,4},", inside))


def _without_elements(text: str) -> str:
    """`text` without XML elements that are not HTML, such as those of GPX or KML."""
    if "<" not in text:
        return text
    out, end = [], 0
    unclosed: set[str] = set()
    for tag in _TAG.finditer(text):
        name = tag[2]
        if tag.start() < end or tag[1] or name in unclosed or name.lower() in _HTML:
            continue
        if tag[3].endswith("/") or tag[0].endswith("/>"):
            stop = tag.end()
        else:
            closing = text.find(f"</{name}", tag.end())
            if closing < 0:
                unclosed.add(name)
                continue
            stop = text.find(">", closing) + 1 or len(text)
        out += [text[end : tag.start()], " "]
        end = stop
    return "".join([*out, text[end:]])
