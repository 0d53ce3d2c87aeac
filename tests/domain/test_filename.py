"""Names of uploads and downloads, over all of Unicode and the rules of every operating system."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from imgproc_local.domain.filename import _MAX_BYTES, ascii_download_name, download_name, original_name

RESERVED = set('<>:"/\\|?*')
DEVICES = {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"} | {
    f"{port}{n}" for port in ("COM", "LPT") for n in "0123456789"
}
ENDING = "-optimized.png"


def problem(name: str) -> str | None:
    """Why `name` is not a safe file name; None if it is."""
    mapped = unicodedata.normalize("NFKC", name)
    if RESERVED & set(name) or RESERVED & set(mapped):
        return "reserved character"
    if any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in name):
        return "control character"
    if any(unicodedata.category(char) == "Cf" and char not in "\u200c\u200d" for char in name):
        return "format character"
    if mapped.partition(".")[0].strip().upper() in DEVICES:
        return "device"
    if name != name.strip() or name.endswith("."):
        return "space or dot at an end"
    if len(name.encode()) > _MAX_BYTES:
        return "too long"
    return None


CHUNK = 60
"""Characters per name: four bytes each leave room for the ending."""


def check(stem: str, ending: str) -> None:
    name, plain = download_name(stem, ending), ascii_download_name(stem, ending)
    assert problem(name) is None, (stem, name)
    assert problem(plain) is None, (stem, plain)
    assert plain.isascii(), stem
    assert plain.isprintable(), stem


def test_every_character_gives_a_safe_name() -> None:
    for begin in range(0, sys.maxunicode + 1, CHUNK):
        check("a" + "".join(map(chr, range(begin, min(begin + CHUNK, sys.maxunicode + 1)))) + "b", ".png")


def test_every_special_character_at_every_place_gives_a_safe_name() -> None:
    def is_special(char: str) -> bool:
        mapped = unicodedata.normalize("NFKC", char)
        return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs") or (
            not mapped.isalnum() and any(part.isascii() for part in mapped)
        )

    special = [char for char in map(chr, range(sys.maxunicode + 1)) if is_special(char)]
    assert 2000 < len(special) < 5000
    for char in special:
        for stem, ending in ((char, ENDING), ("a", f".png{char}"), (f"con{char}", ".png"), (f"{char}nul", ".png")):
            check(stem, ending)


@pytest.mark.parametrize(
    ("uploaded", "plain"),
    [
        ("‥／ﾊ＂", "image-optimized.png"),
        ("name.png:stream", "name.png_stream-optimized.png"),
        ("con", "con-optimized.png"),
        ("COM¹.a", "_COM1.a-optimized.png"),
        ("\u200eab\u200f\u2066c", "abc-optimized.png"),
        ("写真", "image-optimized.png"),
        ("café", "cafe-optimized.png"),
    ],
)
def test_ascii_names_of_downloads(uploaded: str, plain: str) -> None:
    assert ascii_download_name(uploaded, ENDING) == plain


def test_scripts_and_their_joiners_are_preserved_and_a_long_name_is_cut_before_its_ending() -> None:
    for stem in ("Żółw 写真", "می\u200cخواهم", "👩\u200d🎨"):
        assert download_name(stem, ".png") == f"{stem}.png"
    assert download_name("é" * 300, ENDING) == "é" * 120 + ENDING
    assert len(download_name("a", "." + "é" * 300).encode()) <= _MAX_BYTES


def test_an_upload_loses_invisible_characters_and_without_a_name_gets_the_default() -> None:
    for received in ("a\u202egpj.exe", "a\u200egpj.exe", "\ufeffagpj.exe", "agp\u00adj.exe"):
        assert original_name(received, "image.png") == "agpj.exe"
    for received in ("", "..", "\u200b", "C:\\Users\\", " . "):
        assert original_name(received, "image.png") == "image.png"
