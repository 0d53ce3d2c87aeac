"""Finds positions on the Earth in a text: coordinates in every notation, links to maps, grid references, what3words.

Every pattern takes linear time: its quantifiers are bounded or possessive.

Source: ISO 6709; RFC 5870 (geo:); the specifications of Open Location Code, MGRS and UTM.
"""

from __future__ import annotations

import re

# The long patterns are strings, which `re` compiles at their first use: all take 60 ms, and most pictures have no text.

_URL = re.compile(r"(?:\b[a-z]{2,10}://|\bwww\.)[^\s<>\"']{1,4096}+", re.IGNORECASE)
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
        rf"{_START}\d{{1,2}}[.,]\d{{1,15}}\s?(?:(?-i:[NS])|north|south){_END}"
        rf"(?:{_SEPARATORS}\d{{1,3}}(?:[.,]\d{{1,15}})?\s?(?:[EWO]|east|west){_END})?",
        rf"{_START}[+\-−]?\d{{1,3}}[.,]\d{{3,15}}\s?(?:{_DEGREE}|(?:[EWO]|east|west){_END})",
        r"\b(?:[NS]\s?\d{1,2}[.,]\d{2}|[EWO]\s?\d{1,3}[.,]\d{3})\d{0,13}",
        rf"{_START}[+\-−]?\d{{1,3}}(?:\.\d{{4,15}}|,\d{{4,15}}){_SEPARATORS}[+\-−]?\d{{1,3}}(?:\.\d{{4,15}}|,\d{{4,15}})(?!\d)",
        rf"{_START}[+\-−]?\d{{1,3}}\.\d{{3,15}}\s?[,;]\s?[+\-−]?\d{{1,3}}\.\d{{3,15}}(?![.\d])",
        # ISO 6709
        r"[+-]\d{2,6}(?:\.\d{1,10})?[+-]\d{3,7}(?:\.\d{1,10})?(?:[+-]\d{1,6}(?:\.\d{1,6})?)?/",
        # 北緯35度39分31秒
        r"[北南東西东][緯纬経經经]\s?\d{1,3}(?:\.\d{1,15})?\s?度[\d.分秒 ]{0,20}",
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


def without_positions(text: str) -> str:
    """`text` with a space instead of each position and each link that contains one."""
    text = _URL.sub(lambda link: " " if _POSITION_IN_URL.search(link[0]) else link[0], text)
    for pattern in (_MAP_LINK, _GRID_REFERENCES, _COORDINATES):
        text = re.sub(pattern, " ", text)
    return text
