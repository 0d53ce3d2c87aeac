"""Distinguishes data from words in a text: JSON, XML, settings (`name=value`) and lists of numbers.

Every pattern takes linear time: its quantifiers are bounded or possessive.
"""

from __future__ import annotations

import re

SYLLABIC = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
"""Thai, Lao, Burmese, Khmer, Japanese, Chinese and Korean."""
WORD = re.compile(rf"[^\W\d_]{{2}}|[{SYLLABIC}]")
"""Two letters, or one of a script in which it may be a word."""
_URL = re.compile(r"(?:\b[a-z]{2,10}://|\bwww\.)[^\s<>\"']{1,4096}+", re.IGNORECASE)
_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]{0,63})((?:\s[^<>]{0,2000})?)>")
_HTML_NAMES = """
a abbr acronym address article aside b bdi bdo big blockquote br caption center cite code dd del details dfn div dl dt
em figcaption figure font footer h1 h2 h3 h4 h5 h6 header hr i img ins kbd li main mark nav ol p pre q rp rt ruby s
samp section small span strike strong sub summary sup table tbody td th time tr tt u ul var wbr
"""
_HTML = frozenset(_HTML_NAMES.split())
_PAIR = re.compile(r"(?:^|[\s,;&|?])[^\W\d][\w.:-]{0,60}=(?:[^\s=,;&|]|\"|$)")
_NUMERIC_ENTRY = re.compile(
    r"(?:^|[\n,;|])\s{0,8}[^\W\d][\w .-]{0,40}(?<!\d)[:\t]\s{0,4}"
    r"(?!\d\d?(?::\d|\.\d\d ?[-–]))[+-]?\d[\d.,:/ -]{0,30}(?=$|[\s,;|])"
)
"""A name and its value, such as "ISO: 100". Times of day, as in opening hours, are no values."""
_SEPARATED_NUMBERS = re.compile(r"(?:^|[,;|\t])\s{0,4}[+-]?\d{1,15}(?:[.,]\d{1,15})?(?=$|\s{0,4}[,;|\t])")
_LIST_OF_NUMBERS = re.compile(r"(?:^|[,;|\t\s])[+-]?\d{1,15}(?:[.,]\d{1,15})?(?=$|[,;|\t\s])")


def is_data(text: str) -> bool:
    """Whether `text` is a file format such as JSON or XML, or consists mainly of settings (`name=value`) or numbers."""
    text = text.strip()
    if text.startswith(("<?xml", "<!", "bplist", "%PDF", "data:")):
        return True
    if text and not without_data(text).strip(" \t\r\n,;"):
        return True
    if not WORD.search(text):
        return len(_LIST_OF_NUMBERS.findall(text)) > 1 or bool(re.search(r"\d[.,]\d", text))
    text = _URL.sub(" ", text)
    pairs, entries = len(_PAIR.findall(text)), len(_NUMERIC_ENTRY.findall(text))
    others = sum("=" not in token and WORD.search(token) is not None for token in re.split(r"[\s,;&|]+", text))
    return (
        pairs >= max(1, others)
        or (entries >= 2 and 2 * entries > len(re.split(r"[\n,;|]+", text)))
        or (len(_SEPARATED_NUMBERS.findall(text)) >= 3 and sum(map(str.isalpha, text)) < 0.3 * len(text))
    )


def without_data(text: str) -> str:
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
