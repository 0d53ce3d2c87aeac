"""File names from text: lower-case ASCII words joined by single hyphens.

Words in other scripts are romanised according to the script and the language of the text.

Invariant: a slug is empty or matches `[a-z0-9]+(-[a-z0-9]+)*`, has at most 8 words, not counting a number or a hash
at its end, and at most 80 characters.
Source: api/README.md, "Results".
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from base64 import b32encode
from collections.abc import Sequence

from imgproc_local.domain.filename import is_device_name

MAX_WORDS = 8
MAX_CHARS = 80

_APOSTROPHES = "'’ʼ‘`´＇"
_ELIDING = frozenset(("fr", "it", "ca", "pt"))
"""Languages in which an apostrophe separates two words (l'été, d'água). Elsewhere it is part of a word (don't)."""
_INSIDE_WORDS = re.compile("[·‧⋅׳״\u00ad\u200b-\u200d\u2060\ufeff]")
"""Characters that are removed without separating words: the dot of Catalan l·l, Hebrew geresh and gershayim, soft
hyphens, zero-width joiners and non-joiners (Persian)."""


def make_slug(text: str, language_code: str, text_language: str | None = None) -> str:
    """The words of `text` as a file name without extension; "" if none remain.

    `language_code` is the language of the description that the file name belongs to, and `text_language` that of the
    text. If it is None, the language is inferred from the script and from letters that only one language uses; if
    several remain possible, that of the description is assumed. Words that can't be romanised are left out.
    """
    slug = _joined(_words(text, language_code, text_language)[:MAX_WORDS], MAX_CHARS)
    return f"{slug}-image" if is_device_name(slug) else slug  # Windows opens a device for a name such as `con`


def _words(text: str, requested: str, text_language: str | None) -> list[str]:
    """The words of `text` in lower-case ASCII letters and digits."""
    text = unicodedata.normalize("NFC", text[:2000])
    text = re.sub(f"[{_APOSTROPHES}]", " " if (text_language or requested) in _ELIDING else "", text)
    text = _INSIDE_WORDS.sub("", text).lower()
    # words are letters, marks and numbers; all other characters, such as symbols and emoji, separate them
    text = "".join(char if unicodedata.category(char)[0] in "LMN" else " " for char in text)
    if not text.isascii():
        from imgproc_local.domain.romanise import romanised  # most file names do not need its tables

        text = romanised(text, requested, text_language)
    return re.findall("[a-z0-9]+", text)


def numbered(slug: str, number: int) -> str:
    """`slug-number`, with `slug` truncated after a word so that the result has at most `MAX_CHARS` characters."""
    return _with_last_word(slug, str(number))


def archive_name(slug: str, source_key: str) -> str:
    """The name of a picture's results in an archive: `slug` and 8 base32 characters of the SHA-256 of `source_key`.

    `source_key` is the path of the picture relative to the folder or object store that is processed. The name does not
    depend on other pictures, so it does not change when pictures are added. It has at most `MAX_CHARS` characters.

    Among a million pictures with the same slug in one folder, two have the same name with a probability of 0.37, so a
    caller must make sure that it does not replace the results of another picture.
    """
    digest = hashlib.sha256(source_key.encode("utf-8", "surrogateescape")).digest()
    return _with_last_word(slug, b32encode(digest[:5]).decode().lower())


def is_archive_name(name: str, source_key: str) -> bool:
    """Whether `archive_name` made the name for the picture of this key. A number may have been added to it."""
    candidates = (name, name.rpartition("-")[0])
    return any(each == archive_name(each.rpartition("-")[0], source_key) for each in candidates)


def _with_last_word(slug: str, word: str) -> str:
    return _joined(slug.split("-"), MAX_CHARS - len(word) - 1) + f"-{word}"


def _joined(words: Sequence[str], max_chars: int) -> str:
    """As many of the first words as fit into `max_chars`, joined by hyphens. A first word that is too long is cut."""
    slug = ""
    for word in words:
        longer = f"{slug}-{word}" if slug else word[:max_chars]
        if len(longer) > max_chars:
            break
        slug = longer
    return slug
