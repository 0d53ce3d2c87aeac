"""Finds what does not belong in an alt text: guesses, moods, camera work, refusals, remarks to the reader, mark-up,
lists of keywords, and texts without content. `remarks.toml` has the words of each language."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from importlib import resources

import msgspec
from msgspec import Struct

from imgproc_local.vision.llm.lint_rules import UNSPACED, rules_of
from imgproc_local.vision.text.language import function_words
from imgproc_local.vision.text.tokens import casefolded_words

MAX_COMMAS = 7
"""A text with more commas is a list of more than eight things."""
MIN_TAGS = 6
"""A text of at least this many parts between commas, without any function word, is a list of keywords; so is one of one
part fewer in which a long word occurs three times."""

_MARKUP = re.compile(
    r"\\[nrtu\"]|&(amp|nbsp|quot|lt|gt|apos|#\d+|#x[0-9a-f]+);|```|\*\*|^#+ |\n#|\[/?INST\]|<\||\|>|</?\w+[^>]{0,40}>"
    r"|!?\[[^\]]{0,80}\]\([^)]{0,80}\)|[{\[]\s*[\"'][\w -]{1,30}[\"']|[\"']\s*:\s*[\"'{\[]|[\"']\s*[}\]]|\b\w+=[\"']"
    r"|^\W*\{|\}\W*$|\b(undefined|NaN|null)\b|#\w+[^#]{0,30}#\w+|\[\d+\]|\w\\_\w|https?://|\$\{|\{\{",
    re.IGNORECASE,
)
_LABEL_START = r"(?:[.;|·–-]|\s-) ?"
"""What precedes a label inside a text."""
_COMPLAINTS = {
    "guesses": "it guessed",
    "moods": "it described a mood instead of the content",
    "camera": "it described the camera work",
    "refusals": "it described nothing",
    "addresses": "it addressed the reader",
    "references": "it referred to the picture itself",
}


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    """The table of one language in `remarks.toml`."""

    guesses: tuple[str, ...]
    moods: tuple[str, ...]
    camera: tuple[str, ...]
    refusals: tuple[str, ...]
    addresses: tuple[str, ...]
    references: tuple[str, ...]
    generic: str


def remark_problem(text: str, unquoted: str, language: str) -> str:
    """The complaint about a remark or mark-up in `text`; "" if there is none. Remarks in quotations are accepted."""
    if _MARKUP.search(text):
        return "it contained mark-up"
    unquoted = unquoted.replace("’", "'")
    for code in dict.fromkeys((language, "en")):
        if match := _inner_label(code).search(unquoted):
            return f'it contained the label "{match[1]}"'
        for kind, pattern in _patterns(code).items():
            # English guesses, moods and references may be words of another language
            if (code == language or kind in ("camera", "refusals", "addresses")) and (
                match := pattern.search(unquoted)
            ):
                return f'{_COMPLAINTS[kind]} ("{match[0].strip()}")'
    return ""


def content_problem(text: str, unquoted: str, language: str) -> str:
    """The complaint about a text that says nothing or is a list; "" if there is none."""
    words = casefolded_words(unquoted)
    if text == unquoted and _is_generic(unquoted, words, language):
        return "it said nothing about the content"
    commas = len(re.findall(r"[,،、，;；|]", unquoted))
    if commas > MAX_COMMAS:
        return "it was a list"
    known = function_words(language)
    if known and commas >= MIN_TAGS - 1 and not known.intersection(words):
        return "it was a list of keywords"
    content = Counter(word for word in words if len(word) > 3 and word not in known)
    if commas >= MIN_TAGS - 2 and content and content.most_common(1)[0][1] >= 3:
        return "it was a list of keywords"
    return ""


def _is_generic(text: str, words: list[str], language: str) -> bool:
    generic = _tables()[language].generic.split()
    if language in UNSPACED:
        for word in sorted(generic, key=len, reverse=True):
            text = text.replace(word, "")
        return not any(char.isalpha() for char in text)
    known = function_words(language)
    return all(word in generic or word in known for word in words) and any(word in generic for word in words)


@cache
def _inner_label(language: str) -> re.Pattern[str]:
    """A pattern for labels inside a text; `cleanup.py` removes those at the beginning."""
    return re.compile(_LABEL_START + rules_of(language).label.pattern.removeprefix("(?i)"), re.IGNORECASE)


@cache
def _patterns(language: str) -> dict[str, re.Pattern[str]]:
    """The compiled patterns of `language` by kind."""
    table = _tables()[language]
    before, after = r"(?<!\w)", r"(?!\w)"
    if language in (*UNSPACED, "ko"):
        before = after = ""
    elif language == "hi":
        # `\w` does not match vowel signs
        before, after = r"(?<![^\s(])", r"(?![^\s।,.;:!?)])"
    elif language in ("ar", "he"):
        # conjunctions and short prepositions are written together with the next word
        before = r"(?<!\w)[وفושבכ]?"
    # a pattern may end in punctuation
    after = rf"(?:{after}|(?<=[^\w\s]))" if after else ""
    patterns: dict[str, tuple[str, ...]] = {kind: getattr(table, kind) for kind in _COMPLAINTS}
    return {kind: re.compile(rf"{before}(?:{'|'.join(each)}){after}", re.IGNORECASE) for kind, each in patterns.items()}


@cache
def _tables() -> dict[str, _Table]:
    file = resources.files(__package__).joinpath("remarks.toml")
    return msgspec.toml.decode(file.read_bytes(), type=dict[str, _Table])
