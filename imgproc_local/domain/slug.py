"""File names from text: lower-case ASCII words joined by single hyphens, romanised by the conventions of each language.

Invariant: a slug is empty or matches `[a-z0-9]+(-[a-z0-9]+)*`, has at most 8 words and at most 80 characters.
Source: api/README.md, "Results".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import TypeVar

from anyascii import anyascii

from imgproc_local.domain.filename import is_device_name

_Letter = TypeVar("_Letter", str, int)
"""A letter, or the number of one in Unicode's order (Hangul)."""

MAX_WORDS = 8
MAX_CHARS = 80
AFTER_DEVICE = "image"
"""The second word of a slug whose only word is the name of a device in Windows, such as `con`."""

_APOSTROPHES = "'’ʼ‘`´＇"
_ELIDING = frozenset(("fr", "it", "ca", "pt"))
"""Languages in which an apostrophe separates two words (l'été, d'água). Elsewhere it is part of a word (don't)."""
_INSIDE_WORDS = re.compile("[·‧⋅׳״\u00ad\u200b-\u200d\u2060\ufeff]")
"""Characters that are removed without separating words: the dot of Catalan l·l, Hebrew geresh and gershayim, soft
hyphens, zero-width joiners."""


def _romanisation(letters: Iterable[_Letter], latin: str) -> dict[_Letter, str]:
    """A map from each letter to its romanisation. `latin` is separated by spaces; `-` drops the letter."""
    return dict(zip(letters, latin.replace("-", "").split(" "), strict=True))


_UMLAUTS_WITH_E = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "ẞ": "ss"}
_DANO_NORWEGIAN = {"æ": "ae", "ø": "oe", "å": "aa", "ä": "ae", "ö": "oe"}
_EAST_SLAVIC = _romanisation(
    "абвгдеёжзийклмнопрстуфхцчшщъыьэюя", "a b v g d e yo zh z i y k l m n o p r s t u f kh ts ch sh shch - y - e yu ya"
)
_LETTERS: dict[str, dict[str, str]] = {
    "de": _UMLAUTS_WITH_E,
    "da": _DANO_NORWEGIAN,
    "nb": _DANO_NORWEGIAN,
    # Source: the simplified system of Russian passports and road signs, soft and hard signs dropped
    "ru": _EAST_SLAVIC,
    # Source: resolution 55 of the Cabinet of Ministers of Ukraine, 2010; initial letters in _ukrainian
    "uk": _EAST_SLAVIC | _romanisation("гґиіїєй", "h g y i i ie i"),
    # Source: Bulgarian Transliteration Act, 2009
    "bg": _EAST_SLAVIC | _romanisation("хщъь", "h sht a y"),
    # Source: ELOT 743 / ISO 843; letter groups in _greek
    "el": _romanisation("αβγδεζηθικλμνξοπρσςτυφχψω", "a v g d e z i th i k l m n x o p r s s t y f ch ps o"),
    # Source: the simplified transcription of the Academy of the Hebrew Language; vowel letters in _hebrew
    "he": _romanisation("אבגדהוזחטיכךלמםנןסעפףצץקרשת", "- b g d h v z ch t y k kh l m m n n s - p f ts ts k r sh t"),
    # Source: UNGEGN's system without diacritics; article and long vowels in _arabic
    "ar": _romanisation(
        "ابتثجحخدذرزسشصضطظعغفقكلمنهويأإآٱءؤئةى",
        "a b t th j h kh d dh r z s sh s d t z a gh f q k l m n h w y a i a a - u i a a",
    ),
}


def make_slug(text: str, language_code: str) -> str:
    """The words of `text` as a file name without extension, romanised as in `language_code`; "" if none remain."""
    words = _romanise(unicodedata.normalize("NFC", text), language_code).split()[:MAX_WORDS]
    slug = ""
    for word in words:
        longer = f"{slug}-{word}" if slug else word[:MAX_CHARS]
        if len(longer) > MAX_CHARS:
            break
        slug = longer
    return f"{slug}-{AFTER_DEVICE}" if is_device_name(slug) else slug


def numbered(slug: str, number: int) -> str:
    """`slug-number`, with `slug` truncated after a word so that the result has at most 80 characters."""
    suffix = f"-{number}"
    room = MAX_CHARS - len(suffix)
    if len(slug) > room:
        at_word = slug.rfind("-", 0, room + 1)
        slug = slug[: at_word if at_word > 0 else room]
    return slug + suffix


def _romanise(text: str, language_code: str) -> str:
    """ASCII words separated by single spaces."""
    apostrophe = " " if language_code in _ELIDING else ""
    text = _INSIDE_WORDS.sub("", re.sub(f"[{_APOSTROPHES}]", apostrophe, text)).lower()
    # words are letters, marks and numbers; all other characters, such as symbols and emoji, separate them
    text = "".join(char if unicodedata.category(char)[0] in "LMN" else " " for char in text)
    match language_code:
        case "el":
            text = _greek(text)
        case "bg":
            text = re.sub(r"ия\b", "ia", text)
        case "uk":
            text = _ukrainian(text)
        case "he":
            text = _hebrew(text)
        case "ar":
            text = _arabic(text)
        case "hi":
            text = _devanagari(text)
        case "ja":
            text = _kana(text)
        case "ko":
            text = _hangul(text)
        case "zh":
            text = _pinyin(text)
    letters = _LETTERS.get(language_code)
    if letters:
        text = "".join(letters.get(char, char) for char in text)
    return " ".join(re.findall("[a-z0-9]+", _ascii(text).lower()))


def _ascii(text: str) -> str:
    """ASCII letters: Latin letters without marks, all others by anyascii's tables."""
    plain = "".join(char for char in unicodedata.normalize("NFKD", text) if not "\u0300" <= char <= "\u036f")
    return "".join(char if char.isspace() else re.sub("[^A-Za-z0-9]", "", anyascii(char)) for char in plain)


def _greek(text: str) -> str:
    """Replaces the letter groups that are not romanised letter by letter."""
    plain = unicodedata.normalize("NFD", text)
    plain = plain.replace("ου\u0301", "ού").replace("ου", "ou").replace("ού", "ou")
    # αυ, ευ, ηυ sound as v before vowels and voiced consonants, as f elsewhere; a diaeresis separates the letters
    pairs = re.compile("([αεη])υ(?!\u0308)(\u0301?)(?=(.?))")
    plain = pairs.sub(lambda m: m[1] + ("v" if m[3] and m[3] in "αεηιουωβγδζλμνρ" else "f"), plain)
    plain = "".join(char for char in plain if not "\u0300" <= char <= "\u036f")
    plain = re.sub(r"\bμπ", "b", plain)
    for group, latin in (("γγ", "ng"), ("γξ", "nx"), ("γχ", "nch")):
        plain = plain.replace(group, latin)
    return plain


def _ukrainian(text: str) -> str:
    """Romanises the letters that differ at the beginning of a word (є is ye there, ie elsewhere), and зг."""
    text = text.replace("зг", "zgh")
    for letter, initial in (("є", "ye"), ("ї", "yi"), ("й", "y"), ("ю", "yu"), ("я", "ya")):
        text = re.sub(rf"\b{letter}", initial, text)
    return text.replace("ю", "iu").replace("я", "ia")


def _hebrew(text: str) -> str:
    """Removes vowel points, and romanises the letters that stand for vowels."""
    bare = "".join(char for char in text if not "\u0591" <= char <= "\u05c7")
    bare = re.sub(r"(?<=\w)(?:וו)(?=\w)", "v", bare)
    bare = re.sub(r"(?<=\w)ו", "o", bare)
    bare = re.sub(r"(?<=\w)יי?", "i", bare)
    bare = re.sub(r"ה\b", "a", bare)
    return re.sub(r"\bכ", "k", re.sub(r"(?<=\w)א|\bא|\bע", "a", bare))


def _arabic(text: str) -> str:
    """Removes vowel marks and tatweel, and romanises the article and the letters that stand for long vowels."""
    bare = "".join(char for char in text if not "\u064b" <= char <= "\u0652" and char != "ـ")
    bare = re.sub(r"\bال(?=\w\w)", "al", bare)
    # between consonants, the semivowels waw and yeh stand for the long vowels u and i
    bare = re.sub(r"(?<=[^\W\dاوي])و(?=[^\Wاوي]|\b)", "u", bare)
    return re.sub(r"(?<=[^\W\dاوي])ي(?=[^\Wاوي]|\b)", "i", bare)


_DEVANAGARI_CONSONANTS = _romanisation(
    "कखगघङचछजझञटठडढणतथदधनपफबभमयरलवशषसह",
    "k kh g gh n ch chh j jh n t th d dh n t th d dh n p ph b bh m y r l v sh sh s h",
)
_DEVANAGARI_NUKTA = _romanisation("कखगजडढफ", "q kh g z d dh f")
_DEVANAGARI_VOWELS = _romanisation("अआइईउऊऋएऐओऔऑ", "a a i i u u ri e ai o au o")
_DEVANAGARI_VOWEL_SIGNS = _romanisation("ािीुूृेैोौॉ", "a i i u u ri e ai o au o")


def _devanagari(text: str) -> str:
    """Hunterian transliteration without length marks.

    Schwa deletion: the inherent vowel a is dropped at the end of a word, and where VC precedes and CV follows it (V is
    a vowel, C a consonant).
    """
    out: list[str] = []
    decomposed = unicodedata.normalize("NFD", text)
    for index, char in enumerate(decomposed):
        following = decomposed[index + 1 : index + 3]
        if char in _DEVANAGARI_CONSONANTS:
            nukta = following.startswith("\u093c")
            out.append(_DEVANAGARI_NUKTA.get(char, "") if nukta else _DEVANAGARI_CONSONANTS[char])
            sign = following[1:2] if nukta else following[:1]
            if sign not in _DEVANAGARI_VOWEL_SIGNS and sign != "\u094d":
                out.append("\x00")  # the inherent vowel
        elif char in _DEVANAGARI_VOWELS or char in _DEVANAGARI_VOWEL_SIGNS:
            out.append(_DEVANAGARI_VOWELS.get(char) or _DEVANAGARI_VOWEL_SIGNS[char])
        elif char in "\u0902\u0901":
            out.append("n")
        elif char not in "\u093c\u094d\u0903":
            out.append(char)
    latin = "".join(out)
    latin = re.sub(r"(?<=[^\s\x00])\x00(?=\s|$)", "", latin)
    latin = re.sub(
        r"(?<=[aeiou\x00])([bcdfghjklmnpqrstvyz]{1,3})\x00(?=(?:[bcdfgjklmnpqrstvyz]h?)[aeiou])", r"\1", latin
    )
    return latin.replace("\x00", "a")


_KANA_ROWS = {
    "": "あいうえお", "k": "かきくけこ", "s": "さ_すせそ", "t": "た__てと", "n": "なにぬねの", "h": "はひ_へほ",
    "m": "まみむめも", "y": "や_ゆ_よ", "r": "らりるれろ", "w": "わゐ_ゑ_", "g": "がぎぐげご", "z": "ざ_ずぜぞ",
    "d": "だ__でど", "b": "ばびぶべぼ", "p": "ぱぴぷぺぽ",
}  # fmt: skip
_KANA_IRREGULAR = {
    "し": "shi", "ち": "chi", "つ": "tsu", "ふ": "fu", "じ": "ji", "ぢ": "ji", "づ": "zu", "を": "o", "ん": "n",
    "ゔ": "vu", "ゔぁ": "va", "ゔぃ": "vi", "ゔぇ": "ve", "ゔぉ": "vo",
    "ふぁ": "fa", "ふぃ": "fi", "ふぇ": "fe", "ふぉ": "fo",
    "てぃ": "ti", "でぃ": "di", "でゅ": "dyu", "とぅ": "tu", "どぅ": "du", "うぃ": "wi", "うぇ": "we", "うぉ": "wo",
    "しぇ": "she", "ちぇ": "che", "じぇ": "je", "つぁ": "tsa",
}  # fmt: skip


def _kana_table() -> dict[str, str]:
    table = dict(_KANA_IRREGULAR)
    for consonant, row in _KANA_ROWS.items():
        table |= {letter: consonant + vowel for vowel, letter in zip("aiueo", row, strict=True) if letter != "_"}
    # contracted sounds: きゃ is kya, しゃ is sha
    for letter, latin in list(table.items()):
        if latin.endswith("i") and len(letter) == 1:
            stem = latin[:-1] + ("" if latin in ("shi", "chi", "ji") else "y")
            table |= {letter + small: stem + vowel for small, vowel in zip("ゃゅょ", "auo", strict=True)}
    return table


_KANA = _kana_table()
_KANA_PATTERN = re.compile("|".join(sorted(_KANA, key=len, reverse=True)))


def _kana(text: str) -> str:
    """Hepburn romanisation without length marks, of text with kana.

    A run of kana and kanji is omitted if it contains kanji, whose pronunciation can't be derived from the text.
    """
    text = unicodedata.normalize("NFKC", text)
    text = re.sub(r"[\u3040-\u30ff\u3400-\u9fff々〆]*[\u3400-\u9fff々〆][\u3040-\u30ff\u3400-\u9fff々〆]*", " ", text)
    text = "".join(chr(ord(char) - 0x60) if "ァ" <= char <= "ヴ" else char for char in text)
    return re.sub("[ぁ-ゔー]+", lambda run: _hepburn(run[0]), text)


def _hepburn(run: str) -> str:
    """The romanisation of a run of hiragana. っ doubles the consonant after it."""
    latin = _KANA_PATTERN.sub(lambda match: _KANA[match[0]], run)
    latin = re.sub("っ(?=ch)", "t", latin)
    latin = re.sub("っ(?=([a-z]))", r"\1", latin)
    latin = re.sub("[^a-z]", "", latin)
    return latin.replace("ou", "o").replace("oo", "o").replace("uu", "u")


_INITIALS = _romanisation(range(19), "g kk n d tt r m b pp s ss - j jj ch k t p h")
_MEDIALS = _romanisation(range(21), "a ae ya yae eo e yeo ye o wa wae oe yo u wo we wi yu eu ui i")
_FINALS = _romanisation(range(28), "- k k k n n n t l k m l l l p l m p p t t ng t t k t p t")
_LIAISON = _romanisation(range(28), "- g kk ks n nj n d r lg lm lb ls lt lp r m b ps s ss ng j ch k t p -")
"""The romanisation of a syllable's initial consonant, vowel and final consonant, by their indices in Unicode's order.
`_LIAISON` is for a final consonant before a syllable that begins with a vowel."""


def _hangul(text: str) -> str:
    """Revised Romanisation of Korean, with liaison, nasalisation before n, m and r, and nr and lr as ll."""
    out: list[str] = []
    for index, char in enumerate(text):
        if not "가" <= char <= "힣":
            out.append(char)
            continue
        syllable = ord(char) - 0xAC00
        initial, medial, final = syllable // 588, syllable % 588 // 28, syllable % 28
        following = text[index + 1 : index + 2]
        preceding = text[index - 1] if index else ""
        first = _INITIALS[initial]
        if first == "r" and "가" <= preceding <= "힣":
            before = _FINALS[(ord(preceding) - 0xAC00) % 28]
            first = "l" if before in ("l", "n") else "n" if before else "r"
        last = _FINALS[final]
        if "가" <= following <= "힣":
            next_initial = _INITIALS[(ord(following) - 0xAC00) // 588]
            if not next_initial:
                last = _LIAISON[final]
            elif next_initial in ("n", "m") or (next_initial == "r" and last in ("k", "t", "p")):
                last = {"k": "ng", "t": "n", "p": "m"}.get(last, last)
            elif next_initial == "r" and last == "n":
                last = "l"
        out.append(first + _MEDIALS[medial] + last)
    return "".join(out)


_U_UMLAUT = dict.fromkeys("绿律率旅履虑滤吕铝驴缕屡氯侣綠慮濾呂鋁驢縷屢侶", "lv")
_U_UMLAUT |= {"女": "nv", "略": "lve", "掠": "lve", "虐": "nve"}
"""Characters whose pinyin has ü, which is written v in file names. anyascii writes u instead."""


def _pinyin(text: str) -> str:
    """Pinyin without tones, one word per syllable, as is usual in Chinese URLs."""
    return "".join(
        f" {_U_UMLAUT.get(char) or anyascii(char)} " if "\u3400" <= char <= "\u9fff" else char for char in text
    )
