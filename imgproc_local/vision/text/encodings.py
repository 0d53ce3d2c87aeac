"""Letters that were decoded with a wrong encoding: they are decoded again, or recognised as lost."""

from __future__ import annotations

import codecs
import re

_ENCODINGS = ("cp1252", "cp1251", "cp1250", "mac_roman")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]{2,200}")
_PLAUSIBLE = re.compile(
    "[\u00a0-\u017f\u0218-\u021b\u0370-\u052f\u05d0-\u05ea\u0621-\u064a\u0660-\u0669\u067e\u0686\u06a9\u06af\u06cc"
    "\u0900-\u0fff\u10a0-\u10ff\u1e00-\u1fff\u2010-\u2044\u20ac\u2122\u3000-\u30ff\u3400-\u9fff\uac00-\ud7a3\uff00-\uffef"
    "\U0001f300-\U0001faff\u200d\ufe0f\x80-\x9f]+"
)
"""Letters of living languages, typographic marks and emoji. After one of several wrong conversions, control characters
remain for the next round."""
_BY_CHANCE = re.compile("(?!Ã[À-\u02ff])[\u00c0-\u052f“”„‘’‚…–—«»‹›]{2,4}")
"""Two to four letters and marks, such as “É, ÓŹ and ШІ, may be the bytes of a UTF-8 character by chance. They are
decoded again only if another part of the text is certainly damaged."""
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


def with_repaired_letters(text: str) -> str:
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

    is_certain = any(decoded(run) != run[0] and not _BY_CHANCE.fullmatch(run[0]) for run in _NOT_ASCII.finditer(text))
    return _NOT_ASCII.sub(decoded, text) if is_certain else text


def has_lost_letters(text: str) -> bool:
    """Whether letters of `text` were replaced, such as by "?", or are still wrongly decoded."""
    strange = len(_LATIN_1_WORD.findall(text))
    return bool(_LOST.search(text)) or (strange > 0 and 2 * strange >= len(re.findall(r"[^\W\d_]{2,}", text)))
