"""Decides which metadata of a picture is published, that is, written into results.

Preserved: who made it and whose it is (copyright, creator, credit, usage terms, licence), its words (alt text, extended
description, title, headline, caption, keywords, persons, event), place names as far as `keep_location` allows (by
default down to the city), how it was made (DigitalSourceType), a panorama's projection, colour profiles other than
sRGB (as `icc.rewritten`). Removed: GPS, serial numbers, e-mail addresses and personal numbers with their sentences,
thumbnails, maker notes, dates, software and its history, identifiers, content credentials (their signature would no
longer hold), and texts that hold data instead of words. What is preserved is chosen by name, so an unknown field is
removed; each preserved text passes `clean_text`.

A block that can't be parsed counts as absent; nothing here raises because of one.

Private data is removed even if the result is not smaller than the original. To keep such results rare, `clean_file`
gives up preserved fields, the least important first, until its copy is smaller.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from mmap import mmap
from xml.etree import ElementTree as ET

from msgspec import Struct, structs

from imgproc_local.codecs.metadata import exif, iptc, xmp, xmp_fields
from imgproc_local.codecs.metadata.blocks import Blocks, TextBlock
from imgproc_local.codecs.metadata.bounds import (
    MAX_BLOCK_BYTES,
    MAX_COMPARED_CHARACTERS,
    MAX_MERGED_VALUES,
    MAX_PUBLISHED_XMP_BYTES,
)
from imgproc_local.codecs.metadata.equivalents import EXIF_FIELDS, IPTC_DATASETS, TEXT_NAMES
from imgproc_local.codecs.metadata.icc import kept_profile
from imgproc_local.codecs.metadata.removed import kinds_in
from imgproc_local.codecs.metadata.text_cleaner import TextCleaner
from imgproc_local.codecs.metadata.xmp import Packet
from imgproc_local.domain.alt_text import is_camera_default, reads_as_a_caption
from imgproc_local.domain.image import EmbeddedText, Format, KeepLocation
from imgproc_local.domain.privacy import Removed

_ARRAYS = {xmp.DC + "creator": "Seq", xmp.DC + "subject": "Bag"}
_LANGUAGE_ALTERNATIVES = (xmp.DC + "title", xmp.DC + "description", xmp.DC + "rights", xmp.RIGHTS + "UsageTerms")
_MAX_JPEG_XMP_BYTES, _MAX_JPEG_EXIF_BYTES = 65_502, 65_527
"""What one segment may hold after the bytes that name its content. Source: XMP part 3, 1.1.3; CIPA DC-008, 4.7.2."""

_MAX_COMPARISONS = 16
"""At most at this many offsets of a text another one is compared with it, character by character."""


class Published(Struct, frozen=True):
    """Those metadata of a file that may be published, after cleaning, and the kinds of what was removed.

    `exif` holds the fields of IFD0 by tag, `xmp` the properties by name, `stored_xmp` the packet before it was cleaned.
    `removed_from_texts` are those of the `removed` kinds that were found in texts of published fields, and UNREADABLE
    if texts or properties were left out because they exceed the bounds.
    """

    exif: dict[int, bytes]
    xmp: xmp.Properties
    iptc: bytes | None
    icc: bytes | None
    texts: tuple[TextBlock, ...]
    removed: frozenset[Removed]
    removed_from_texts: frozenset[Removed]
    stored_xmp: Packet


def publishable(blocks: Blocks, keep_location: KeepLocation, *, gain_map: bool = False) -> Published:
    """The metadata that may be published; with `gain_map` also the properties that describe one."""
    clean = TextCleaner()
    fields = {}
    for tag, value in exif.read_ifd(blocks.exif or b"").items():
        if tag in EXIF_FIELDS and isinstance(value, bytes):
            raw = exif.with_clean_text(tag, value, clean.of(EXIF_FIELDS[tag]))
            if raw and not (tag == exif.IMAGE_DESCRIPTION and is_camera_default(exif.text(raw))):
                fields[tag] = raw
    packet = xmp.parse(blocks.xmp, blocks.more_xmp)
    properties = xmp_fields.published(packet.properties, clean.of, keep_location, gain_map=gain_map)
    if not properties.is_complete:
        clean.removed.add(Removed.UNREADABLE)
    datasets = {
        number: clean.of(name)
        for number, name in IPTC_DATASETS.items()
        if xmp_fields.is_allowed_place(name, keep_location)
    }
    published_datasets, texts = iptc.select(blocks.iptc, datasets), _clean_texts(blocks.texts, clean)
    return Published(
        fields,
        {element.tag: element for element in properties.elements},
        published_datasets,
        kept_profile(blocks.icc),
        texts,
        frozenset(clean.removed | clean.dropped) | kinds_in(blocks, packet, keep_location),
        frozenset(clean.removed),
        packet,
    )


def blocks_for(
    published: Published,
    source: Format,
    target: Format,
    *,
    orientation: int = 1,
    gain_map_bytes: int | None = None,
    style: xmp.PacketStyle = xmp.PacketStyle.PLAIN,
    below: int = xmp_fields.RANKS,
) -> Blocks:
    """The blocks that an output of format `target` carries.

    Within a format each block is preserved as such. Another format gets one XMP packet into which IPTC, EXIF and texts
    are merged, and EXIF's copyright, artist and caption.
    `orientation` is the EXIF orientation of the stored pixels, `gain_map_bytes` the length of the gain map after them.
    Fields whose rank (`xmp_fields.rank`) is not below `below` are given up for size.
    """

    def remains(name: str) -> bool:
        rank = xmp_fields.rank(name)
        return rank is not None and rank < below

    tags = EXIF_FIELDS if source is target else {tag: EXIF_FIELDS[tag] for tag in EXIF_FIELDS if tag < exif.XP_TITLE}
    fields = {tag: raw for tag, raw in published.exif.items() if tag in tags and remains(tags[tag])}
    xmp_bytes = _MAX_JPEG_XMP_BYTES if target is Format.JPEG else MAX_PUBLISHED_XMP_BYTES
    exif_bytes = _MAX_JPEG_EXIF_BYTES if target is Format.JPEG else MAX_BLOCK_BYTES
    properties, datasets, texts = published.xmp, published.iptc, published.texts
    if source is not target:
        properties, datasets, texts = _merged(published), None, ()
    elif below < xmp_fields.RANKS:
        datasets = iptc.select(datasets, {number: str for number, name in IPTC_DATASETS.items() if remains(name)})
        texts = tuple(text for text in texts if remains(TEXT_NAMES[text.keyword]))
    packet = xmp.write(xmp_fields.ordered(properties, gain_map_bytes=gain_map_bytes, below=below), xmp_bytes, style)
    return Blocks(exif.write(fields, orientation, exif_bytes), packet, datasets, published.icc, texts)


def clean_file(
    data: bytes | mmap,
    blocks: Blocks,
    published: Published,
    file_format: Format,
    write: Callable[[Blocks, bool], bytes],
    *,
    orientation: int = 1,
    gain_map_bytes: int | None = None,
) -> bytes:
    """The file with the same picture data and only the published metadata; smaller, if possible, where data is removed.

    `write` returns the file with the given blocks; its second argument asks for their shortest form. If the usual form
    is not smaller and something must be removed, XMP is written shorter. If that is not smaller either, published
    fields are given up until it is, in all blocks at once, the highest `xmp_fields.rank` first: places and persons,
    then caption and title, licences, alt text, and at last the creator and the copyright. That happens only where
    blocks were stored in ways that can't be written again: fields that share their bytes, a text compressed together
    with much else. If nothing helps, the usual form is returned.
    """

    def blocks_of(style: xmp.PacketStyle, below: int) -> Blocks:
        return blocks_for(
            published,
            file_format,
            file_format,
            orientation=orientation,
            gain_map_bytes=gain_map_bytes,
            style=style,
            below=below,
        )

    preserved = blocks_of(xmp.PacketStyle.PLAIN, xmp_fields.RANKS)
    clean = write(preserved, False)
    if len(clean) < len(data):
        return clean
    if not _has_more(blocks, published, preserved) and not _has_bytes_outside(data, blocks, write):
        return clean
    for style in (xmp.PacketStyle.BARE, xmp.PacketStyle.SHORT):
        shorter = write(blocks_of(style, xmp_fields.RANKS), True)
        if len(shorter) < len(data):
            return shorter
    # fewer fields never make a longer file, so the most that may be preserved are found by bisection
    fitting = bisect_left(
        range(xmp_fields.RANKS),
        len(data),
        key=lambda below: len(write(blocks_of(xmp.PacketStyle.SHORT, below), True)),
    )
    return write(blocks_of(xmp.PacketStyle.SHORT, fitting - 1), True) if fitting > 0 else clean


def _has_more(blocks: Blocks, published: Published, preserved: Blocks) -> bool:
    """Whether a file's blocks hold more than may remain."""
    fields, properties = exif.read_ifd(blocks.exif or b""), published.stored_xmp.properties
    if set(fields) - {*EXIF_FIELDS, exif.ORIENTATION} or any(fields[tag] != raw for tag, raw in published.exif.items()):
        return True
    # other IFDs, and bytes to which no field points
    if blocks.exif is not None and len(blocks.exif) > len(preserved.exif or b""):
        return True
    if xmp_fields.content(properties.values()) != xmp_fields.content(published.xmp.values()):
        return True
    if not properties and blocks.xmp is not None:
        return True
    return published.texts != blocks.texts or published.iptc != blocks.iptc


def _has_bytes_outside(data: bytes | mmap, blocks: Blocks, write: Callable[[Blocks, bool], bytes]) -> bool:
    """Whether a file holds bytes beside its picture and its blocks, so that writing just these makes it shorter.

    Where the file has its XMP compressed, these are written in their shortest form.
    """
    # searched in a copy: in a mapped file the search takes quadratic time where a long packet repeats itself
    compressed = blocks.xmp is not None and bytes(data).find(blocks.xmp) < 0
    return len(write(blocks, compressed)) < len(data)


def _clean_texts(texts: Iterable[TextBlock], clean: TextCleaner) -> tuple[TextBlock, ...]:
    """The PNG texts and GIF comments that a person wrote, cleaned. Changed ones have no `raw` bytes any more."""
    found = []
    for text in texts:
        words = clean.of(TEXT_NAMES[text.keyword])(text.text)
        is_comment = text.keyword == "comment"
        if words and not is_camera_default(words) and (not is_comment or reads_as_a_caption(words)):
            found.append(text if words == text.text else structs.replace(text, text=words, raw=None))
        elif words and is_comment:
            clean.dropped.add(Removed.COMMENT)
    return tuple(found)


def texts_by_property(texts: Iterable[TextBlock]) -> dict[str, list[EmbeddedText]]:
    """PNG texts and GIF comments by the XMP property of the same meaning."""
    found: dict[str, list[EmbeddedText]] = {}
    for text in texts:
        found.setdefault(TEXT_NAMES[text.keyword], []).append(EmbeddedText(text.text, text.language))
    return found


def unique(texts: Iterable[EmbeddedText]) -> tuple[EmbeddedText, ...]:
    """Each text once, in the order of first occurrence, without blank ones and cameras' default captions."""
    found: dict[str, EmbeddedText] = {}
    for entry in texts:
        key = " ".join(entry.text.split())
        if key and not is_camera_default(key):
            found.setdefault(key, EmbeddedText(entry.text.strip(), entry.language))
    return tuple(found.values())


def _merged(published: Published) -> xmp.Properties:
    """The XMP properties, missing ones filled from IPTC, then from texts, then from EXIF.

    Creators, rights and credits that only IPTC or a text names are added to those of XMP, and so are the authors that
    Windows wrote into EXIF. EXIF's artist and copyright are not: the output has them in its EXIF.
    """
    found = dict(published.xmp)
    datasets, fields, texts = iptc.read(published.iptc), published.exif, texts_by_property(published.texts)
    fallback = {
        xmp.DC + "rights": [exif.copyright_text(fields.get(exif.COPYRIGHT))],
        xmp.DC + "creator": [exif.text(fields.get(exif.ARTIST)) or exif.wide_text(fields.get(exif.XP_AUTHOR))],
        xmp.DC + "description": [
            exif.text(fields.get(exif.IMAGE_DESCRIPTION)) or exif.wide_text(fields.get(exif.XP_COMMENT))
        ],
        xmp.DC + "title": [exif.wide_text(fields.get(exif.XP_TITLE))],
        xmp.DC + "subject": exif.wide_text(fields.get(exif.XP_KEYWORDS)).split(";"),
        xmp.PHOTOSHOP + "Headline": [exif.wide_text(fields.get(exif.XP_SUBJECT))],
    }
    for dataset, name in [*IPTC_DATASETS.items(), (None, xmp.RIGHTS + "UsageTerms")]:
        of_iptc = [EmbeddedText(text) for text in (datasets.get(dataset, []) if dataset else [])]
        values = unique(of_iptc or texts.get(name) or (EmbeddedText(text) for text in fallback.get(name, [])))
        if values and not xmp.texts(found, name):
            found[name] = _property(name, values)
    author = exif.wide_text(fields.get(exif.XP_AUTHOR))
    elsewhere = {
        xmp.DC + "rights": datasets.get(iptc.COPYRIGHT, []),
        xmp.DC + "creator": [*datasets.get(iptc.BYLINE, []), *author.split(";")],
        xmp.PHOTOSHOP + "Credit": datasets.get(iptc.CREDIT, []),
    }
    for name, others in elsewhere.items():
        stripped = [text.strip() for text in [*others, *(entry.text for entry in texts.get(name, []))]]
        present = xmp.texts(found, name)
        if present and (missing := _missing(present, [text for text in stripped if text][:MAX_MERGED_VALUES])):
            found[name] = xmp.with_appended_texts(found[name], missing)
    return found


def _missing(texts: Iterable[str], others: Iterable[str]) -> list[str]:
    """Those of the `others` that neither one of the texts nor an earlier one of the others contains.

    On each side only the first `MAX_COMPARED_CHARACTERS` are compared: the rest of the texts is not searched, and later
    others are not returned.
    """
    present, missing = [], []
    characters_left = MAX_COMPARED_CHARACTERS
    for text in texts:
        present.append(_comparable(text[: max(0, characters_left)]))
        characters_left -= len(text)
    characters_left = MAX_COMPARED_CHARACTERS
    for other in others:
        characters_left -= len(other)
        if characters_left < 0:
            break
        comparable = _comparable(other)
        longest = max(comparable.split("?"), key=len)
        if not any(_holds(text, comparable, longest) for text in present):
            missing.append(other)
            present.append(comparable)
    return missing


def _comparable(text: str) -> str:
    return " ".join(text.replace("\ufffd", "?").split()).casefold()


def _holds(text: str, other: str, longest: str) -> bool:
    """Whether a text contains another, in which question marks stand for any letter.

    The other may come from IPTC, which cuts long texts and replaces letters that its encoding lacks. `longest` is the
    longest part of the other between question marks.
    """
    offset, at = other.index(longest), -1
    for _ in range(_MAX_COMPARISONS):
        at = text.find(longest, at + 1)
        if at < 0:
            return False
        part = text[at - offset : at - offset + len(other)] if at >= offset else ""
        if len(part) == len(other) and all(wanted in ("?", found) for wanted, found in zip(other, part, strict=True)):
            return True
    return False


def _property(name: str, values: Sequence[EmbeddedText]) -> ET.Element:
    if name in _ARRAYS:
        return xmp.array(name, _ARRAYS[name], [entry.text for entry in values])
    if name in _LANGUAGE_ALTERNATIVES:
        return xmp.language_alternative(name, values)
    return xmp.simple_property(name, values[0].text)
