"""IPTC datasets that are written anew because a part of their text was removed."""

from __future__ import annotations

import struct

from imgproc_local.codecs.metadata import iptc

CAPTION = 120


def test_a_caption_that_is_too_long_to_be_stored_is_cut_between_two_characters() -> None:
    text = "ü" * 20_000
    value = f"{text} secret".encode()
    extended = struct.pack(">BBBHI", 0x1C, 2, CAPTION, 0x8004, len(value)) + value

    cleaned = iptc.select(extended, {CAPTION: lambda found: found.removesuffix(" secret")})

    (stored,) = iptc.read(cleaned)[CAPTION]
    assert text.startswith(stored)
    assert len(stored.encode()) in (0x7FFE, 0x7FFF)
