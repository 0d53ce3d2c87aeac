"""IPTC-IIM datasets and the Photoshop resource they travel in.

A damaged run of datasets is read up to the damage; nothing here raises.
Source: IPTC-NAA Information Interchange Model 4.2; Adobe Photoshop file formats, image resource blocks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from imgproc_local.codecs.metadata import xmp
from imgproc_local.codecs.metadata.blocks import text_of
from imgproc_local.codecs.metadata.bounds import MAX_IPTC_DATASETS, MAX_IPTC_LENGTH_BYTES, MAX_PHOTOSHOP_RESOURCES

OBJECT_NAME, KEYWORDS, INSTRUCTIONS = 5, 25, 40
BYLINE, BYLINE_TITLE, CITY, SUBLOCATION, PROVINCE = 80, 85, 90, 92, 95
COUNTRY_CODE, COUNTRY, HEADLINE, CREDIT, SOURCE = 100, 101, 105, 110, 115
COPYRIGHT, CAPTION, CAPTION_WRITER = 116, 120, 122
DATASETS = {
    OBJECT_NAME: xmp.DC + "title",
    CAPTION: xmp.DC + "description",
    COPYRIGHT: xmp.DC + "rights",
    BYLINE: xmp.DC + "creator",
    KEYWORDS: xmp.DC + "subject",
    HEADLINE: xmp.PHOTOSHOP + "Headline",
    CREDIT: xmp.PHOTOSHOP + "Credit",
    SOURCE: xmp.PHOTOSHOP + "Source",
    INSTRUCTIONS: xmp.PHOTOSHOP + "Instructions",
    BYLINE_TITLE: xmp.PHOTOSHOP + "AuthorsPosition",
    CAPTION_WRITER: xmp.PHOTOSHOP + "CaptionWriter",
    CITY: xmp.PHOTOSHOP + "City",
    PROVINCE: xmp.PHOTOSHOP + "State",
    COUNTRY: xmp.PHOTOSHOP + "Country",
    COUNTRY_CODE: xmp.CORE + "CountryCode",
    SUBLOCATION: xmp.CORE + "Location",
}
"""The datasets of record 2 that are preserved, and the XMP properties of the same meaning.

Source: IPTC Photo Metadata Standard, mapping guidelines.
"""

_UTF8_MARK = b"\x1b%G"
"""The value of dataset 1:90 for texts in UTF-8. Source: ISO 2022."""
IPTC_RESOURCE = 0x0404
"""The identifier of the Photoshop image resource that holds IPTC datasets."""
_SIGNATURES = (b"8BIM", b"MeSa", b"AgHg", b"PHUT")
_MAX_VALUE_BYTES = 0x7FFF
"""The longest value of a standard dataset. Extended datasets, whose length has more bytes, are read but not written."""


def from_photoshop(resources: bytes) -> bytes | None:
    """The datasets in a run of Photoshop image resources, None if there are none.

    Only the first `MAX_PHOTOSHOP_RESOURCES` are read.
    """
    found = [resources[start:end] for number, start, end in image_resources(resources) if number == IPTC_RESOURCE]
    return b"".join(found) or None


def image_resources(resources: bytes) -> Iterator[tuple[int, int, int]]:
    """The identifier of each Photoshop image resource in a run, and the start and end of its data.

    The end is not checked: that of the last resource may lie behind the run.
    """
    at = 0
    for _ in range(MAX_PHOTOSHOP_RESOURCES):
        if at + 12 > len(resources) or resources[at : at + 4] not in _SIGNATURES:
            return
        (number,) = struct.unpack(">H", resources[at + 4 : at + 6])
        name_bytes = resources[at + 6] + 1
        at += 6 + name_bytes + name_bytes % 2
        if at + 4 > len(resources):
            return
        (size,) = struct.unpack(">I", resources[at : at + 4])
        yield number, at + 4, at + 4 + size
        at += 4 + size
        # some writers omit the padding byte
        if size % 2 and resources[at : at + 4] not in _SIGNATURES:
            at += 1


def to_photoshop(datasets: bytes) -> bytes:
    """The image resource that holds these datasets."""
    return b"8BIM" + struct.pack(">HHI", IPTC_RESOURCE, 0, len(datasets)) + datasets + b"\0" * (len(datasets) % 2)


def read(block: bytes | None) -> dict[int, list[str]]:
    """The texts of record 2 by dataset number.

    They are decoded as UTF-8 or, where that fails, as Windows-1252, whatever dataset 1:90 declares.
    """
    found: dict[int, list[str]] = {}
    for record, number, value, _ in _datasets(block or b""):
        text = text_of(value) if record == 2 else ""
        if text:
            found.setdefault(number, []).append(text)
    return found


def stored_numbers(block: bytes | None) -> frozenset[tuple[int, int]]:
    """The record and number of every dataset that is not empty."""
    return frozenset((record, number) for record, number, value, _ in _datasets(block or b"") if value.strip(b"\0 "))


def is_complete(block: bytes | None) -> bool:
    """Whether all of the block is read: nothing but padding follows the last dataset within the bound."""
    end = sum(len(whole) for _, _, _, whole in _datasets(block or b""))
    return not (block or b"")[end:].strip(b"\0 ")


def write(texts: Sequence[tuple[int, str]]) -> bytes | None:
    """A block of these texts of record 2 by dataset number, in UTF-8; None if there are none.

    A text is cut to `_MAX_VALUE_BYTES`, not inside a character.
    """
    head = struct.pack(">BBBH", 0x1C, 1, 90, len(_UTF8_MARK)) + _UTF8_MARK + struct.pack(">BBBHH", 0x1C, 2, 0, 2, 4)
    values = [(number, _cut(text.encode("utf-8", "ignore"))) for number, text in texts]
    datasets = [struct.pack(">BBBH", 0x1C, 2, number, len(raw)) + raw for number, raw in values]
    return b"".join([head, *datasets]) if datasets else None


def _cut(raw: bytes) -> bytes:
    return raw[:_MAX_VALUE_BYTES].decode("utf-8", "ignore").encode()


def _datasets(block: bytes) -> Iterator[tuple[int, int, bytes, bytes]]:
    """The datasets of the block, as (record, number, value, stored bytes of the whole dataset).

    Only the first `MAX_IPTC_DATASETS` are read.
    """
    at = 0
    for _ in range(MAX_IPTC_DATASETS):
        start = at
        if at + 5 > len(block) or block[at] != 0x1C:
            return
        record, number, size = struct.unpack(">BBH", block[at + 1 : at + 5])
        at += 5
        if size & 0x8000:  # an extended dataset: the other bits are the number of bytes that hold the length
            length_bytes = size & 0x7FFF
            if length_bytes > MAX_IPTC_LENGTH_BYTES:
                return
            size = int.from_bytes(block[at : at + length_bytes], "big")
            at += length_bytes
        if at + size > len(block):
            return
        yield record, number, block[at : at + size], block[start : at + size]
        at += size
