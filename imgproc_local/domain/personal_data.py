"""Finds personal data in a text: e-mail addresses, telephone, bank, card, identity, patient and serial numbers,
passwords, birth dates, number plates, streets with a number, and addresses on the internet.

What only one kind of data looks like counts alone: a country code, a checksum, a street with its number and postcode.
In a sentence, so does a long number without separators (`_LONG_NUMBER`): few readers miss it. Anything else counts if a
word beside it says what it is (`personal_data.toml`). Years, other dates, sizes and web addresses never count.
All patterns take linear time: their quantifiers are bounded or possessive.

Source: RFC 5322, RFC 5321, 4.5.3.1 (e-mail); ITU-T E.164, E.123 (telephone); ISO 13616 (IBAN); ISO/IEC 7812 (cards);
ISO 3779 (vehicles); ICAO 9303 (machine-readable travel documents).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from importlib import resources

import msgspec

from imgproc_local.domain.data_text import SYLLABIC

_TABLE = msgspec.toml.decode((resources.files(__package__) / "personal_data.toml").read_bytes(), type=dict[str, str])
_WORDS = {kind: frozenset(re.split(r",\s", words.strip())) for kind, words in _TABLE.items()}


def _any_of(kind: str) -> str:
    """A pattern for the words of a kind, the longest first. The full stop of an abbreviation may be absent."""
    return "|".join(map(re.escape, sorted(_WORDS[kind], key=len, reverse=True))).replace(r"\.", r"\.?")


def _pattern(*forms: str) -> re.Pattern[str]:
    """A pattern for numbers that are no part of longer ones."""
    return re.compile(rf"(?<![A-Za-z0-9.,])(?<!\d[ -])(?:{'|'.join(forms)})(?![A-Za-z0-9_]|[.,-]\d)")


# ---- e-mail addresses

_ALPHABETIC = "0-9A-Za-z\u00aa-\u052f\u1e00-\u1fff_"
"""Latin, Greek and Cyrillic letters, ASCII digits and the underscore."""
_AT = (
    r"(?:@|%40|&#0{0,4}64;|&#x0{0,4}40;|&commat;|\s{0,2}[\[({<]\s{0,2}(?:at|@|ät|arroba|arobase)\s{0,2}[\])}>]\s{0,2})"
)
_DOT = r"(?:\.|\s{0,2}[\[({<]\s{0,2}(?:dot|\.|punkt|point|punto)\s{0,2}[\])}>]\s{0,2}|\s(?:dot|punto)\s)"
_LABEL = rf"(?:[{_ALPHABETIC}-]{{1,63}}+|[{SYLLABIC}]{{1,63}}+)"
_EMAIL = re.compile(
    r"(?i)(?:\b(?:e-?mail|mailto)\s{0,2}[:=]?\s{0,2})?"
    r"(?!(?:here|images|it|me|more|now|online|photos?|pictures?|shop|store|us|view)\sat\s)"
    rf"(?:(?<![{_ALPHABETIC}.+'-])[{_ALPHABETIC}.+'-]++|(?<![{SYLLABIC}])[{SYLLABIC}]++)"
    rf"(?:{_AT}|\s(?:at|@|arroba)\s(?=[\w-]{{1,63}}(?:\s(?:dot|punto)\s"
    r"|(?:\.[\w-]{1,63}){0,3}\.(?:[a-z]{2}|com|net|org|info|edu)\b)))"
    rf"{_LABEL}(?:{_DOT}{_LABEL}){{1,8}}"
)
"""E-mail addresses at a host name, also with "@" and "." written as words or escaped. Not "photos at example.com". The
host after a bare "at" ends like one, unlike "at St.Pauli"."""

# ---- numbers

_TELEPHONE = _pattern(
    # +49 30 …, 0049 30 …
    r"\(?(?:\+\(?|00(?=[1-9]\d{0,2}[ (]))(?:[ ./()‐‑–−-]{0,3}\d){8,15}",
    # with the prefix 0 of most countries: 0301…, 030 …, 030/…, 06 12 34 …
    r"\(?0[1-9](?:\d{8,9}|\d{0,4}\)?[ ./-]{1,3}\d{2,4}(?:[ ./-]?\d{2,4}){1,3})",
    # North America and Mexico, 3-3-4; Russia and Turkey, 3-3-2-2
    r"(?:1[ .-])?\(?[2-9]\d\d\)?[ .-]{1,2}[1-9]\d\d[ .-]\d{4}",
    r"(?:[78][ -])?\(?[2-9]\d\d\)?[ -]\d{3}[ -]\d\d[ -]\d\d",
    # Brazil; China and India, mobile; Spain, Portugal, Poland
    r"(?:\([1-9]\d{1,2}\)|[1-9]\d) ?\d{4,5}[ -]\d{4}",
    r"1[3-9]\d[ -]?\d{4}[ -]?\d{4}",
    r"[6-9]\d{4}[ -]\d{5}|[679]\d\d(?: \d{3} |-\d{3}-)\d{3}|[6-9]\d\d(?: \d\d){3}|[1-9]\d \d{3} \d\d ?\d\d",
)
"""Telephone numbers that are recognised without a word."""
_MIN_TELEPHONE_DIGITS = 9
"""Without a country code. Shorter groups of digits are too often dates, counts and inventory numbers."""
_NUMBER = _pattern(r"[+(]{0,2}(?!\d(?: \d){4})\d(?:[ ./()‐‑–−-]{0,3}\d){5,18}")
_CODE = re.compile(r"(?<![A-Za-z0-9_-])(?=(?:[A-Z/-]{0,6}\d){4})[A-Z\d][A-Z\d/-]{4,20}(?![A-Za-z0-9_-])")
"""Numbers of at least six digits, and codes with at least four, which count only after a word."""
_IBAN = re.compile(r"\b[A-Z]{2}\d\d(?: ?[A-Z\d]{4}){2,7}(?: ?[A-Z\d]{1,4})?\b")
_CARD = _pattern(
    r"[2-9]\d{3}(?:(?: \d{4}){3}|(?:-\d{4}){3}|\d{12})", r"3[046-9]\d\d(?: \d{6} \d{4,5}|-\d{6}-\d{4,5}|\d{10,11})"
)
_IDENTIFIER = _pattern(
    # persons in the United Kingdom, the United States, India, Brazil, China, Korea, Italy
    r"(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z](?: ?\d\d){3} ?[A-D]",
    r"(?!000|666|9)\d{3}-\d\d-\d{4}",
    r"(?!19|20)[2-9]\d{3}(?: \d{4} |-\d{4}-)\d{4}(?! \d)",
    r"\d{3}\.\d{3}\.\d{3}-\d\d",
    r"[1-9]\d{5}(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dX]",
    r"\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])-[1-8]\d{6}",
    r"[A-Z]{6}\d\d[A-EHLMPR-T]\d\d[A-Z]\d{3}[A-Z]",
    # the chassis of a vehicle, the machine-readable lines of a passport
    r"[A-HJ-NPR-Z\d]{3}(?=\d{0,7}[A-HJ-NPR-Z])[A-HJ-NPR-Z\d]{10}\d{4}",
    r"[A-Z\d<]{1,44}<<[A-Z\d<]{1,44}",
    # serial numbers; network interfaces and public addresses (MAC, IPv6, IPv4)
    r"(?i:s/n|sn|serial(?:[ _-]?(?:number|num|no|nr|#))?|seriennr|n[uú]m[eé]ro d[ei] s[eé]rie)[ .:=#]{1,4}"
    r"(?=[A-Z/-]{0,40}\d)[A-Z\d][A-Z\d/-]{3,40}",
    r"(?=[\d:]{0,40}[a-fA-F])(?:[\da-fA-F]{1,4}::?){3,7}[\da-fA-F]{1,4}",
    r"(?!10\.|127\.|172\.(?:1[6-9]|2\d|3[01])\.|192\.168\.)[1-9]\d{1,2}\.\d{1,3}\.\d{1,3}\.\d{1,3}",
    # number plates of Germany, France, the United Kingdom, the Netherlands, Korea, Russia, India, China, Japan
    r"[A-ZÄÖÜ]{1,3}-[A-ZÄÖÜ]{1,2} \d{3,4}[EH]?",
    r"[A-Z]{2}-\d{3}-[A-Z]{2}",
    r"[A-Y]{2}(?:0[2-9]|[12567]\d) [A-HJ-PR-Z]{3}|\d\d-[A-Z]{2}-[A-Z]{2}|[A-Z]{2}-[A-Z]{2}-\d\d",
    r"\d{2,3}[가나다라마거너더러머버서어저고노로모보소누두루무] \d{4}",
    r"[АВЕКМНОРСТУХ] ?\d{3} ?[АВЕКМНОРСТУХ]{2} ?\d{2,3}",
    r"[A-Z]{2}[ -]\d\d[ -][A-Z]{1,2}[ -]\d{4}",
    r"[京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼][A-Z][ ·]?[A-Z\d]{5,6}",
    r"[一-龯]{1,4} ?\d{2,3} ?[ぁ-ん] ?\d\d-\d\d",
)
_LONG_NUMBER = re.compile(
    r"(?<![\w.,/#-])(?!(?:19|20)\d\d[01]\d[0-3]\d)(?:\d{8,34}"
    r"|[A-ZΑ-Ω]{2}\d{6,8}|[A-Z]\d{7,8}[A-Z]|[A-Z]\d{8}|\d{6,8}[A-Z]{2}"
    r"|(?i:№|n[.]?[º°][.]?|n[or][.]?|č[.]|αρ[.]|[^\W\d_]{0,20}(?:number|nummer|n[uú]mero|numer)|号|號|番号|번호)"
    r" ?[A-Z]{0,2}-?\d{6,12})(?![\w/-]|[.,]\d)"
)
"""A number of at least eight digits, or six with letters or after a word such as "No.". No date, no part of a name."""
_PASSWORD = re.compile(
    rf"(?:(?<![a-z])|(?=[^\x00-\x7f]))(?i:{_any_of('password')})[^\W\d_]{{0,4}}"
    r"(?:\s?[:=\"“„«]\s?\S|[^\n.:=]{1,20}[:=]\s?\S{0,20}\d"
    r"|(?:\s[^\s.:=]{1,20}){1,3}\s(?=\S{0,20}[^\W\d]{2})\S{2,20}\d{2}"
    r"|\s(?:(?i:is|ist|lautet|est|es|è|是)\s)?(?!(?:19|20)\d\d\b)(?:\S{1,20}\d|\d{4}))\S*"
    r"|(?<!\w)PIN(?:[ -]?[Cc]ode)?\s?[:=]?\s?\d{4,6}(?!\d)"
)
_NAMED_PLATE = _pattern(
    r"(?=(?:[^\d\n]{0,8}\d){2})(?=[\d -]{0,8}[A-ZÄÖÜΑ-ΩА-Я가-힣])"
    r"(?:[A-ZÄÖÜΑ-ΩА-Я]{1,3}|[A-Z]{0,3}\d[A-Z\d]{0,6}|\d{2,3}[가-힣])(?:[ -][A-ZÄÖÜΑ-ΩА-Я\d]{1,5}){0,3}"
)
_OTHER = re.compile(
    # web addresses
    r"(?:\b[a-z]{2,10}://|\bwww\.)[^\s<>\"]{1,4096}+"
    # dates, years
    r"|(?<!\d)(?<!\d[ ./-])(?:1\d|20)\d\d[ ./-](?:0?[1-9]|1[0-2])[ ./-](?:0?[1-9]|[12]\d|3[01])(?!\d)"
    r"|(?<!\d)(?<!\d[ ./-])(?:0?[1-9]|[12]\d|3[01])[ ./-]{1,2}(?:0?[1-9]|1[0-2])[ ./-]{1,2}(?:1\d|2[05])\d\d(?![\d-])"
    r"|(?<!\d)(?<!\d[ ./-])(?:1\d|20)\d\d ?[–/-] ?(?:1\d|20)\d\d(?! ?[–./-]?\d)"
    # decimals, times
    r"|(?<![\d./,-])\d{1,4}[.,]\d{1,4}(?![.,/-]?\d)"
    r"|(?<!\d)(?<!\d\.)(?:[01]\d|2[0-3])\.[0-5]\d\.[0-5]\d(?!\.?\d)"
    # barcodes of products
    r"|(?:\bean|\bgtin|\bupc|product code)\W{1,2}\d{8,14}(?!\w)",
    re.IGNORECASE,
)
"""What is no telephone number or identifier."""

# ---- dates of birth

_YEAR = r"(?:19|2[045])\d\d"
"""Of people who may live. The years of the Buddhist era begin with 24 and 25."""
_DATE = (
    rf"(?i:(?<!\d)(?:\d{{1,2}}[./ -]{{1,2}}\d{{1,2}}[./ -]{{1,2}}(?:{_YEAR}|\d\d)"
    rf"|(?:{_YEAR}|[正和成]\s?\d{{1,2}})[ ./年년-]{{1,2}}\d{{1,2}}[ ./月월-]{{1,2}}\d{{1,2}}"
    rf"|\d{{1,2}}(?:st|nd|rd|th|er|º)?\.?\s(?:de\s|of\s)?[^\s\d]{{2,14}}(?:\s\d{{1,2}}\snăm)?,?\s(?:del?\s)?{_YEAR}"
    rf"|[^\s\d]{{2,14}}\s\d{{1,2}}(?:st|nd|rd|th)?,?\s{_YEAR}"
    rf"|{_YEAR}\.?\s(?:m\.\s|\.\sgada\s)?[^\s\d]{{2,14}}\s\d{{1,2}})(?!\d))"
)

# ---- streets

_NAME = r"[A-ZÀ-ÖØ-ÞĀ-ſΆ-ΫЀ-Я][\w.'’-]{1,30}"
_HOUSE = (
    r"(?:(?i:n[º°o]\.?|nr\.?|number|č\.|д\.|дом|буд\.)[ :]{0,2})?\d{1,3}(?: ?[a-zA-Zа-я])?(?: ?[/–-] ?\d{1,3})?"
    r"(?![\w]|[.,:]\d| ?(?i:km|m|cm|mm|kg|uhr|h|%|°|de)(?!\w))(?:, (?i:apt|app|кв|оф|lok)\.? ?\d{1,4})?"
)
_POSTCODE = r"(?:\d{5}(?:-\d{3})?|\d\d-\d{3}|\d{3} \d\d|\d{6}|(?!1[89]\d\d|20\d\d)\d{4}(?: [A-Z]{2})?)"
_TOWN = rf"[\n ,]{{1,3}}(?:[A-Z]{{1,2}}-)?{_POSTCODE},? {_NAME}"
_ZIP = r"(?:[A-Z]{2},? \d{5}(?:-\d{4})?|[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2})(?!\w)"
_PARTICLES = r"(?:(?:de|del|della|delle|dei|di|da|do|das|dos|du|des|la|las|le|les|los) |l['’]|d['’])"
_STREET = "|".join(
    (
        # Lindenallee 7a, Berliner Str. 5, Kerkstraat 14
        rf"(?<!\w)(?!(?i:bundes|national|land|kreis|staats|schnell|brigade)){_NAME}?[ -]?"
        rf"(?i:{_any_of('street_end')}) ?{_HOUSE}(?:{_TOWN})?",
        # Calle Mayor 5, Via Garibaldi 22, ul. Długa 15, ул. Ленина, д. 5
        rf"(?<!\w)(?i:{_any_of('street_before')})(?![^\W\d_]) ?(?:{_PARTICLES}{{0,2}}{_NAME} ?){{1,4}},? ?"
        rf"(?:{_HOUSE}(?:{_TOWN})?|\d{{1,4}}{_TOWN})",
        # 12 rue de la Paix
        r"(?<![\w.,/-])(?!(?:18|19|20)\d\d)\d{1,4}(?: ?(?i:bis|ter|[a-d]))?,? "
        rf"(?i:{_any_of('street_between')}) {_PARTICLES}{{0,3}}{_NAME}",
        # 42 Maple Avenue
        rf"(?<![\w.,/-])(?!(?:18|19|20)\d\d )(?!(?i:{_any_of('sights')})(?!.{{0,60}}{_ZIP}))\d{{1,5}}[A-Za-z]?"
        r"(?:[-/]\d{1,4})?,? (?:[NSEW]\.? )?"
        rf"(?:(?!(?i:on|in|of|the|and|at|for|to|from|with|wheel)\b){_NAME} ){{1,3}}(?i:{_any_of('street_after')})\b",
        rf"(?<![\w.,/-])\d{{1,5}}[A-Za-z]?,? (?:{_NAME},? ){{2,7}}{_ZIP}",
        # Petőfi utca 14, Atatürk Caddesi No: 25, Тверская улица, дом 7
        rf"{_NAME} (?i:{_any_of('street_after')}),? {_HOUSE}(?:{_TOWN})?",
        # any name with a number, a postcode and a town
        rf"(?:{_NAME}|gate|vei|veien),? {_HOUSE}{_TOWN}",
        # Japanese, Chinese, Korean, Arabic, Hindi
        r"〒 ?\d{3}-?\d{4}",
        r"[市区町村郡][^\s\d、。]{1,10}\d{1,4}(?:丁目 ?\d|番|号|-\d{1,4})",
        r"(?:路|街|巷|弄|大道|胡同) ?\d{1,5}[号號]",
        r"[가-힣](?:구|시|군|읍|면) [가-힣\d]{1,12}(?:로|길) ?\d",
        r"شارع [^\d\n]{2,30} (?:رقم )?(?!1[89]\d\d|20\d\d)\d{1,4}(?!\d)|(?<!\d)\d{1,4}،? شارع ",
        r"(?<!\d)\d{1,4},? [^\d\n,]{2,30}(?:रोड|मार्ग|गली|नगर|पथ),",
    )
)
_WORD = re.compile(r"(?<![^\W\d_])[^\W\d_]+")
_INNER_WORD = {kind: re.compile("|".join(word for word in words if word >= "\u0900")) for kind, words in _WORDS.items()}
_MAX_WORD_DISTANCE, _MAX_WORDS = 32, 4
"""How many characters and words before a number are searched for the one that says what it is."""


def folded(text: str) -> str:
    """`text` with the same number of characters, those of compatibility (such as `＠`) and foreign digits replaced."""
    return text if text.isascii() else "".join(map(_folded_character, text))


def personal_data(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """The start and end of each item in a `folded` text, with the word before it; they may overlap.

    Each is preceded by its kind: "contact", "identifier", "person" (a date of birth) or "location" (a street).
    """
    yield from (("contact", match.span()) for match in _EMAIL.finditer(text))
    yield from (("location", match.span()) for match in re.finditer(_STREET, text))
    yield from (("person", span) for span in _named("birth", text, re.compile(_DATE)))
    yield from (("person", match.span()) for match in re.finditer(rf"(?:\*|(?<!\w)[bB]\.)\s?{_DATE}", text))
    for pattern in (_IDENTIFIER, _PASSWORD):
        yield from (("identifier", match.span()) for match in pattern.finditer(text))
    yield from (("identifier", match.span()) for match in _IBAN.finditer(text) if _is_iban(match[0]))
    yield from (("identifier", match.span()) for match in _CARD.finditer(text) if _is_card(match[0]))
    yield from (("identifier", span) for span in _named("plate", text, _NAMED_PLATE))
    text = _without_others(text)
    for match in _TELEPHONE.finditer(text):
        if sum(map(str.isdigit, match[0])) >= _MIN_TELEPHONE_DIGITS or "+" in match[0]:
            yield "contact", match.span()
    yield from (("contact", span) for span in _named("telephone", text, _NUMBER))
    yield from (("identifier", span) for form in (_NUMBER, _CODE) for span in _named("identifier", text, form))


def long_numbers(text: str) -> Iterator[tuple[int, int]]:
    """The start and end of each long number in a `folded` text that is no file name."""
    return (match.span() for match in _LONG_NUMBER.finditer(_without_others(text)))


def _without_others(text: str) -> str:
    return _OTHER.sub(lambda match: "\0" * len(match[0]), text)


def _named(kind: str, text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """The start of each word of this kind before a number of `pattern`, and the end of that number.

    The word of a date of birth may also follow it.
    """
    for number in pattern.finditer(text):
        start, end = number.span()
        if (word := _word_in(text, kind, max(0, start - _MAX_WORD_DISTANCE), start)) is not None:
            yield word, end
        elif kind == "birth" and _word_in(text, kind, end, end + _MAX_WORD_DISTANCE // 2) is not None:
            yield start, end


def _word_in(text: str, kind: str, start: int, end: int) -> int | None:
    """Where the first word of this kind begins between `start` and `end`; None if there is none."""
    nearby = [*_WORD.finditer(text, start, end)][-_MAX_WORDS:]
    words = [word for word in nearby if _is_word(word[0], kind)]
    word = words[0] if words else _INNER_WORD[kind].search(text, start, end)
    return word and word.start()


def _is_word(word: str, kind: str) -> bool:
    """Whether `word` is of this kind, or a compound or inflected form of one with at least six letters."""
    beginnings = {word.lower()[:length] for length in range(6, len(word))}
    return not _WORDS[kind].isdisjoint((word, word.lower(), *beginnings))


@cache
def _folded_character(character: str) -> str:
    normal = unicodedata.normalize("NFKC", character)
    return str(unicodedata.decimal(normal, normal)) if len(normal) == 1 else character


def _is_iban(text: str) -> bool:
    compact = text.replace(" ", "")
    return int("".join(str(int(character, 36)) for character in compact[4:] + compact[:4])) % 97 == 1


def _is_card(text: str) -> bool:
    digits = [int(character) for character in reversed(text) if character.isdigit()]
    return sum(sum(divmod(digit * (1 + index % 2), 10)) for index, digit in enumerate(digits)) % 10 == 0
