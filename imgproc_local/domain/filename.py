"""File names: those that are received with uploads, those of downloads, and slugs, which are made from texts.

A slug is lower-case ASCII words joined by single hyphens. Words in other scripts are romanised according to the script
and the language of the text.

Invariant: a slug is empty or matches `[a-z0-9]+(-[a-z0-9]+)*`, has at most 8 words, not counting a number or a hash at
its end, and at most 80 characters. Source: api/README.md, "Results".

Invariant: a name for a download can be created on every operating system, and can't lead out of the folder that the
user chose. It has no path separator, no drive or stream (`name.png:stream`), no character that is invisible (except
`JOINERS`) or reverses the order of letters, is not the name of a device (`CON.png`), and does not end in a dot or a
space. This also holds for its ASCII version, in which characters are replaced by their compatibility equivalents first
(`／` becomes `/`).

Source: "Naming Files, Paths, and Namespaces" in Microsoft's documentation of Windows; RFC 6266, section 4.3; RFC 8187,
section 3.2.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from base64 import b32encode
from collections.abc import Collection, Sequence
from email.errors import MessageError
from email.header import decode_header, make_header
from urllib.parse import unquote

_MAX_BYTES = 255
"""The longest file name in UTF-8 on ext4 and APFS. NTFS allows as many UTF-16 units, of which a name has no more."""
FALLBACK_STEM = "image"
"""The stem of a name from which no usable character remains."""
JOINERS = "\u200c\u200d"
"""Zero-width non-joiner and joiner. They are part of the spelling of Persian and Hindi, and of emoji."""

_QUOTED = re.compile(r'"(?:\\.|[^\\"])*+"?')
_EXTENDED_NAME = re.compile(
    r";\s*filename\*\s*=\s*(utf-8|iso-8859-1)'[^';]*'((?:[\w!#$&+.^`|~-]|%[0-9a-f]{2})+)\s*(?:;|$)",
    re.IGNORECASE | re.ASCII,
)
_RESERVED = re.compile(r'[<>:"/\\|?*]')
_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9]|lpt[0-9])[ .]*(\.|$)", re.IGNORECASE)
"""The names of Windows devices. Windows opens the device whatever extension follows."""
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories: control and format characters, surrogates, and separators of lines and paragraphs."""


def received_name(disposition: str, name: str | None) -> str | None:
    """The file name in the `Content-Disposition` of a part, whose `filename` is `name`.

    A valid `filename*` takes precedence, as in RFC 6266. A `name` that is an encoded word (RFC 2047) is decoded;
    clients of .NET send such names.
    """
    extended = _EXTENDED_NAME.search(_QUOTED.sub("", disposition))
    try:
        if extended:
            return unquote(extended[2], extended[1], "strict")
        return str(make_header(decode_header(name))) if name and name.startswith("=?") else name
    except (ValueError, LookupError, MessageError):  # malformed
        return name


def received_folder(path: str) -> str:
    """The folder of an upload on the sender's disk, its parts joined by slashes, from a path of any system.

    A drive, parts that name no folder (`.`, `..`) and invisible characters are left out.
    """
    parts = re.split(r"[/\\]", re.sub(r"^[A-Za-z]:(?=[/\\]|$)", "", path))
    named = (_without_invisible(part).strip() for part in parts)
    return "/".join(part for part in named if part not in ("", ".", ".."))


def original_name(received: str, default: str) -> str:
    """The file name that is stored for an upload: the last path segment of `received`, without invisible characters.

    It is `default` if nothing but dots remains. It has at most `_MAX_BYTES` bytes in UTF-8; the stem is truncated, not
    the extension.
    """
    name = _without_invisible(re.split(r"[/\\]", received)[-1]).strip()
    if not name.strip("."):
        name = default
    stem, dot, extension = name.rpartition(".")
    if not stem or len(extension) > 16:  # a longer suffix is part of the name
        stem, dot, extension = name, "", ""
    return _cut(stem, dot + extension)


def download_name(stem: str, ending: str) -> str:
    """`stem` and `ending`, such as `-optimized.png`, as the name of a file that a user downloads."""
    return _join(_without_invisible(stem), _without_invisible(ending))


def ascii_download_name(stem: str, ending: str) -> str:
    """As `download_name`, but in ASCII: letters lose their marks, and letters of other scripts are omitted."""
    return _join(_to_ascii(stem), _to_ascii(ending))


def _is_device_name(name: str) -> bool:
    """Whether Windows opens a device instead of a file called `name`, or of its compatibility equivalent (`COM¹`)."""
    return _DEVICE.match(unicodedata.normalize("NFKC", name)) is not None


def _to_ascii(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return "".join(char for char in plain if char.isprintable())


def _without_invisible(text: str) -> str:
    return "".join(char for char in text if char in JOINERS or unicodedata.category(char) not in _INVISIBLE)


def _replace_reserved(text: str) -> str:
    """Replaces reserved characters, and those whose compatibility equivalents contain one (`／`), by `_`."""
    return "".join("_" if _RESERVED.search(unicodedata.normalize("NFKD", char)) else char for char in text)


def _join(stem: str, ending: str) -> str:
    """`stem` and `ending` as a file name that every system can create."""
    stem, ending = _replace_reserved(stem), _replace_reserved(ending)
    # Windows drops spaces and dots at the end; on other systems, a dot at the beginning hides the file
    stem, ending = stem.strip().lstrip("."), re.sub(r"[\s.]+$", "", ending)
    if not ending:
        stem = re.sub(r"[\s.]+$", "", stem)
    if not stem.strip(" ._"):
        stem = FALLBACK_STEM
    if _is_device_name(stem + ending):
        stem = f"_{stem}"
    return _cut(stem, ending)


def _cut(stem: str, ending: str) -> str:
    """`stem` and `ending`, truncated to at most `_MAX_BYTES` bytes of UTF-8; `stem` is truncated first."""
    room = max(0, _MAX_BYTES - len(ending.encode()))
    name = stem.encode()[:room].decode("utf-8", "ignore") + ending
    return name.encode()[:_MAX_BYTES].decode("utf-8", "ignore")


# ---- slugs

MAX_SLUG_WORDS, _MAX_SLUG_CHARS = 8, 80
_APOSTROPHES = "'’ʼ‘`´＇"
_ELIDING = frozenset(("fr", "it", "ca", "pt"))
"""Languages in which an apostrophe separates two words (l'été, d'água). Elsewhere it is part of a word (don't)."""
_INSIDE_WORDS = re.compile("[·‧⋅׳״\u00ad\u200b-\u200d\u2060\ufeff]")
"""Characters that are removed without separating words: the dot of Catalan l·l, Hebrew geresh and gershayim, soft
hyphens, zero-width joiners and non-joiners (Persian)."""


def make_slug(text: str, language_code: str, text_language: str | None = None, omitted: Collection[str] = ()) -> str:
    """The words of `text` as a file name without extension; "" if none remain.

    `language_code` is the language of the description that the file name belongs to, and `text_language` that of the
    text. If it is None, the language is inferred from the script and from letters that only one language uses; if
    several remain possible, that of the description is assumed. Words that can't be romanised are left out, and those
    that are `omitted` once they are romanised.
    """
    words = [word for word in _words(text, language_code, text_language) if word not in omitted]
    slug = _joined_words(words[:MAX_SLUG_WORDS], _MAX_SLUG_CHARS)
    return f"{slug}-image" if _is_device_name(slug) else slug  # Windows opens a device for a name such as `con`


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


def numbered(slug: str, number: int | str) -> str:
    """`slug-number`, with `slug` truncated after a word so that the result has at most `_MAX_SLUG_CHARS` characters.

    A hash can take the place of the number.
    """
    return _joined_words(slug.split("-"), _MAX_SLUG_CHARS - len(str(number)) - 1) + f"-{number}"


def archive_name(slug: str, source_key: str) -> str:
    """The name of a picture's results in an archive: `slug` and 8 base32 characters of the SHA-256 of `source_key`.

    `source_key` is the path of the picture relative to the folder or object store that is processed. The name does not
    depend on other pictures, so it does not change when pictures are added. It has at most 80 characters.

    Among a million pictures with the same slug in one folder, two have the same name with a probability of 0.37, so a
    caller must make sure that it does not replace the results of another picture.
    """
    digest = hashlib.sha256(source_key.encode("utf-8", "surrogateescape")).digest()
    return numbered(slug, b32encode(digest[:5]).decode().lower())


def is_archive_name(name: str, source_key: str) -> bool:
    """Whether `archive_name` made the name for the picture of this key. A number may have been added to it."""
    candidates = (name, name.rpartition("-")[0])
    return any(each == archive_name(each.rpartition("-")[0], source_key) for each in candidates)


def _joined_words(words: Sequence[str], max_chars: int) -> str:
    """As many of the first words as fit into `max_chars`, joined by hyphens. A first word that is too long is cut."""
    slug = ""
    for word in words:
        longer = f"{slug}-{word}" if slug else word[:max_chars]
        if len(longer) > max_chars:
            break
        slug = longer
    return slug
