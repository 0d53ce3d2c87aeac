"""Removes the parts of a text that do not describe the picture: names of cameras and programs, credit lines, and
openers such as "Image of".

It also recognises texts that consist only of such parts, and placeholders. What a person wrote about the picture is
preserved: a pattern whose words also occur in descriptions applies only to a whole sentence or the content of brackets.
Every pattern takes linear time.
"""

from __future__ import annotations

import re
from functools import cache

from imgproc_local.domain.alt_text import is_camera_default
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.sentences import sentences
from imgproc_local.vision.languages.table import language_table
from imgproc_local.vision.text.filename_words import NOISE_WORDS, VOCABULARY, filename_words, picture_words, untitled
from imgproc_local.vision.text.words import capitalized

MAX_FILE_NAME_CHARS = 255
"""Only the beginning of a text, up to the usual limit of a file name, is parsed as a file name."""
MAX_CREDIT_CHARS = 120
"""The maximum length of a credit, rights statement or advertisement. A longer part of a text is not removed."""

_MACHINE_WORDS = re.compile(rf"\b{VOCABULARY.pattern('machine_words')}\b", re.IGNORECASE)
"""Words that cameras and programs write. No person wrote a text without any other word."""

_VERBS = VOCABULARY.pattern("verbs")
_ADVERTISEMENT = re.compile(
    rf"(?:^|(?<=[\s,;|–-])){_VERBS} (?:with|by|in|using|on|from|via|mit|auf|von|avec|depuis"
    r"|con|desde|da|com|met|van|från|fra) "
    rf"(?:my |an? |the |meinem? |mon |mi |mijn |min )?{VOCABULARY.pattern('products')}\b",
    re.IGNORECASE,
)
"""The beginning of an advertisement that ends a sentence, such as "Sent from my iPhone"."""
_UNKNOWN_PROGRAM = re.compile(
    rf"{_VERBS} (?:with|by|using) [\w.,&' -]{{0,60}}\b"
    r"(?:inc|corp|ltd|gmbh|software|editor|converter|app|v?\d+\.\d+|\w+\.com)\b",
    re.IGNORECASE,
)
"""The advertisement of a program that is not known, at the beginning of a sentence."""
_TECHNICAL_DATA = re.compile(
    r"gd-jpeg|\bIJG JPEG\b|\bfile source:|[A-Z]:\\|\\\w+\\|/(?:home|users|mnt|tmp|var|storage|dcim)/|\blorem ipsum\b"
    r"|^(?:software|creator tool|compression|quality)\s?[:=]",
    re.IGNORECASE,
)
"""Technical data, file paths, and "lorem ipsum". A sentence that contains one of them describes no picture."""

_RIGHTS = re.compile(VOCABULARY.pattern("rights"), re.IGNORECASE)
"""The beginning of a statement of rights or conditions of use, which ends with the sentence."""

_CREDIT_LABELS = VOCABULARY.pattern("credit_labels")
_CREDIT = re.compile(
    rf"{_CREDIT_LABELS}s?\.?\s?(?:credits?|courtesy|nachweis|quelle|autor|©)\b"
    r"|crédits?(?: photos?)?\s?[:：]|créditos?(?: de (?:la )?(?:foto|imagen))?\s?:|credits?\s?:|bildnachweis|bildquelle"
    r"|(?:quelle|fuente|fonte|source|źródło|zdroj|forrás|источник|автор фото|автор)\s?[:：]"
    r"|(?:image|photo|picture)?\s?courtesy(?: of|:)",
    re.IGNORECASE,
)
"""The beginning of a sentence that is a credit."""
_CREDIT_WITH_NAME = re.compile(
    rf"(?:{_CREDIT_LABELS}\s?[:：/|=]|(?:photo|image|picture|photograph|photographed)s? by|fot\.)\s{{0,3}}",
    re.IGNORECASE,
)
"""The beginning of a sentence that is a credit if only names follow."""
_AGENCIES = VOCABULARY.pattern("agencies")
_AGENCY_CREDIT = re.compile(
    rf"(?:[^/()]{{0,60}}/\s?|[^/()]{{0,60}} via )?{_AGENCIES}(?:\s?[/|,]\s?.{{0,80}})?[.]?", re.DOTALL
)
"""A whole sentence that names an agency, and usually a person."""
_CONNECTORS = frozenset(VOCABULARY.connectors.split())

_CAPTION_LABEL = re.compile(rf"{VOCABULARY.pattern('caption_labels')}\s?[:：]\s{{0,3}}(?=\S)", re.IGNORECASE)
"""A label before a description, such as "Caption:"."""
_URL = re.compile(r"https?://\S{1,2000}", re.IGNORECASE)
_UNSPACED = re.compile("[\u3001-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff9f\U00020000-\U0003ffff]")
"""The beginning of a sentence in Japanese or Chinese, before which there is no space."""
_BRACKETS = re.compile(r"\s?[(\[（【]([^()\[\]（）【】]{1,160})[)\]）】]")

_PLACEHOLDER_WORDS = frozenset(VOCABULARY.placeholder_words.split()) | (
    NOISE_WORDS - frozenset(VOCABULARY.title_words.split())
)
_LETTERS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")

_CLOSERS = re.compile(r"(?:の(?:写真|画像|イラスト)|的(?:图片|照片|图像|圖片|相片)|의 (?:사진|이미지))(?=[.。]?$)")
"""The counterpart of an opener at the end of Japanese, Chinese and Korean texts."""
MAX_CLOSER_CHARS = 12
"""A closer is searched for in this many characters at the end of a text."""
MIN_REMAINING_CHARS = 3
"""An opener or a closer is removed only if at least this many characters remain."""


@cache
def _openers() -> tuple[tuple[re.Pattern[str], str], ...]:
    """The openers that are removed, with their languages."""
    return tuple(
        (re.compile(opener, re.IGNORECASE), code)
        for code in LANGUAGES
        for opener in language_table(code).removable_openers
    )


def has_only_machine_words(text: str) -> bool:
    """Whether a text is blank, or has only words of cameras and programs, digits and punctuation."""
    words = _MACHINE_WORDS.sub(" ", re.sub(r"\((?:r|tm)\)|[_\d]+", " ", text.lower()))
    return is_camera_default(text) or not re.sub(r"[\W\d_]+", " ", words).strip()


def is_placeholder(text: str) -> bool:
    """Whether a text has no letters, or is a placeholder ("Untitled", "Enter a caption") or a generated file name."""
    if re.fullmatch(rf"(?i)({untitled()})[\W\d_]*", text):
        return True
    words = [word.casefold() for word in _LETTERS.findall(text)]
    has_digit = any(char.isdigit() for char in text)
    is_generated_name = " " not in text and has_digit and not filename_words(text[:MAX_FILE_NAME_CHARS])
    return is_generated_name or (
        len(words) <= 6 and all(word in _PLACEHOLDER_WORDS or word in picture_words() for word in words)
    )


def without_boilerplate(line: str) -> str:
    """One line of a text without the sentences, and parts of sentences, that do not describe the picture."""
    line = _URL.sub(" ", line) if "://" in line else line
    line = _BRACKETS.sub(
        lambda found: "" if _is_credit(found[1].strip()) or _RIGHTS.search(found[1]) else found[0], line
    )
    line = _CAPTION_LABEL.sub("", line, count=1) if _CAPTION_LABEL.match(line) else line
    parts = [part for sentence in sentences(line) if (part := _without_credit(sentence))]
    return "".join(part if _UNSPACED.match(part) else f" {part}" for part in parts).strip()


def without_opener(text: str) -> str:
    """`text` without an opener such as "Image of", unless the rest would be ungrammatical or too short."""
    straight = text.replace("’", "'")
    for opener, language in _openers():
        found = opener.match(straight)
        rest = text[found.end() :] if found else ""
        # a name after an opener may be that of the photographer, as in "Foto van Jan Jansen", but not in English
        if len(rest) >= MIN_REMAINING_CHARS and (language == "en" or rest[0].islower()):
            text = capitalized(rest, language)
            break
    end_start = max(0, len(text) - MAX_CLOSER_CHARS)
    closer = _CLOSERS.search(text[end_start:])
    if closer and end_start + closer.start() >= MIN_REMAINING_CHARS:
        text = text[: end_start + closer.start()] + text[end_start + closer.end() :]
    return text


def _without_credit(sentence: str) -> str:
    """`sentence` without rights or advertisements at its end; "" if it is a credit or technical, or nothing remains."""
    if _TECHNICAL_DATA.search(sentence) or _UNKNOWN_PROGRAM.match(sentence) or _is_credit(sentence):
        return ""
    for pattern in (_RIGHTS, _ADVERTISEMENT):
        found = pattern.search(sentence)
        if found and len(sentence) - found.start() <= MAX_CREDIT_CHARS:
            sentence = sentence[: found.start()]
    sentence = sentence.strip(" ,;:|/–-")
    return sentence if re.search(r"[^\W_]", sentence) else ""


def _is_credit(part: str) -> bool:
    """Whether a sentence, or the content of brackets, is a credit of a photographer or an agency."""
    if len(part) > MAX_CREDIT_CHARS:
        return False
    if _CREDIT.match(part) or _AGENCY_CREDIT.fullmatch(part):
        return True
    label = _CREDIT_WITH_NAME.match(part)
    return label is not None and _are_names(part[label.end() :])


def _are_names(text: str) -> bool:
    """Whether a text of at most eight words consists of names, connectors such as "and", and agencies.

    A name begins with a capital, a quotation mark or @, or is short and in a script without capitals.
    """
    tokens = re.sub(r"[/|,&+]", " ", text).split()
    if not tokens or len(tokens) > 8:
        return False
    return re.fullmatch(rf"{_AGENCIES}[.]?", text) is not None or all(
        token[0].isupper()
        or token[0] in '@«“"'
        or token.lower() in _CONNECTORS
        or (not token[0].islower() and len(token) <= 8)
        for token in tokens
    )
