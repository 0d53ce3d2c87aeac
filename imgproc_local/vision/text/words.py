"""The letters, scripts, words and first sentences of a text in any language."""

from __future__ import annotations

import re
import unicodedata

from imgproc_local.domain.alt_text import MAX_ALT_CHARS, PREFERRED_ALT_CHARS, sentence_ends

UNSPACED = frozenset(("ja", "zh", "th"))
"""Languages that are written without spaces between words."""
_SCRIPTS = {
    name: re.compile(f"[{ranges}]")
    for name, ranges in {
        "latin": "A-Za-z\u00aa-\u024f\u1e00-\u1eff\u2c60-\u2c7f\uff21-\uff3a\uff41-\uff5a",
        "greek": "\u0370-\u03ff\u1f00-\u1fff",
        "cyrillic": "\u0400-\u052f",
        "hebrew": "\u0590-\u05ff\ufb1d-\ufb4f",
        "arabic": "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefc",
        "devanagari": "\u0900-\u097f",
        "thai": "\u0e00-\u0e7f",
        "kana": "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f",
        "han": "\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
        "hangul": "\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3\uffa0-\uffdc",
    }.items()
}
"""A pattern for one letter of each script, with full-width, half-width and compatibility forms."""
_MODIFIER_LETTERS = re.compile("[\u02b0-\u02ff]")
"""Letters without a script, such as the Ukrainian apostrophe and the Hawaiian okina. They are ignored."""


def letters_by_script(text: str) -> dict[str, int]:
    """The number of letters of `text` in each script; "other" is for scripts that no supported language uses."""
    letters = _MODIFIER_LETTERS.sub("", "".join(filter(str.isalpha, text)))
    counts = {name: len(pattern.findall(letters)) for name, pattern in _SCRIPTS.items()}
    return counts | {"other": len(letters) - sum(counts.values())}


def main_script(text: str) -> str:
    """The script of most letters of `text`."""
    counts = letters_by_script(text)
    return max(counts, key=lambda name: counts[name])


def words_of(text: str) -> list[str]:
    """The words of `text` in their original case: sequences of letters with their combining marks."""
    # the middle dot is part of Catalan words
    text = "".join(char if unicodedata.category(char)[0] in "LM" or char in "·" else " " for char in text)
    return text.split()


def casefolded_words(text: str) -> list[str]:
    """The words of `text`, case-folded."""
    return [word.casefold() for word in words_of(text)]


def letters_and_digits(text: str) -> str:
    """The letters and digits of `text` without anything between them, in NFC and case-folded."""
    folded = unicodedata.normalize("NFC", text).casefold()
    return "".join(char for char in folded if unicodedata.category(char)[0] in "LMN")


def shorten(text: str, preferred_chars: int = PREFERRED_ALT_CHARS, max_chars: int = MAX_ALT_CHARS) -> str:
    """`text` if it has at most `preferred_chars`, else `text` truncated after its last sentence within them.

    If no sentence ends there, a text of at most `max_chars` is unchanged, and a longer one is truncated after its first
    sentence or, with an ellipsis, after a word.
    """
    if len(text) <= preferred_chars:
        return text
    # a first sentence of fewer characters may be an interjection
    ends = [end for end in sentence_ends(text) if 12 <= end <= max_chars]
    preferred = [end for end in ends if end <= preferred_chars]
    if preferred:
        return text[: preferred[-1]]
    if len(text) <= max_chars:
        return text
    if ends:
        return text[: ends[0]]
    cut = text[: max_chars - 1]
    return (cut[: cut.rfind(" ")] if " " in cut[max_chars // 2 :] else cut).rstrip(" ,;:–-、，") + "…"
