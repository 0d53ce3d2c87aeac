"""Finds telephone, bank, card and identity numbers and passwords in a text.

A number counts if its form is that of such a number only: a country or area code, the groups of a telephone number, a
checksum. Any other number counts if a word before it says what it is. Dates, years, sizes and web addresses never
count. Forms and words are in `personal_numbers.toml`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources

import msgspec

_TABLE = msgspec.toml.decode(resources.files(__package__).joinpath("personal_numbers.toml").read_bytes())
_WORDS = {
    kind: frozenset(word for words in by_language.values() for word in words.split(", "))
    for kind, by_language in _TABLE["words"].items()
}


def _pattern(*forms: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9.,])(?<!\d[ -])(?:{'|'.join(forms)})(?![A-Za-z0-9_]|[.,-]\d)")


_TELEPHONE, _NUMBER, _CODE = _pattern(*_TABLE["telephone"]), _pattern(_TABLE["number"]), re.compile(_TABLE["code"])
_OTHER = re.compile("|".join(_TABLE["other"]), re.IGNORECASE)
_PASSWORD = re.compile(
    rf"(?<![a-z])(?:{'|'.join(_WORDS['password'])})\s?(?:[:=\"“„«]\s?\S|(?:is|ist|est|es|è)\s\S{{0,20}}\d)\S*",
    re.IGNORECASE,
)

_WORD = re.compile(r"(?<![^\W\d_])[^\W\d_]+")
_INNER_WORD = {kind: re.compile("|".join(word for word in words if word >= "\u0900")) for kind, words in _WORDS.items()}
_MAX_WORD_DISTANCE, _MAX_WORDS = 32, 4
"""How many characters and words before a number are searched for the one that says what it is."""

_MIN_TELEPHONE_DIGITS = 9
"""Without a country code. Shorter groups of digits are too often dates, counts and inventory numbers."""


def folded(text: str) -> str:
    """`text` with the same number of characters, those of compatibility (such as `＠`) and foreign digits replaced."""
    return text if text.isascii() else "".join(map(_folded_character, text))


def personal_numbers(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """The start and end of each number in a `folded` text, with the word before it; they may overlap.

    Each is preceded by its kind: "telephone", or "identity" for bank, card and identity numbers and passwords.
    """
    for pattern, is_valid in _IDENTIFYING:
        yield from (("identity", match.span()) for match in pattern.finditer(text) if is_valid(match[0]))
    text = _OTHER.sub(lambda match: "\0" * len(match[0]), text)
    for match in _TELEPHONE.finditer(text):
        if sum(map(str.isdigit, match[0])) >= _MIN_TELEPHONE_DIGITS or "+" in match[0]:
            yield "telephone", match.span()
    for kind, pattern in (("telephone", _NUMBER), ("identity", _NUMBER), ("identity", _CODE)):
        yield from ((kind, span) for span in _named(kind, text, pattern))


def _named(kind: str, text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """The start of each word of this kind before a number of `pattern`, and the end of that number."""
    for number in pattern.finditer(text):
        begin, end = max(0, number.start() - _MAX_WORD_DISTANCE), number.start()
        before = [*_WORD.finditer(text, begin, end)][-_MAX_WORDS:]
        words = [word for word in before if not _WORDS[kind].isdisjoint((word[0], word[0].lower()))]
        if word := words[0] if words else _INNER_WORD[kind].search(text, begin, end):
            yield word.start(), number.end()


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


_IDENTIFYING: tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...] = (
    (re.compile(_TABLE["iban"]), _is_iban),
    (_pattern(*_TABLE["card"]), _is_card),
    (_pattern(*_TABLE["identity"]), bool),
    (_PASSWORD, bool),
)
