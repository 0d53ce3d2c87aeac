"""Whether a text ends like a sentence, or was cut off in the middle of one."""

from __future__ import annotations

import re

from imgproc_local.vision.llm.lint_rules import rules_of
from imgproc_local.vision.text.tokens import words_of

FULL_STOPS = {"ja": "。", "zh": "。", "hi": "।", "th": ""}
"""The full stop of each language that does not use ".". In Thai a sentence ends with a space, so a text has no full
stop."""
MIN_CUT_OFF_CHARS = 190
"""A text of this length without a full stop was cut off: the grammar limits texts to 200 characters, and a last token
of several characters may not have fitted."""
MIN_CUT_OFF_CHARS_WITHOUT_STOP = 199
"""The same for languages without a full stop, in which a complete text may be almost as long."""

_ENDED = re.compile(r"[.!?…。！？।॥؟][”“’»«\"')\]）」』】]*$")
_ELLIPSIS_AT_END = re.compile(r"(\.\.|…)[”“’»«\"')\]）」』]*$")
_OPEN_AT_END = re.compile(r"[,:、，；：،؛\-–—/&+(\[{（]$")
_QUOTED = re.compile(
    r"“[^“”]*[“”]|„[^„“”]*[“”]|”[^“”]*[“”]|«[^«»]*»|»[^«»]*«|「[^「」]*」|『[^『』]*』|《[^《》]*》|(?<!\w)\"[^\"]*\""
    r"|‘[^‘’]*’|‚[^‚‘’]*[‘’]|(?<!\w)'[^']+'(?!\w)|(?<!\w)’[^’]+’(?!\w)"
)
_UNCLOSED_QUOTE = re.compile('[„“«「『《]|(?<!\\w)"')
_BRACKETS = (("(", ")"), ("[", "]"), ("（", "）"), ("【", "】"))


def is_ended(text: str, language: str) -> bool:
    """Whether `text` ends with a full stop, question mark or similar; the Greek question mark is a semicolon."""
    return _ENDED.search(text) is not None or (language == "el" and text.endswith(";"))


def is_cut_off(text: str, language: str) -> bool:
    """Whether `text` ends in the middle of a sentence: with a comma, a preposition, in a quotation or similar."""
    ended = is_ended(text, language)
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
    dangling = rules_of(language).dangling
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
