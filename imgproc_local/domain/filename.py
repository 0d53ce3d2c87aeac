"""File names that are received with uploads, and file names for downloads.

Invariant: a name for a download can be created on every operating system, and can't lead out of the folder that the
user chose. It has no path separator, no drive or stream (`name.png:stream`), no character that is invisible (except
`JOINERS`) or reverses the order of letters, is not the name of a device (`CON.png`), and does not end in a dot or a
space. This also holds for its ASCII version, in which characters are replaced by their compatibility equivalents first
(`／` becomes `/`).

Source: "Naming Files, Paths, and Namespaces" in Microsoft's documentation of Windows; RFC 6266, section 4.3; RFC 8187,
section 3.2.
"""

from __future__ import annotations

import re
import unicodedata
from email.errors import MessageError
from email.header import decode_header, make_header
from urllib.parse import unquote

MAX_BYTES = 255
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


def original_name(received: str, default: str) -> str:
    """The file name that is stored for an upload: the last path segment of `received`, without invisible characters.

    It is `default` if nothing but dots remains. It has at most `MAX_BYTES` bytes in UTF-8; the stem is truncated, not
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


def is_device_name(name: str) -> bool:
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
    if is_device_name(stem + ending):
        stem = f"_{stem}"
    return _cut(stem, ending)


def _cut(stem: str, ending: str) -> str:
    """`stem` and `ending`, truncated to at most `MAX_BYTES` bytes of UTF-8; `stem` is truncated first."""
    room = max(0, MAX_BYTES - len(ending.encode()))
    name = stem.encode()[:room].decode("utf-8", "ignore") + ending
    return name.encode()[:MAX_BYTES].decode("utf-8", "ignore")
