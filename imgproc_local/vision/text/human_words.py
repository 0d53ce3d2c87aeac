"""Keeps what a person wrote in a text of the metadata: `human_text` is applied to all fields.

In this order, it removes private data and mark-up, repairs letters that a wrong encoding changed, and drops: sentences
that lost letters, credits, statements of rights and advertisements, openers such as "Image of", placeholders, and texts
of cameras and programs. A pattern whose words also occur in descriptions applies only to a whole sentence or the
content of brackets. The words are in `vocabulary.toml`. Every pattern takes linear time.
"""

from __future__ import annotations

import codecs
import html
import re
import unicodedata
from functools import cache, lru_cache

from imgproc_local.domain.alt_text import TAG, is_camera_default, sentences
from imgproc_local.domain.filename import JOINERS
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.privacy import clean_text
from imgproc_local.vision.languages import language_table
from imgproc_local.vision.text.filename_words import filename_words, pattern, picture_words, untitled, vocabulary
from imgproc_local.vision.text.words import capitalized

_MAX_CREDIT_CHARS = 120
"""The maximum length of a credit, rights statement or advertisement. A longer part of a text is not removed."""


@lru_cache(maxsize=128)
def human_text(text: str) -> str:
    """`text` on one line in NFC, without mark-up, private data and boilerplate; "" if no person wrote it.

    Sentences that have lost letters through a wrong encoding are dropped.
    """
    max_chars = 8000 if "<" in text or "&" in text else 2000  # mark-up may be longer than the text
    plain = _with_repaired_letters(_without_markup(clean_text(text[:max_chars]).text)[:2000])
    plain = unicodedata.normalize("NFC", clean_text(plain).text)
    lines = (_readable(" ".join(line.split())) for line in plain.splitlines())
    cleaned = _without_opener(" ".join(filter(None, map(_without_credits, lines))))
    return "" if _is_placeholder(cleaned) or _has_only_machine_words(cleaned) else cleaned


# ---- mark-up

_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
_HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)|<(script|style|head)\b.*?(?:</\1[^>]*(?:>|\Z)|\Z)", re.DOTALL | re.IGNORECASE)
"""Comments, and elements that a browser does not show. An unclosed one extends to the end of the text."""
_TAG = re.compile(TAG, re.IGNORECASE)
_INLINE = re.compile("a|abbr|b|big|cite|code|em|font|i|mark|q|s|small|span|strong|sub|sup|u|wbr", re.IGNORECASE)
"""Elements whose tags are removed without a space, because they don't separate words."""


def _without_markup(text: str) -> str:
    """`text` without tags, comments, scripts and styles of HTML, with entities replaced, even if escaped twice."""
    for _ in range(3):
        text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
        text = _TAG.sub(lambda tag: "" if _INLINE.fullmatch(tag[1]) else " ", _HIDDEN.sub(" ", text))
    return text


# ---- letters that were decoded with a wrong encoding

_ENCODINGS = ("cp1252", "cp1251", "cp1250", "mac_roman")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]{2,200}")
_PLAUSIBLE = re.compile(
    "[\u00a0-\u017f\u0218-\u021b\u0370-\u052f\u05d0-\u05ea\u0621-\u064a\u0660-\u0669\u067e\u0686\u06a9\u06af\u06cc"
    "\u0900-\u0fff\u10a0-\u10ff\u1e00-\u1fff\u2010-\u2044\u20ac\u2122\u3000-\u30ff\u3400-\u9fff\uac00-\ud7a3\uff00-\uffef"
    "\U0001f300-\U0001faff\u200d\ufe0f\x80-\x9f]+"
)
"""Letters of living languages, typographic marks and emoji. After one of several wrong conversions, control characters
remain for the next round."""
_MARK_AFTER_LETTER = re.compile("[^\\W\\d_][“”„‘’‚…–—»›]")
"""A letter and a mark, such as the last two characters of „TRÄ“, may be the bytes of a UTF-8 character by chance. They
are decoded again only if another part of the text is certainly damaged."""
_LOST = re.compile(
    "[\ufffd\x80-\x9f]|[^\\W\\d_]\\?{1,8}[^\\W\\d_]|\\?{3}"
    "|[ÃÂ][\u00a1-\u00bf‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]|â€|[ÐÑ][\u00a0-\u00bf][ÐÑ]|ï»¿"
)
"""Signs of lost letters: replacement characters, question marks inside words, remains of UTF-8."""
_LATIN_1_WORD = re.compile(r"(?<![^\W\d_])[À-ÖØ-öø-ÿ]{4,40}(?![^\W\d_])")
"""A word of Latin-1 letters without an ASCII letter, such as Cyrillic text that was decoded as Windows-1252."""


def _as_latin_1(error: UnicodeError) -> tuple[bytes, int]:
    """The handler of an encoding for characters that it lacks. Only encoding calls it."""
    assert isinstance(error, UnicodeEncodeError)
    return error.object[error.start : error.end].encode("latin-1"), error.end


codecs.register_error("as_latin_1", _as_latin_1)


def _with_repaired_letters(text: str) -> str:
    """`text` with the parts decoded again that are UTF-8 in a wrong encoding, if that yields only plausible letters."""
    for _ in range(3):  # a text may have passed through several programs
        repaired = next((new for name in _ENCODINGS if (new := _decoded_again(text, name)) != text), text)
        if repaired == text:
            break
        # the second byte of "à" is a no-break space, which programs replace by a space; the third byte of a closing
        # quotation mark has no character in Windows-1252
        text = re.sub("(?<![^\\W\\d_])Ã(?=\\s)", "à", re.sub("â€(?=[\\s.,;:!?]|$)", "”", repaired))
    return text


def _decoded_again(text: str, encoding: str) -> str:
    """`text` with its runs of characters outside ASCII encoded in `encoding` and decoded as UTF-8, where possible."""

    def decoded(run: re.Match[str]) -> str:
        try:
            again = run[0].encode(encoding, "as_latin_1").decode("utf-8")
        except UnicodeError:
            return run[0]
        return again if _PLAUSIBLE.fullmatch(again) else run[0]

    is_certain = any(
        decoded(run) != run[0] and not _MARK_AFTER_LETTER.fullmatch(run[0]) for run in _NOT_ASCII.finditer(text)
    )
    return _NOT_ASCII.sub(decoded, text) if is_certain else text


def _has_lost_letters(text: str) -> bool:
    """Whether letters of `text` were replaced, such as by "?", or are still wrongly decoded."""
    strange = len(_LATIN_1_WORD.findall(text))
    return bool(_LOST.search(text)) or (strange > 0 and 2 * strange >= len(re.findall(r"[^\W\d_]{2,}", text)))


def _readable(line: str) -> str:
    """`line` without the sentences that have lost letters, and without invisible characters."""
    if (not line.isascii() or "?" in line) and _has_lost_letters(line):
        line = " ".join(part for part in sentences(line) if not _has_lost_letters(part))
    return "".join(char for char in line if _is_visible(char)).strip()


def _is_visible(char: str) -> bool:
    """Not so are controls and soft hyphens. Zero-width joiners belong to emoji and Persian words, tags to flags."""
    category = unicodedata.category(char)
    is_format = category == "Cf" and char not in JOINERS and char < "\U000e0000"
    return not is_format and category not in ("Cc", "Co", "Cn", "Cs") and char != "\ufffc"


# ---- credits, rights and advertisements

_URL = re.compile(r"https?://\S{1,2000}", re.IGNORECASE)
_ADVERTISEMENT = re.compile(
    rf"(?i)(?:^|(?<=[\s,;|–-])){pattern('verbs')} (?:with|by|in|using|on|from|via|mit|auf|von|avec|depuis"
    r"|con|desde|da|com|met|van|från|fra) "
    rf"(?:my |an? |the |meinem? |mon |mi |mijn |min )?{pattern('products')}\b"
)
"""The beginning of an advertisement that ends a sentence, such as "Sent from my iPhone"."""
_PROGRAM = re.compile(
    rf"(?i){pattern('verbs')} (?:with|by|using) [\w.,&' -]{{0,60}}\b"
    r"(?:inc|corp|ltd|gmbh|software|editor|converter|app|v?\d+\.\d+|\w+\.com)\b"
)
"""The advertisement of a program that is not known, at the beginning of a sentence."""
_TECHNICAL_DATA = re.compile(
    r"(?i)gd-jpeg|\bIJG JPEG\b|\bfile source:|[A-Z]:\\|\\\w+\\|/(?:home|users|mnt|tmp|var|storage|dcim)/"
    r"|\blorem ipsum\b|^(?:software|creator tool|compression|quality)\s?[:=]"
)
"""Technical data, file paths, and "lorem ipsum". A sentence that contains one of them describes no picture."""
_RIGHTS = re.compile(f"(?i){pattern('rights')}")
"""The beginning of a statement of rights or conditions of use, which ends with the sentence."""
_CREDIT = re.compile(
    rf"(?i){pattern('credit_labels')}s?\.?\s?(?:credits?|courtesy|nachweis|quelle|autor|©)\b"
    r"|crédits?(?: photos?)?\s?[:：]|créditos?(?: de (?:la )?(?:foto|imagen))?\s?:|credits?\s?:|bildnachweis|bildquelle"
    r"|(?:quelle|fuente|fonte|source|źródło|zdroj|forrás|источник|автор фото|автор)\s?[:：]"
    r"|(?:image|photo|picture)?\s?courtesy(?: of|:)"
)
"""The beginning of a sentence that is a credit."""
_CREDIT_WITH_NAME = re.compile(
    rf"(?i)(?:{pattern('credit_labels')}\s?[:：/|=]|(?:photo|image|picture|photograph(?:ed)?)s? by|fot\.)\s{{0,3}}"
)
"""The beginning of a sentence that is a credit if only names follow."""
_AGENCY = re.compile(rf"{pattern('agencies')}[.]?")
_AGENCY_CREDIT = re.compile(
    rf"(?:[^/()]{{0,60}}/\s?|[^/()]{{0,60}} via )?{pattern('agencies')}(?:\s?[/|,]\s?.{{0,80}})?[.]?", re.DOTALL
)
"""A whole sentence that names an agency, and usually a person."""
_CONNECTORS = vocabulary("connectors")
_CAPTION_LABEL = re.compile(rf"(?i){pattern('caption_labels')}\s?[:：]\s{{0,3}}(?=\S)")
"""A label before a description, such as "Caption:"."""
_UNSPACED = re.compile("[\u3001-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff9f\U00020000-\U0003ffff]")
"""The beginning of a sentence in Japanese or Chinese, before which there is no space."""
_BRACKETS = re.compile(r"\s?[(\[（【]([^()\[\]（）【】]{1,160})[)\]）】]")


def _without_credits(line: str) -> str:
    """One line of a text without the sentences, and parts of sentences, that do not describe the picture."""
    line = _BRACKETS.sub(
        lambda found: "" if _is_credit(found[1].strip()) or _RIGHTS.search(found[1]) else found[0], _URL.sub(" ", line)
    )
    label = _CAPTION_LABEL.match(line)
    parts = filter(None, map(_without_credit, sentences(line[label.end() :] if label else line)))
    return "".join(part if _UNSPACED.match(part) else f" {part}" for part in parts).strip()


def _without_credit(sentence: str) -> str:
    """`sentence` without rights or advertisements at its end; "" if it is a credit or technical, or nothing remains."""
    if _TECHNICAL_DATA.search(sentence) or _PROGRAM.match(sentence) or _is_credit(sentence):
        return ""
    for beginning in (_RIGHTS, _ADVERTISEMENT):
        found = beginning.search(sentence)
        if found and len(sentence) - found.start() <= _MAX_CREDIT_CHARS:
            sentence = sentence[: found.start()]
    return sentence.strip(" ,;:|/–-") if re.search(r"[^\W_]", sentence) else ""


def _is_credit(part: str) -> bool:
    """Whether a sentence, or the content of brackets, is a credit of a photographer or an agency."""
    if len(part) > _MAX_CREDIT_CHARS:
        return False
    label = _CREDIT_WITH_NAME.match(part)
    is_label_with_names = label is not None and _are_names(part[label.end() :])
    return is_label_with_names or bool(_CREDIT.match(part) or _AGENCY_CREDIT.fullmatch(part))


def _are_names(text: str) -> bool:
    """Whether a text of at most eight words consists of names, connectors such as "and", and agencies.

    A name begins with a capital, a quotation mark or @, or is short and in a script without capitals.
    """
    tokens = re.sub(r"[/|,&+]", " ", text).split()
    return 0 < len(tokens) <= 8 and bool(
        _AGENCY.fullmatch(text)
        or all(
            token[0].isupper()
            or token[0] in '@«“"'
            or token.lower() in _CONNECTORS
            or (not token[0].islower() and len(token) <= 8)
            for token in tokens
        )
    )


# ---- openers

_CLOSERS = re.compile(r"(?:の(?:写真|画像|イラスト)|的(?:图片|照片|图像|圖片|相片)|의 (?:사진|이미지))(?=[.。]?$)")
"""The counterpart of an opener at the end of Japanese, Chinese and Korean texts."""


@cache
def _openers() -> tuple[tuple[re.Pattern[str], str], ...]:
    """The openers that are removed, with their languages."""
    tables = ((code, language_table(code)) for code in LANGUAGES)
    return tuple(
        (re.compile(opener, re.IGNORECASE), code) for code, table in tables for opener in table.removable_openers
    )


def _without_opener(text: str) -> str:
    """`text` without an opener such as "Image of", unless the rest would be ungrammatical or too short."""
    straight = text.replace("’", "'")
    for opener, language in _openers():
        found = opener.match(straight)
        rest = text[found.end() :] if found else ""
        # a name after an opener may be that of the photographer, as in "Foto van Jan Jansen", but not in English
        if len(rest) >= 3 and (language == "en" or rest[0].islower()):
            text = capitalized(rest, language)
            break
    closer = _CLOSERS.search(text, 3)
    return text[: closer.start()] + text[closer.end() :] if closer else text


# ---- texts that no person wrote

_MACHINE_WORDS = re.compile(rf"(?i)\b{pattern('machine_words')}\b")
"""Words that cameras and programs write. No person wrote a text without any other word."""
_PLACEHOLDER_WORDS = vocabulary("placeholder_words") | vocabulary("noise_words") - vocabulary("title_words")


def _has_only_machine_words(text: str) -> bool:
    """Whether a text is blank, or has only words of cameras and programs, digits and punctuation."""
    words = _MACHINE_WORDS.sub(" ", re.sub(r"\((?:r|tm)\)|[_\d]+", " ", text.lower()))
    return is_camera_default(text) or not re.sub(r"[\W\d_]+", " ", words).strip()


def _is_placeholder(text: str) -> bool:
    """Whether a text has no letters, or is a placeholder ("Untitled", "Enter a caption") or a generated file name."""
    words = [word.casefold() for word in re.findall(r"[^\W\d_]+(?:['’][^\W\d_]+)?", text)]
    is_name = " " not in text and any(map(str.isdigit, text))
    return (
        (is_name and not filename_words(text[:255]))
        or (len(words) <= 6 and _PLACEHOLDER_WORDS.union(picture_words()).issuperset(words))
        or re.fullmatch(rf"(?i)({untitled()})[\W\d_]*", text) is not None
    )
