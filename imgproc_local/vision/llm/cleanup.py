"""The form of an answer's alt text: labels, enclosing marks and openers are removed, a capital and a full stop added.

An opener is a beginning such as "Image of". No content is added. Whether a text ends like a sentence, and what it
quotes, is found here, too.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from imgproc_local.vision.languages.table import language_table
from imgproc_local.vision.llm.prompt import Answer
from imgproc_local.vision.text.words import capitalized, letters_and_digits, words_of

FULL_STOPS = {"ja": "。", "zh": "。", "hi": "।", "th": ""}
"""The full stop of each language that does not use ".". In Thai a sentence ends with a space, so a text has no full
stop."""
MIN_CUT_OFF_CHARS = 190
"""A text of this length without a full stop was cut off: the grammar limits texts to 200 characters, and a last token
of several characters may not have fitted."""
MIN_CUT_OFF_CHARS_WITHOUT_STOP = 199
"""The same for languages without a full stop, in which a complete text may be almost as long."""

_ENCLOSING_PAIRS = ("“”", "„“", "„”", "””", "«»", "»«", "「」", "『』", '""', "‘’", "‚‘", "''", "()", "[]")
_ENDED = re.compile(r"[.!?…。！？।॥؟][”“’»«\"')\]）」』】]*$")
_ELLIPSIS_AT_END = re.compile(r"(\.\.|…)[”“’»«\"')\]）」』]*$")
_OPEN_AT_END = re.compile(r"[,:、，；：،؛\-–—/&+(\[{（]$")
_QUOTED = re.compile(
    r"“[^“”]*[“”]|„[^„“”]*[“”]|”[^“”]*[“”]|«[^«»]*»|»[^«»]*«|「[^「」]*」|『[^『』]*』|《[^《》]*》|(?<!\w)\"[^\"]*\""
    r"|‘[^‘’]*’|‚[^‚‘’]*[‘’]|(?<!\w)'[^']+'(?!\w)|(?<!\w)’[^’]+’(?!\w)"
)
_UNCLOSED_QUOTE = re.compile('[„“«「『《]|(?<!\\w)"')
_ANNOUNCEMENT = re.compile(
    r"(sure|certainly|of course|okay|absolutely|here is|here's|here are)\b[^:]{0,80}: ?", re.IGNORECASE
)
"""What precedes the text that a model was asked for."""
_BRACKETS = (("(", ")"), ("[", "]"), ("（", "）"), ("【", "】"))


def clean_answer(answer: Answer, language: str) -> Answer:
    """`answer` with its alt text cleaned. Its file name is unchanged."""
    text = " ".join(unicodedata.normalize("NFC", answer.alt_text).split()).strip("*#_` ")
    text = _without_enclosing_marks(text)
    # twice: a label may follow an opener such as "Sure, here is", and another opener may follow the label
    for pattern in (*_removable("en"), *_removable(language)) * 2:
        if (match := pattern.match(text.replace("’", "'"))) and len(text) - match.end() > 3:
            text = _without_enclosing_marks(text[match.end() :].lstrip(" ,:：-–—*"))
    text = capitalized(text, language)
    if letters_and_digits(text) and not _is_ended(text, language) and not is_cut_off(text, language):
        text += FULL_STOPS.get(language, ".")
    return Answer(answer.filename, text)


def is_cut_off(text: str, language: str) -> bool:
    """Whether `text` ends in the middle of a sentence: with a comma, a preposition, in a quotation or similar."""
    ended = _is_ended(text, language)
    if _ELLIPSIS_AT_END.search(text) or _OPEN_AT_END.search(text) or (text.endswith(";") and not ended):
        return True
    # a digit, because a quotation at the end is no dangling word
    unquoted = without_quotations(text, "0")
    if _UNCLOSED_QUOTE.search(unquoted):
        return True
    if any(unquoted.count(left) > unquoted.count(right) for left, right in _BRACKETS):
        return True
    end = unquoted.rpartition(" ")[2]
    last = words_of(end)
    dangling = language_table(language).dangling.split()
    if len(last) == 1 and not re.search(r"[\d(-]", end) and not last[0].isupper() and last[0].lower() in dangling:
        return True
    min_chars = MIN_CUT_OFF_CHARS if FULL_STOPS.get(language, ".") else MIN_CUT_OFF_CHARS_WITHOUT_STOP
    return not ended and len(text) >= min_chars


def quotations(text: str) -> list[str]:
    """The quotations in `text`, without their quotation marks."""
    return [quoted[1:-1] for quoted in _QUOTED.findall(text)]


def without_quotations(text: str, placeholder: str) -> str:
    """`text` with each quotation, including its quotation marks, replaced by `placeholder`."""
    return _QUOTED.sub(placeholder, text)


@cache
def label_pattern(language: str) -> re.Pattern[str]:
    """A pattern for the labels of `language`, with the colon that follows them."""
    return re.compile(rf"({'|'.join(language_table(language).labels)}) ?[:：]", re.IGNORECASE)


@cache
def _removable(language: str) -> tuple[re.Pattern[str], ...]:
    """Patterns for what is removed from the beginning of a text: openers, and labels."""
    openers = [re.compile(opener, re.IGNORECASE) for opener in language_table(language).removable_openers]
    announcements = [_ANNOUNCEMENT] if language == "en" else []
    return (*announcements, *openers, label_pattern(language))


def _is_ended(text: str, language: str) -> bool:
    """Whether `text` ends with a full stop, question mark or similar; the Greek question mark is a semicolon."""
    return _ENDED.search(text) is not None or (language == "el" and text.endswith(";"))


def _without_enclosing_marks(text: str) -> str:
    """`text` without one pair of quotation marks or brackets around all of it, and without full stops after them."""
    for pair in _ENCLOSING_PAIRS:
        if len(text) > 2 and text[0] == pair[0] and text.rstrip(".")[-1:] == pair[1]:
            inside = text.rstrip(".")[1:-1]
            if not any(mark in inside for mark in pair):
                return inside.strip()
    return text
