"""IPTC datasets that are written."""

from __future__ import annotations

from imgproc_local.codecs.metadata import iptc


def test_a_caption_that_is_too_long_to_be_stored_is_cut_between_two_characters() -> None:
    text = "ü" * 20_000
    (stored,) = iptc.read(iptc.write([(iptc.CAPTION, text)]))[iptc.CAPTION]
    assert text.startswith(stored)
    assert len(stored.encode()) in (0x7FFE, 0x7FFF)
