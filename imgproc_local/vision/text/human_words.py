"""Keeps what a person wrote in a text of the metadata, and the words that a person typed in a file name.

`human_text` is applied to all fields of the metadata. In this order, it removes private data and mark-up, repairs
letters that a wrong encoding changed, and drops: descriptions that other programs generated, sentences that lost
letters, credits, statements of rights, notes, hashtags and advertisements, openers such as "Image of", placeholders,
and texts of cameras and programs. A pattern whose words also occur in descriptions applies only to a whole sentence or
the content of brackets.

`filename_words` separates the words of a person from those that cameras, phones, programs and services add. Numbers
that belong to a name are preserved (iPhone 15, B737-800, Covid-19). Counters, dates, sizes, hashes and the numbers that
cameras assign are removed.

The words of both are in `vocabulary.toml`, and captions are often file names, so this is one file. Every pattern takes
linear time.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import cache, lru_cache
from importlib import resources
from urllib.parse import unquote

import msgspec

from imgproc_local.domain.alt_text import TAG, is_camera_default, sentences
from imgproc_local.domain.filename import JOINERS
from imgproc_local.domain.image import Format
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.privacy import clean_text
from imgproc_local.vision.languages import all_tables, capitalized, is_about_a_picture, language_table, straight
from imgproc_local.vision.text.encodings import has_lost_letters, with_repaired_letters

_VOCABULARY = msgspec.toml.decode((resources.files(__package__) / "vocabulary.toml").read_bytes(), type=dict[str, str])


def _pattern(name: str) -> str:
    """A group of the alternatives in the field `name` of `vocabulary.toml`, which says what each is."""
    return f"(?:{_VOCABULARY[name].replace(chr(10), '|')})"


def _vocabulary(name: str) -> frozenset[str]:
    """The words in the field `name` of `vocabulary.toml`."""
    return frozenset(_VOCABULARY[name].split())


_MAX_CREDIT_CHARS = 120
"""The maximum length of a credit, rights statement or advertisement. A longer part of a text is not removed."""


@lru_cache(maxsize=128)
def human_text(text: str) -> str:
    """`text` on one line in NFC, without mark-up, private data and boilerplate; "" if no person wrote it.

    Sentences that have lost letters through a wrong encoding are dropped.
    """
    max_chars = 8000 if "<" in text or "&" in text else 2000  # mark-up may be longer than the text
    plain = without_markup(clean_text(text[:max_chars]).text)[:2000]
    if _GENERATED_TEXT.search(unicodedata.normalize("NFC", " ".join(plain.split()))):
        return ""
    plain = unicodedata.normalize("NFC", clean_text(with_repaired_letters(plain)).text)
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


def without_markup(text: str) -> str:
    """`text` without tags, comments, scripts and styles of HTML, with entities replaced, even if escaped twice."""
    for _ in range(3):
        text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
        text = _TAG.sub(lambda tag: "" if _INLINE.fullmatch(tag[1]) else " ", _HIDDEN.sub(" ", text))
    return text


def _readable(line: str) -> str:
    """`line` without the sentences that have lost letters, and without invisible characters."""
    if has_lost_letters(line):
        line = " ".join(part for part in sentences(line) if not has_lost_letters(part))
    return "".join(char for char in line if _is_visible(char)).strip()


def _is_visible(char: str) -> bool:
    """Not so are controls and soft hyphens. Zero-width joiners belong to emoji and Persian words, tags to flags."""
    category = unicodedata.category(char)
    is_format = category == "Cf" and char not in JOINERS and char < "\U000e0000"
    return not is_format and category not in ("Cc", "Co", "Cn", "Cs") and char != "\ufffc"


# ---- credits, rights, notes and advertisements

_URL = re.compile(r"(?:https?://|\bwww\.)\S{1,2000}", re.IGNORECASE)
_HASHTAGS = re.compile(r"(?<=[.!?…])(?:\s{1,3}[#@]\w{1,60})+$|(?<=[^\s#])(?:\s{1,3}[#@]\w{1,60}){2,30}$")
"""Hashtags and account names after a sentence, or several at the end. A single one may be a word of the sentence."""
_SERVICE = re.compile(rf"\+{{2,3}}[^+]{{0,20}}\b{_pattern('agencies')}\b[^+]{{0,20}}\+{{2,3}}")
"""The name of an agency's service, such as "+++ dpa-Bildfunk +++"."""
_ADVERTISEMENT = re.compile(
    rf"(?i)(?:^|(?<=[\s,;|–-])){_pattern('verbs')} (?:with|by|in|using|on|from|via|mit|auf|von|avec|depuis"
    r"|con|desde|da|com|met|van|från|fra) "
    rf"(?:my |an? |the |meinem? |mon |mi |mijn |min )?{_pattern('products')}\b"
)
"""The beginning of an advertisement that ends a sentence, such as "Sent from my iPhone"."""
_PROGRAM = re.compile(
    rf"(?i){_pattern('verbs')} (?:with|by|using) [\w.,&' -]{{0,60}}\b"
    r"(?:inc|corp|ltd|gmbh|software|editor|converter|app|v?\d+\.\d+|\w+\.com)\b"
)
"""The advertisement of a program that is not known, at the beginning of a sentence."""
_TECHNICAL_DATA = re.compile(
    r"(?i)gd-jpeg|\bIJG JPEG\b|\bfile source:|[A-Z]:\\|\\\w+\\|/(?:home|users|mnt|tmp|var|storage|dcim)/"
    r"|\blorem ipsum\b|^(?:software|creator tool|compression|quality)\s?[:=]"
)
"""Technical data, file paths, and "lorem ipsum". A sentence that contains one of them describes no picture."""
_RIGHTS, _NOTES = (re.compile(f"(?i){_pattern(name)}") for name in ("rights", "notes"))
"""The beginning of a statement of rights or conditions of use, and of other notes. Both end with the sentence."""
_CREDIT = re.compile(
    rf"(?i){_pattern('credit_labels')}s?\.?\s?(?:credits?|courtesy|nachweis|quelle|autor|©)\b"
    r"|crédits?(?: photos?)?\s?[:：]|créditos?(?: de (?:la )?(?:foto|imagen))?\s?:|credits?\s?:|bildnachweis|bildquelle"
    r"|(?:quelle|fuente|fonte|source|źródło|zdroj|forrás|источник|автор фото|автор)\s?[:：]"
    r"|(?:image|photo|picture)?\s?courtesy(?: of|:)"
)
"""The beginning of a sentence that is a credit."""
_CREDIT_WITH_NAME = re.compile(
    rf"(?i)(?:{_pattern('credit_labels')}\s?[:：/|=]|(?:photo|image|picture|photograph(?:ed)?)s? by|fot\.)\s{{0,3}}"
)
"""The beginning of a sentence that is a credit if only names follow."""
_AGENCY = re.compile(rf"{_pattern('agencies')}[.]?")
_AGENCY_CREDIT = re.compile(
    r"(?:[^/()]{0,60}/\s?|[^/()]{0,60} via "
    r"|(?i:photo|foto) (?:by|von|par|de|di|por) [^/()]{1,60} (?:on|auf|sur|en|su) )?"
    rf"{_pattern('agencies')}(?:\s?[/|,]\s?.{{0,80}})?[.]?",
    re.DOTALL,
)
"""A whole sentence that names an agency, and usually a person."""
_CONNECTORS = _vocabulary("connectors")
_CAPTION_LABEL = re.compile(rf"(?i){_pattern('caption_labels')}\s?[:：]\s{{0,3}}(?=\S)")
"""A label before a description, such as "Caption:"."""
_UNSPACED = re.compile("[\u3001-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff9f\U00020000-\U0003ffff]")
"""The beginning of a sentence in Japanese or Chinese, before which there is no space."""
_BRACKETS = re.compile(r"\s?[(\[（【]([^()\[\]（）【】]{1,160})[)\]）】]")


def _without_credits(line: str) -> str:
    """One line of a text without the sentences, and parts of sentences, that do not describe the picture."""
    line = _HASHTAGS.sub("", _SERVICE.sub(" ", _URL.sub(" ", line)).strip())
    line = _BRACKETS.sub(lambda part: "" if _is_credit(part[1].strip()) or _RIGHTS.search(part[1]) else part[0], line)
    label = _CAPTION_LABEL.match(line)
    parts = filter(None, map(_without_credit, sentences(line[label.end() :] if label else line)))
    return "".join(part if _UNSPACED.match(part) else f" {part}" for part in parts).strip()


def _without_credit(sentence: str) -> str:
    """`sentence` without rights, notes or advertisements at its end; "" if it is a credit or technical, or nothing
    remains."""
    if _TECHNICAL_DATA.search(sentence) or _PROGRAM.match(sentence) or _is_credit(sentence):
        return ""
    for beginning in (_RIGHTS, _NOTES, _ADVERTISEMENT):
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

    def is_of_name(token: str) -> bool:
        begins_name = token[0].isupper() or token[0] in '@«“"'
        return begins_name or token.lower() in _CONNECTORS or (not token[0].islower() and len(token) <= 8)

    tokens = re.sub(r"[/|,&+]", " ", text).split()
    return 0 < len(tokens) <= 8 and (_AGENCY.fullmatch(text) is not None or all(map(is_of_name, tokens)))


# ---- openers

_CLOSERS = re.compile(r"(?:の(?:写真|画像|イラスト)|的(?:图片|照片|图像|圖片|相片)|의 (?:사진|이미지))(?=[.。]?$)")
"""The counterpart of an opener at the end of Japanese, Chinese and Korean texts."""


@cache
def _openers() -> tuple[tuple[re.Pattern[str], str], ...]:
    """The openers that are removed, with their languages."""
    openers = ((opener, code) for code in LANGUAGES for opener in language_table(code).removable_openers)
    return tuple((re.compile(opener, re.IGNORECASE), code) for opener, code in openers)


def _without_opener(text: str) -> str:
    """`text` without an opener such as "Image of", unless the rest would be wrong or too short."""
    plain = straight(text)
    for opener, language in _openers():
        found = opener.match(plain)
        rest = text[found.end() :] if found else ""
        # a name after an opener may be that of the photographer, as in "Foto van Jan Jansen", but not in English
        if len(rest) >= 3 and (language == "en" or rest[0].islower()) and not is_about_a_picture(text, language):
            text = capitalized(rest, language)
            break
    closer = _CLOSERS.search(text, 3)
    return text[: closer.start()] + text[closer.end() :] if closer else text


# ---- texts that no person wrote

_GENERATED_TEXT = re.compile(f"(?i){_pattern('generated')}")
"""What other programs write into the alt texts that they generate. Nobody has checked such a text."""
_MACHINE_WORDS = re.compile(rf"(?i)\b{_pattern('machine_words')}\b")
"""Words that cameras and programs write. No person wrote a text without any other word."""
_PLACEHOLDER_WORDS = _vocabulary("placeholder_words") | _vocabulary("noise_words") - _vocabulary("title_words")


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
        or (len(words) <= 6 and _PLACEHOLDER_WORDS.union(_picture_words()).issuperset(words))
        or re.fullmatch(rf"(?i)({_untitled()})[\W\d_]*", text) is not None
    )


# ---- file names

_NOISE_WORDS, _STOP_WORDS, _NUMBERED_WORDS = map(_vocabulary, ("noise_words", "stop_words", "numbered_words"))

_EXTENSION = re.compile(rf"(?i)\.({'|'.join(Format)}|jpg|jpe|jfif|heif|tif|bmp|psd|dng|raw|cr2|nef|arw|mov|mp4)$")
_GENERATED = re.compile(rf"(?is){_pattern('generated_names')}")
_TOOL_PREFIX = re.compile(rf"(?i){_pattern('tool_prefixes')}(?=$|[\W_\d])[\s_-]*")

_TIME = (
    r"(?:[-_ T,]{0,3}(?:at|um|à|kl\.?|alle|a las|às|om|o|в)?[-_ ]?"
    r"\d{1,2}[-_.:h ]?\d{2}(?:[-_.:]?\d{2})?\d{0,3}(?: ?[ap]\.?m\b)?)?"
)
_DATE = re.compile(
    r"(?i)(?<!\d)(?:"
    r"((?:19|20)\d{2})([-_. ]?)(0[1-9]|1[0-2])\2(0[1-9]|[12]\d|3[01])"
    r"|(?:0?[1-9]|[12]\d|3[01])([-_.])(?:0?[1-9]|1[0-2])\5(?:19|20)?\d{2}"
    rf"){_TIME}(?!\d)"
)
_CODES = re.compile(
    r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
    r"|(?<![0-9a-z])(?=[a-f]{0,64}\d)[0-9a-f]{8,128}(?![0-9a-z])"
    r"|\d{2,5} ?[x×] ?\d{2,5}(?:px)?(?![0-9a-z])|@\d(?:\.\d)?x(?![0-9a-z])"
    r"|(?<![0-9a-z])\d{1,5}(?:px|dpi|ppi|mp|mb|kb|k|p)(?![0-9a-z])"
    r"|(?<![0-9a-z])(?:v|ver|rev|wa|copy|final|kopie)[-_.]?\d{1,4}(?![0-9a-z])"
    r"|[(\[（]\d{1,4}[)\]）]"
)
"""UUIDs, hashes, sizes, versions, and counters in brackets."""
_LEADING_COUNTER = re.compile(r"^(?:0\d{0,3}[-_. ]{1,3}|\d{1,4}(?:\. |\)|_| - ))(?=[^\W\d_])")
"""A counter before the first word, as in `01 - harbour`."""
_CAMERA_NUMBER = re.compile(r"(?<![A-Za-z0-9])_?[A-Z]{2,4}_?\d{4,8}(?![A-Za-z0-9])")
"""A number that a camera assigned, with the camera's prefix, as in `MOV_0001`."""
_SEPARATORS = re.compile(r"[\s_\-+.,;:()\[\]{}&@#~=–—!|/\\・、。，：（）「」【】]+")
_QUOTATION_MARKS = "'’\"“”„«»‘`´"

_NOT_LATIN = "[^\\W\\d_a-zA-Z\u00aa-\u024f\u1e00-\u1eff]"
_SCRIPT_BOUNDARY = re.compile(rf"(?<={_NOT_LATIN})(?=[0-9])|(?<=[0-9])(?={_NOT_LATIN})")
"""The position between a digit and a letter that is not Latin: in scripts without spaces, no separator is there."""
_CAMEL_CASE = re.compile(r"(?<=[a-zà-ÿ]{3})(?=[A-ZÀ-Þ][a-zà-ÿ]{2})")
"""The position between two words in CamelCase. Names with an inner capital (McDonald, iPhone) have no such position."""
_CAMEL_CASE_PHRASE = re.compile(r"(?:[A-ZÀ-Þ][a-zà-ÿ]{1,20}){3,20}")
"""At least three words in CamelCase."""
_LETTERS_AND_NUMBER = re.compile(r"(?i)(?=[a-z]{1,12}[1-9]|[a-z]{4,24}0)([a-z]+)(\d{1,4})([a-z]{0,2})")
"""A product, such as A380, or a word with a counter, such as harbour2 or harbour01."""
_QUANTITY = re.compile(r"(?i)[1-9]\d{0,3}[a-z]{1,3}|[a-z]\d[a-z]")
"""A number with a unit or an ending, such as 50mm or 1960s, or between two letters."""
_MAX_PRODUCT_LETTERS = 3
"""The maximum number of letters in a product (A380, CO2). A number after a longer word is a counter,
unless it is one of `_NUMBERED_WORDS`."""
_COMMON_WIDTHS = frozenset(("500", "540", "640", "1024", "1280", "1600", "1920", "2048"))
"""Usual widths of pictures in pixels, which are not numbers that a camera assigned."""


@cache
def _picture_words() -> frozenset[str]:
    """Words for a picture itself, in all languages."""
    return frozenset(word for table in all_tables() for word in table.picture_words.split())


@cache
def _untitled() -> str:
    """A pattern for the names that programs give until a person enters another, in all languages."""
    return "|".join(table.untitled for table in all_tables())


@cache
def _screenshot() -> re.Pattern[str]:
    """The beginning of the name of a screenshot, in any language."""
    prefixes = "|".join(table.screenshot for table in all_tables())
    return re.compile(rf"({prefixes})(?=$|[\W_\d])", re.IGNORECASE)


def is_screenshot_name(filename: str) -> bool:
    """Whether the name starts with the prefix that an operating system gives screenshots."""
    return _screenshot().match(straight(unicodedata.normalize("NFC", filename).strip())) is not None


def filename_words(filename: str) -> tuple[str, ...]:
    """The words and numbers of `filename` that a person typed; empty if none of them is meaningful alone."""
    stem = _stem(filename)
    screenshot = _screenshot().match(straight(stem))
    if screenshot:
        stem = stem[screenshot.end() :].strip(" _-")
        # after the time, phones add the name of the program that the screenshot shows
        if re.fullmatch(r"[\d _-]+_[^\W\d_][\w. ]*", stem):
            return ()
    if _GENERATED.fullmatch(stem):
        return ()
    stem = re.sub(rf"({_untitled()})(?=$|[\W_\d])", " ", _TOOL_PREFIX.sub("", stem), flags=re.IGNORECASE)
    # before the number at its beginning is removed, which may be that of a house or a day
    stem = _LEADING_COUNTER.sub("", clean_text(stem).text)
    for machine_part in (_CODES, _DATE, _CODES, _CAMERA_NUMBER):
        stem = machine_part.sub(" ", stem)
    stem = _LEADING_COUNTER.sub("", stem.strip(" _-"))
    tokens = _SEPARATORS.split(_SCRIPT_BOUNDARY.sub(" ", stem))
    tokens = [_split_camel_case(token) for token in tokens if token.lower() not in _NOISE_WORDS]
    tokens = " ".join(tokens).split()
    words = _words(tokens)
    return tuple(words) if any(map(_is_meaningful, words)) else ()


def filename_number(filename: str) -> str:
    """The date in `filename` as `YYYY-MM-DD`, else the number that a camera assigned; "" if there is neither."""
    stem = clean_text(_stem(filename)).text
    date = _DATE.search(stem)
    if date and date[1]:
        return f"{date[1]}-{date[3]}-{date[4]}"
    tokens = _SEPARATORS.split(_CODES.sub(" ", stem))
    numbers = [match[1] for token in tokens if (match := re.fullmatch(r"[A-Za-z]{0,5}(\d{3,8})", token))]
    return max((number for number in numbers if number not in _COMMON_WIDTHS), key=len, default="")


def _stem(filename: str) -> str:
    stem = unicodedata.normalize("NFC", unquote(filename)).strip()
    while (shorter := _EXTENSION.sub("", stem)) != stem:
        stem = shorter
    return stem


def _split_camel_case(token: str) -> str:
    """`token` with spaces between its words if it is written in CamelCase."""
    words = len(re.findall("[A-ZÀ-Þ]", token))
    if _CAMEL_CASE_PHRASE.fullmatch(token) and len(token) >= 3 * words:  # of random letters it is less
        return re.sub("(?<=[a-zà-ÿ])(?=[A-ZÀ-Þ])", " ", token)
    return _CAMEL_CASE.sub(" ", token)


def _words(tokens: list[str]) -> list[str]:
    """The tokens that are words or numbers of a name."""
    words: list[str] = []
    for index, raw in enumerate(tokens):
        token = raw.strip(_QUOTATION_MARKS)
        before = words[-1] if words else ""
        if token.isdecimal():
            if _is_number_of_name(token, before, is_last=index == len(tokens) - 1):
                words.append(token)
        elif any(char.isdigit() for char in token):
            words += _product_or_word(token)
        elif _is_word(token):
            words.append(token)
    return words


def _is_number_of_name(number: str, before: str, *, is_last: bool) -> bool:
    """Whether a number is part of a name, not a counter. `before` is the word before it, "" if there is none."""
    if number.startswith("0") or len(number) > 4:
        return False
    is_year = len(number) == 4 and number[:2] in ("18", "19", "20")
    if before.lower() in _NUMBERED_WORDS or any(char.isdigit() for char in before):
        return True
    if not is_last:
        return is_year or len(number) <= 3 or bool(before)
    return bool(before) and (is_year or 1 < len(number) <= 3)


def _product_or_word(token: str) -> list[str]:
    """The word that a token of letters and digits contributes to the words of a file name, if any.

    A product or a quantity (A380, 1960s) is returned unchanged, a word with a counter (harbour2) without the counter.
    """
    if not token.isascii():
        return []
    if found := _LETTERS_AND_NUMBER.fullmatch(token):
        letters, is_counter = found[1].lower(), found[2].startswith("0")
        if len(letters) > 1 and (letters in _NOISE_WORDS or _is_stop_word(letters)):
            return []
        if not is_counter and (len(letters) <= _MAX_PRODUCT_LETTERS or letters in _NUMBERED_WORDS):
            return [token]
        if len(letters) >= _MAX_PRODUCT_LETTERS:
            return [found[1]] if _is_word(found[1]) and not found[3] else []
    return [token] if _QUANTITY.fullmatch(token) else []


def _is_word(token: str) -> bool:
    """Whether a token without digits is a word, not a noise word or random letters."""
    letters = re.sub("['’·]", "", token)
    lower = letters.lower()
    if not letters or lower in _NOISE_WORDS:
        return False
    if not all(unicodedata.category(char)[0] in "LM" or char in "\u200c\u200d" for char in letters):
        return False
    if letters.isascii():
        no_vowel = not re.search("[aeiouy]", lower) and len(letters) > (4 if letters.isupper() else 3)
        all_hex = len(lower) >= 8 and re.fullmatch("[a-f]+", lower)
        mixed = re.search("[a-z][A-Z]", letters) and not re.fullmatch("(Ma?c|De|L[ea]|Van|[ie])[A-Z][a-z]+", letters)
        if no_vowel or all_hex or mixed or len(letters) > 24 or re.search("[bcdfghjklmnpqrstvwxz]{6}", lower):
            return False
    return True


def _is_meaningful(word: str) -> bool:
    """Whether `word` says something about the content without other words."""
    if word.isdecimal():
        return False
    if any(char.isdigit() for char in word):  # only products with three digits, such as A380
        return re.fullmatch(r"(?i)[a-z]{1,2}[1-9]\d{2}[a-z]?", word) is not None
    if _is_stop_word(word) or (word.isascii() and not re.search("[aeiouy]", word.lower())):
        return False
    # words have fewer letters in scripts without capitals; a Chinese character can be a word
    if word[0].lower() != word[0].upper():
        return len(word) >= 3
    return len(word) >= 2 or "\u3400" <= word <= "\u9fff" or word >= "\U00020000"


def _is_stop_word(word: str) -> bool:
    return word.lower() in _STOP_WORDS or word.lower() in _picture_words()
