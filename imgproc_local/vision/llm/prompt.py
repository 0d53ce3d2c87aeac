"""What a vision model is asked, the form its answer is held to, and the answer read back. Pure text, no model.

The picture comes first, then one text that is the same for every language, and the language last: so everything but
the last line is read by the model once, however many languages are asked for.

Source: W3C WAI, "An alt Decision Tree"; IPTC, "Alt Text (Accessibility)" guidance.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.vision.text.embedded_text import Text, Words

MAX_NOTE_CHARS = 160
"""Of one text of the owner's: a caption may be a whole article."""
MAX_NOTES_BYTES = 800
"""Of all notes, the first ones first: a token is a byte at worst, and what is long slows every picture down."""
MAX_NOTED = 6
"""Keywords or persons that are told."""
DEFAULT_PROJECTS = frozenset(("API Uploads",))
"""Names that the service gives, which say nothing of a picture. Source: api/README.md, "Uploads"."""

INSTRUCTIONS = """
Write the alternative text and a file name for this picture.
Alternative text: one or two sentences, at most 125 characters, for someone who cannot see it. \
Say what matters most first: who or what, doing what, where. Quote short text that stands in the picture. \
Describe people by what can be seen; never guess who they are. Say only what is visible or noted below. \
Never begin with "image of" or "picture of".
File name: 3 to 8 words with hyphens between them, the most telling first.
Answer in JSON with the keys filename and alt_text.
"""
NOTES = "Noted by its owner:\n"

GRAMMAR = r"""
root ::= "{\"filename\":\"" word ("-" word){2,7} "\",\"alt_text\":\"" first rest{1,199} "\"}"
word ::= [^"\\\x00-\x20\x7f.,:;!?/<>_-]{1,24}
first ::= [^"\\\x00-\x20\x7f<>]
rest ::= [^"\\\x00-\x1f\x7f<>]
"""
"""Flat: small models lose themselves in nested objects. Letters of every script: the slug is made from the words."""


class Answer(Struct, frozen=True):
    """What a model wrote in one language, as it wrote it."""

    filename: str
    alt_text: str


def shared_prompt(words: Words, project_name: str) -> str:
    """What follows the picture, the same for every language: what is wanted, and what the owner noted."""
    notes = [
        _note("Title", [*words.titles[:1]]),
        _note("Caption", [*words.captions[:1]]),
        _note("Keywords", words.keywords[:MAX_NOTED]),
        _note("Event", words.event[:1]),
        _note("Persons", words.persons[:MAX_NOTED]),
        _note("Place", words.places),
        _note("File name was", [" ".join(words.file)]),
        _note("Project", [] if project_name in DEFAULT_PROJECTS else [project_name]),
    ]
    told = ""
    for note in notes:
        if len((told + note).encode()) <= MAX_NOTES_BYTES:
            told += note
    return INSTRUCTIONS + (NOTES + told if told else "")


def language_prompt(language: str, complaint: str = "") -> str:
    """The last line of the question; `complaint` says what was wrong with the answer before."""
    again = f"The answer before was refused: {complaint}. " if complaint else ""
    return f"{again}Respond in {LANGUAGES[language].name}."


def parse_answer(written: str) -> Answer | None:
    """The model's words, None where it did not finish them."""
    try:
        answer = msgspec.json.decode(written.encode(), type=Answer)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return Answer(_line(answer.filename), _line(answer.alt_text))


def _note(name: str, texts: Sequence[Text | str]) -> str:
    """One line, "" where there is nothing to tell."""
    told = [_harmless(text if isinstance(text, str) else text.text) for text in texts]
    told = [text for text in told if text]
    return f"{name}: {', '.join(told)}\n" if told else ""


def _harmless(text: str) -> str:
    """`text` on one line without the marks of a chat: what a file says must never read as a turn of the chat."""
    text = _line(re.sub(r"[<>|\[\]{}]", " ", text))
    return text if len(text) <= MAX_NOTE_CHARS else text[:MAX_NOTE_CHARS].rsplit(" ", 1)[0] + "…"


def _line(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())
