"""Shortens texts to whole sentences."""

from __future__ import annotations

from imgproc_local.domain.alt_text import MAX_ALT_CHARS, PREFERRED_ALT_CHARS
from imgproc_local.domain.sentences import sentence_ends

MIN_SHORTENED_CHARS = 12
"""A text is never shortened to fewer characters, because its first sentence may be an interjection."""


def shorten(text: str, preferred_chars: int = PREFERRED_ALT_CHARS, max_chars: int = MAX_ALT_CHARS) -> str:
    """`text` if it has at most `preferred_chars`, else `text` truncated after its last sentence within them.

    If no sentence ends there, a text of at most `max_chars` is unchanged, and a longer one is truncated after its first
    sentence or, with an ellipsis, after a word.
    """
    if len(text) <= preferred_chars:
        return text
    ends = [end for end in sentence_ends(text) if MIN_SHORTENED_CHARS <= end <= max_chars]
    preferred = [end for end in ends if end <= preferred_chars]
    if preferred:
        return text[: preferred[-1]]
    if len(text) <= max_chars:
        return text
    if ends:
        return text[: ends[0]]
    cut = text[: max_chars - 1]
    return (cut[: cut.rfind(" ")] if " " in cut[max_chars // 2 :] else cut).rstrip(" ,;:–-、，") + "…"
