"""Which alt texts a person may write, how long any may be, where the sentences of a text end, and which texts of a file
a camera or a program wrote.

Source of the limits: api/README.md, "Results".
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

MAX_ALT_CHARS = 250
"""The maximum length of every alt text."""
PREFERRED_ALT_CHARS = 125
"""The length to which longer alt texts are shortened, if omitting whole sentences or details is enough."""
MAX_LONG_CHARS = 2000
"""The maximum length of a long description: that of a caption of IIM. IPTC's ExtDescrAccessibility has none."""

TAG = r"</?([a-z][\w:-]{0,30}+)[^<>]*(?:>|[\s/][^\s<>=/]+\s*=[^<>]*)"
"""A tag of HTML, in either case, also one that is not closed but has an attribute: a browser closes it at the next `>`
of the page. `a < b`, `x<y` and `<3` are no tags.
"""
_MARKUP = re.compile(TAG + r"|<!--|&(?:#[0-9]{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,31});", re.IGNORECASE)
_NOT_TEXT = re.compile("[\u2028-\u202e\u2066-\u2069\ufffd\ufff9-\ufffb]")
"""Line and paragraph separators, marks that change the direction of text, annotation and replacement characters."""


def normalized_alt_text(text: str) -> str:
    """`text` as it is stored: in Unicode NFC, without white space around it."""
    return unicodedata.normalize("NFC", text).strip()


def alt_text_error(text: str, field: str = "seo_alt_text", max_chars: int = MAX_ALT_CHARS) -> str | None:
    """The error message for a normalized text that can't be an alt text, or a long description; None if it can."""
    if not 1 <= len(text) <= max_chars:
        return f"{field} must have 1 to {max_chars} characters; received {len(text)}."
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs", "Co", "Cn") or _NOT_TEXT.match(character):
            return f"{field} must be one line of text without control characters; received U+{ord(character):04X}."
    if not any(character.isalnum() or unicodedata.category(character)[0] == "S" for character in text):
        return f"{field} must have letters, digits or symbols; received {text[:40]!r}."
    if markup := _MARKUP.search(text):
        return f"{field} must be plain text without HTML; received {markup[0][:40]!r}."
    return None


# ---- sentences, in any language ----

_MARKS = re.compile(r"[.!?…。！？।؟｡]+[”»’\"')\]」』）]*")
_ABBREVIATED_WORDS = """
dr prof st sr jr mr mrs ms mme mlle rev hon gen capt lt sgt sen gov mt ft ave blvd vs no nr inc ltd corp dept approx
ca bzw ggf inkl geb gest jh jhd mio mrd sog vgl dipl ing hl tel str evtl bspw usw sra dra sta sto avda núm pág dott
sig avv ul św inż mgr tzw np nár ur resp tj čp ул им св гр проф акад тыс млн pl nám ten kl bl fot
"""
_ABBREVIATIONS = frozenset(_ABBREVIATED_WORDS.split())
"""Words that end in a full stop inside a sentence, in lower case. Words that are also common without one are left out:
Spanish "mar", French "est"."""
_ABBREVIATED_MONTHS = """
jan feb mar apr jun jul aug sep sept oct nov dec mär okt dez janv févr avr juil déc ene abr ago dic fev set out des gen
ian iun iul febr márc ápr máj jún júl szept avg янв февр мар апр июн июл авг сент окт нояб дек січ лют бер квіт трав
черв лип серп вер жовт лист груд jūn jūl saus vas kov bal geg birž liep rugp rugs spal lapkr gruod
"""
_MONTHS = frozenset(_ABBREVIATED_MONTHS.split())
"""Months that end in a full stop before a day or a year, in lower case. Source: CLDR 48."""


def sentence_ends(text: str) -> list[int]:
    """The index in `text` after each sentence. A fragment at the end, without a closing mark, is not counted."""
    return [match.end() for match in _MARKS.finditer(text) if _ends_sentence(text, match)]


def sentences(text: str) -> list[str]:
    """The sentences of `text` in order, without spaces around them; the last one may be a fragment."""
    ends = [0, *sentence_ends(text), len(text)]
    parts = [text[start:end].strip() for start, end in pairwise(ends)]
    return [part for part in parts if part]


def _ends_sentence(text: str, mark: re.Match[str]) -> bool:
    """Whether `mark` ends a sentence of `text`, not an abbreviation, an initial or a number."""
    following = text[mark.end() : mark.end() + 2]
    if mark[0][0] in "。！？।؟｡":
        return True
    # without a space after the mark, only a capital begins a sentence: some programs remove the spaces
    if following and not following[0].isspace() and not (following[0].isalpha() and not following[0].islower()):
        return False
    if following[1:].islower() and following[0].isspace():
        return False
    if not mark[0].startswith(".") or not following:
        return True
    before = text[max(0, mark.start() - 20) : mark.start()]
    word = before.rsplit(None, 1)[-1].lstrip("(“„«\"'") if before.strip() else ""
    if following[1:].isdigit() and word.lower() in _MONTHS:
        return False
    is_initial = len(word) == 1 and word.isalpha()
    is_ordinal = word.isdigit() and len(word) <= 2
    return not (is_initial or is_ordinal or "." in word or word.lower() in _ABBREVIATIONS)


# ---- texts that are removed from a file because a camera or a program wrote them ----
#
# A caption that is removed wrongly is lost, so a caption is removed only if it is certainly a camera's default. A
# comment is removed unless it reads as a caption, because most comments are written by programs. Which texts are used
# for a description is decided more strictly in `vision/text/human_words.py`.

_CAMERA_DEFAULT = re.compile(
    r"(olympus|minolta|kodak|konica|samsung|sony|nikon|ricoh|pentax|casio|vivitar)?[ <]*"
    r"(digital (still )?camera|dsc|digimax.*|kenox.*|dcim|exif_jpeg_picture|jpeg|untitled|default|charset=.*)>?",
    re.IGNORECASE,
)
_NOT_IN_CAPTIONS = re.compile(
    r"\b(created|made|generated|edited|optimi[sz]ed|compressed|converted|encoded|exported|processed|resized|saved"
    r"|produced|built|written|animated) (with|by|using|in|from|on)\b"
    r"|\b(gimp|photoshop|adobe|imagemagick|ezgif|giphy|tenor|imgur|ulead|paint|software|converter|encoder|optimizer"
    r"|shareware|unregistered|trial|version|gif|jpe?g|png|webp|lead technologies|gps|latitude|longitude"
    r"|serial|camera)\b"
    r"|https?:|www\.|\.(com|net|org|io|app)\b|@|\bver\.?\s?\d|\bv?\d+\.\d|[={}<>|\\_~^°]",
    re.IGNORECASE,
)
_UNSPACED_LETTERS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]{2}")
"""Two letters of a script without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""


def is_camera_default(text: str) -> bool:
    """Whether a caption is a camera's default, such as "OLYMPUS DIGITAL CAMERA", and may be removed from a file."""
    return len(text) <= 200 and _CAMERA_DEFAULT.fullmatch(text) is not None


def reads_as_a_caption(comment: str) -> bool:
    """Whether a comment seems to be about the picture, not a program's advertisement, its settings or a position."""
    comment = " ".join(comment.split())
    several_words = sum(_letters(word) >= 2 for word in comment.split()) >= 2
    return (
        0 < len(comment) <= 2000
        and _letters(comment) + sum(comment.count(sign) for sign in " ,.;:!?'’-–") >= 0.85 * len(comment)
        and (several_words or bool(_UNSPACED_LETTERS.search(comment)))
        and not _NOT_IN_CAPTIONS.search(comment)
    )


def _letters(text: str) -> int:
    """The number of letters, and of marks that belong to letters."""
    return sum(unicodedata.category(character)[0] in "LM" for character in text)
