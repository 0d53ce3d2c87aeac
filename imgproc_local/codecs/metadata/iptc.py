"""IPTC-IIM datasets and the Photoshop resource they travel in.

A damaged run of datasets is read up to the damage; nothing here raises.
Source: IPTC-NAA Information Interchange Model 4.2; Adobe Photoshop file formats, image resource blocks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator

from imgproc_local.codecs.metadata.bounds import (
    MAX_IPTC_DATASETS,
    MAX_IPTC_LENGTH_BYTES,
    MAX_PHOTOSHOP_RESOURCES,
)

OBJECT_NAME, KEYWORDS, INSTRUCTIONS = 5, 25, 40
BYLINE, BYLINE_TITLE, CITY, SUBLOCATION, PROVINCE = 80, 85, 90, 92, 95
COUNTRY_CODE, COUNTRY, HEADLINE, CREDIT, SOURCE = 100, 101, 105, 110, 115
COPYRIGHT, CAPTION, CAPTION_WRITER = 116, 120, 122

_UTF8_MARK = b"\x1b%G"
_RESOURCE = 0x0404
_SIGNATURES = (b"8BIM", b"MeSa", b"AgHg", b"PHUT")
_MAX_SHORT_BYTES = 0x7FFF


def from_photoshop(resources: bytes) -> bytes | None:
    """The datasets in a run of Photoshop image resources, None if there are none.

    Only the first `MAX_PHOTOSHOP_RESOURCES` are read.
    """
    at, found = 0, []
    for _ in range(MAX_PHOTOSHOP_RESOURCES):
        if at + 12 > len(resources) or resources[at : at + 4] not in _SIGNATURES:
            break
        (number,) = struct.unpack(">H", resources[at + 4 : at + 6])
        name_bytes = resources[at + 6] + 1
        at += 6 + name_bytes + name_bytes % 2
        if at + 4 > len(resources):
            break
        (size,) = struct.unpack(">I", resources[at : at + 4])
        if number == _RESOURCE:
            found.append(resources[at + 4 : at + 4 + size])
        at += 4 + size
        # some writers omit the padding byte
        if size % 2 and resources[at : at + 4] not in _SIGNATURES:
            at += 1
    return b"".join(found) or None


def to_photoshop(datasets: bytes) -> bytes:
    """The image resource that holds these datasets."""
    return b"8BIM" + struct.pack(">HHI", _RESOURCE, 0, len(datasets)) + datasets + b"\0" * (len(datasets) % 2)


def read(block: bytes | None) -> dict[int, list[str]]:
    """The texts of record 2 by dataset number.

    They are decoded as UTF-8 or, where that fails, as Windows-1252, whatever dataset 1:90 declares.
    """
    found: dict[int, list[str]] = {}
    for record, number, value, _ in _datasets(block or b""):
        text = _decode(value) if record == 2 else ""
        if text:
            found.setdefault(number, []).append(text)
    return found


def cut(block: bytes | None, numbers: Collection[int], clean: Callable[[str], str] | None = None) -> bytes | None:
    """The run with only these datasets of record 2, and those that give their encoding and version.

    A text that `clean` does not change is copied byte for byte; one that it empties is removed. None if none is left.
    """
    head: list[bytes] = []
    out: list[bytes] = []
    for record, number, value, whole in _datasets(block or b""):
        if (record, number, value) == (1, 90, _UTF8_MARK) or (record, number, len(value)) == (2, 0, 2):
            head.append(whole)
        elif record == 2 and number in numbers and (text := _decode(value)):
            cleaned = clean(text) if clean else text
            if cleaned == text:
                out.append(whole)
            elif cleaned:
                raw = _encode(cleaned, value)
                out.append(struct.pack(">BBBH", 0x1C, 2, number, len(raw)) + raw)
    return b"".join([*head, *out]) if out else None


def _datasets(block: bytes) -> Iterator[tuple[int, int, bytes, bytes]]:
    """The record, number and value of each of the first `MAX_IPTC_DATASETS`, and the dataset as stored."""
    at = 0
    for _ in range(MAX_IPTC_DATASETS):
        start = at
        if at + 5 > len(block) or block[at] != 0x1C:
            return
        record, number, size = struct.unpack(">BBH", block[at + 1 : at + 5])
        at += 5
        if size & 0x8000:
            digits = size & 0x7FFF
            if digits > MAX_IPTC_LENGTH_BYTES:
                return
            size = int.from_bytes(block[at : at + digits], "big")
            at += digits
        if at + size > len(block):
            return
        yield record, number, block[at : at + size], block[start : at + size]
        at += size


def _encode(text: str, like: bytes) -> bytes:
    """A text in the encoding of the value that it replaces, cut to the length of a standard dataset."""
    try:
        like.decode("utf-8")
        return text.encode("utf-8", "ignore")[:_MAX_SHORT_BYTES]
    except UnicodeDecodeError:
        return text.encode("cp1252", "replace")[:_MAX_SHORT_BYTES]


def _decode(value: bytes) -> str:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        text = value.decode("cp1252", "replace")
    return text.replace("\0", "").strip()
