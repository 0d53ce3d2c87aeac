"""IPTC-IIM datasets and the Photoshop resource they travel in.

A damaged run of datasets is read up to the damage; nothing here raises.
Source: IPTC-NAA Information Interchange Model 4.2; Adobe Photoshop file formats, image resource blocks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from msgspec import Struct

from imgproc_local.codecs.metadata.blocks import text_of
from imgproc_local.domain.privacy import Removed

_UTF8_MARK = b"\x1b%G"
"""The value of dataset 1:90 for texts in UTF-8. Source: ISO 2022."""
_IPTC_RESOURCE = 0x0404
"""The identifier of the Photoshop image resource that holds IPTC datasets."""
_RESOURCES = {0x0409: Removed.THUMBNAIL, 0x040C: Removed.THUMBNAIL, _IPTC_RESOURCE: None, 0x03ED: None, 0x0425: None}
"""The kinds of Photoshop's image resources: its thumbnails, IPTC, resolution and a checksum. All others are its own."""
DATE_CREATED, TIME_CREATED = 55, 60
"""The datasets of record 2 that say when the picture was taken: `CCYYMMDD` and `HHMMSS±HHMM`."""
_SIGNATURES = (b"8BIM", b"MeSa", b"AgHg", b"PHUT")
_MAX_VALUE_BYTES = 0x7FFF
"""The longest value of a standard dataset. Extended datasets, whose length has more bytes, are read but not written."""


class _Datasets(Struct, frozen=True):
    """The texts of record 2 by dataset number, and the record and number of every dataset that is not empty.

    `is_complete` is False if more than padding follows the last dataset that was read.
    """

    texts: dict[int, list[str]]
    stored: frozenset[tuple[int, int]]
    is_complete: bool


def from_photoshop(resources: bytes) -> bytes | None:
    """The datasets in a run of Photoshop image resources, None if there are none."""
    found = [resources[start:end] for number, start, end in _image_resources(resources) if number == _IPTC_RESOURCE]
    return b"".join(found) or None


def _image_resources(resources: bytes) -> Iterator[tuple[int, int, int]]:
    """The identifier of each Photoshop image resource in a run, and the start and end of its data.

    The end is not checked: that of the last resource may lie behind the run.
    """
    at = 0
    while at + 12 <= len(resources) and resources[at : at + 4] in _SIGNATURES:
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


def kinds_of_resources(resources: bytes) -> Iterator[Removed | None]:
    """The kind of private data in each Photoshop image resource in a run; None for those that hold none."""
    for number, _, _ in _image_resources(resources):
        yield _RESOURCES.get(number, Removed.SOFTWARE)


def to_photoshop(datasets: bytes) -> bytes:
    """The image resource that holds these datasets."""
    return b"8BIM" + struct.pack(">HHI", _IPTC_RESOURCE, 0, len(datasets)) + datasets + b"\0" * (len(datasets) % 2)


def read(block: bytes | None) -> _Datasets:
    """The datasets of a block.

    Texts are decoded as UTF-8 or, where that fails, as Windows-1252, whatever dataset 1:90 declares.
    """
    block, at = block or b"", 0
    texts: dict[int, list[str]] = {}
    stored = set()
    while at + 5 <= len(block) and block[at] == 0x1C:
        record, number, size = struct.unpack_from(">BBH", block, at + 1)
        start = at + 5
        if size & 0x8000:  # an extended dataset: the other bits are the number of bytes that hold the length
            length_bytes = size & 0x7FFF
            size = int.from_bytes(block[start : start + length_bytes], "big")
            start += length_bytes
            if length_bytes > 4:  # IIM 4.2, 1.5(c): enough for every size below 4 GB
                break
        if start + size > len(block):
            break
        at = start + size
        value = block[start:at]
        if value.strip(b"\0 "):
            stored.add((record, number))
        if record == 2 and (text := text_of(value)):
            texts.setdefault(number, []).append(text)
    return _Datasets(texts, frozenset(stored), is_complete=not block[at:].strip(b"\0 "))


def write(texts: Sequence[tuple[int, str]]) -> bytes | None:
    """A block of these texts of record 2 by dataset number, in UTF-8; None if there are none.

    A text is cut to `_MAX_VALUE_BYTES`, not inside a character.
    """
    head = struct.pack(">BBBH", 0x1C, 1, 90, len(_UTF8_MARK)) + _UTF8_MARK + struct.pack(">BBBHH", 0x1C, 2, 0, 2, 4)
    datasets = []
    for number, text in texts:
        raw = text.encode("utf-8", "ignore")[:_MAX_VALUE_BYTES].decode("utf-8", "ignore").encode()
        datasets.append(struct.pack(">BBBH", 0x1C, 2, number, len(raw)) + raw)
    return b"".join([head, *datasets]) if datasets else None
