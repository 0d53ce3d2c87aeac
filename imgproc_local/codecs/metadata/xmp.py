"""Parses and writes XMP packets.

Untrusted packets are safe to parse. A packet counts as empty if it is too long, is not well-formed XML, or has a
DOCTYPE, without which no entities can be expanded. Elements that exceed the bounds of depth and number are skipped.
Source: ISO 16684-1.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from enum import StrEnum
from string import ascii_lowercase
from typing import Any
from xml.etree import ElementTree as ET

from msgspec import Struct

from imgproc_local.codecs.metadata.bounds import MAX_XMP_BYTES, MAX_XMP_DEPTH, MAX_XMP_NODES
from imgproc_local.domain.image import EmbeddedText

RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
DC = "{http://purl.org/dc/elements/1.1/}"
PHOTOSHOP = "{http://ns.adobe.com/photoshop/1.0/}"
CORE = "{http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/}"
EXT = "{http://iptc.org/std/Iptc4xmpExt/2008-02-29/}"
RIGHTS = "{http://ns.adobe.com/xap/1.0/rights/}"
TIFF = "{http://ns.adobe.com/tiff/1.0/}"
PLUS = "{http://ns.useplus.org/ldf/xmp/1.0/}"
CC = "{http://creativecommons.org/ns#}"
PANORAMA = "{http://ns.google.com/photos/1.0/panorama/}"
CONTAINER = "{http://ns.google.com/photos/1.0/container/}"
CONTAINER_ITEM = "{http://ns.google.com/photos/1.0/container/item/}"
GAIN_MAP = "{http://ns.adobe.com/hdr-gain-map/1.0/}"
GAIN_MAP_NAMESPACES = (GAIN_MAP, CONTAINER, CONTAINER_ITEM)
IMGPROC = "{urn:x-imgproc-local:xmp:}"
"""The program's own namespace, which names no host."""
LANG = "{http://www.w3.org/XML/1998/namespace}lang"

_PREFIXES = {
    "rdf": RDF, "dc": DC, "photoshop": PHOTOSHOP, "Iptc4xmpCore": CORE, "Iptc4xmpExt": EXT, "xmpRights": RIGHTS,
    "tiff": TIFF, "plus": PLUS, "cc": CC, "GPano": PANORAMA, "Container": CONTAINER, "Item": CONTAINER_ITEM,
    "hdrgm": GAIN_MAP, "imgproc": IMGPROC,
}  # fmt: skip
_PREFIX_BY_NAMESPACE = {namespace: prefix for prefix, namespace in _PREFIXES.items()}

ALT_TEXT, EXTENDED_DESCRIPTION = CORE + "AltTextAccessibility", CORE + "ExtDescrAccessibility"
ALT_TEXT_SOURCE = IMGPROC + "AltTextSource"
"""Beside `ALT_TEXT`, by language: `text_mark` of each text that a vision model wrote. If a person edits the text in
another program, its mark no longer fits, so that it is known as a person's."""

_HEAD = '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>'
_TAIL = '<?xpacket end="w"?>'

_ENCODINGS = (
    (b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"), (b"<\0\0\0", "utf-32-le"), (b"\0\0\0<", "utf-32-be"),
    (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"),
)  # fmt: skip
"""The first bytes of packets that are not in UTF-8, with and without a byte order mark."""

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that are not allowed in XML but may occur in IPTC, EXIF and PNG texts."""

Element = ET.Element
Properties = dict[str, Element]


class Packet(Struct, frozen=True):
    """The top-level properties of a packet by qualified name; those written as attributes are elements here, too.

    `is_complete` is False where parts of the packet or its extension are missing: elements that exceed a bound, or all
    of one that is damaged.
    """

    properties: Properties
    is_complete: bool


def parse(packet: bytes | None, extended: bytes | None = None) -> Packet:
    """The properties of a packet and of its ExtendedXMP; the first of equal names."""
    found: Properties = {}
    trees = [_tree(each) for each in (packet, extended) if each]
    for root, _ in trees:
        for description in _descriptions(root):
            for name, value in description.attrib.items():
                if not name.startswith(RDF) and name != LANG:
                    found.setdefault(name, simple_property(name, value))
            for element in description:
                found.setdefault(element.tag, element)
    return Packet(found, all(is_complete for _, is_complete in trees))


def _descriptions(root: ET.Element | None) -> Iterator[ET.Element]:
    """The nodes in each RDF of a tree, but not those of RDF in the value of a property: they belong to that value."""
    unvisited = [] if root is None else [root]
    while unvisited:
        element = unvisited.pop()
        if element.tag == RDF + "RDF":
            yield from element
        else:
            unvisited += reversed(element)


class _BoundedBuilder(ET.TreeBuilder):
    """Builds a tree without the elements that exceed the bounds; `is_complete` is False if there are any."""

    def __init__(self) -> None:
        super().__init__()
        self.is_complete = True
        self._depth = self._nodes = self._skipped_depth = 0

    def start(self, tag: str, attributes: dict[str, str], /) -> Any:
        self._nodes += 1 + len(attributes)
        if self._skipped_depth or self._depth == MAX_XMP_DEPTH or self._nodes > MAX_XMP_NODES:
            self.is_complete = False
            self._skipped_depth += 1
            return None
        self._depth += 1
        return super().start(tag, attributes)

    def end(self, tag: str, /) -> Any:
        if self._skipped_depth:
            self._skipped_depth -= 1
            return None
        self._depth -= 1
        return super().end(tag)

    def data(self, text: str, /) -> None:
        if not self._skipped_depth:
            super().data(text)


def decoded(packet: bytes) -> str | None:
    """The text of a packet without an XML declaration; None if it is too long, has a DOCTYPE or can't be decoded."""
    if len(packet) > MAX_XMP_BYTES:
        return None
    encoding = next((name for start, name in _ENCODINGS if packet.startswith(start)), "utf-8")
    try:
        text = packet.decode(encoding).strip("\ufeff\0 \r\n\t")
    except UnicodeDecodeError:
        return None
    if "<!DOCTYPE" in text.upper():
        return None
    # the text is decoded already: an encoding named in the declaration no longer applies
    return text.partition("?>")[2] if text.startswith("<?xml") else text


def _tree(packet: bytes) -> tuple[ET.Element | None, bool]:
    """The root element, None if the packet can't be parsed, and whether the whole packet is in it."""
    text = decoded(packet)
    if text is None:
        return None, False
    builder = _BoundedBuilder()
    try:
        # without a DOCTYPE there are no entities to expand
        root = ET.XML(text, ET.XMLParser(target=builder))  # noqa: S314
    except (ET.ParseError, ValueError):
        return None, False
    return root, builder.is_complete


def _items(element: ET.Element | None) -> list[ET.Element]:
    """The entries of an Alt, Bag or Seq, or the element itself if it holds its value directly."""
    if element is None:
        return []
    for child in element:
        if child.tag in (RDF + "Alt", RDF + "Bag", RDF + "Seq"):
            return [item for item in child if item.tag == RDF + "li"]
    return [element]


def texts(properties: Properties, name: str) -> list[str]:
    """The values of a text property, which may be an array, without blank ones."""
    return [text for text in ((item.text or "").strip() for item in _items(properties.get(name))) if text]


def alternatives(properties: Properties, name: str) -> list[EmbeddedText]:
    """The texts of a language alternative, without an `x-default` that repeats one of the tagged texts.

    The language of any other `x-default` is unknown.
    """
    found: list[EmbeddedText] = []
    for item in _items(properties.get(name)):
        text, tag = (item.text or "").strip(), item.get(LANG)
        if text:
            found.append(EmbeddedText(text, None if tag in (None, "x-default", "x-repair") else tag))
    tagged = {entry.text for entry in found if entry.language}
    return [entry for entry in found if entry.language or entry.text not in tagged]


def text_mark(text: str) -> str:
    """What `ALT_TEXT_SOURCE` holds for `text`."""
    return f"vision {hashlib.sha256(text.strip().encode()).hexdigest()[:16]}"


def location_field(properties: Properties, structure: str, field: str) -> str | None:
    """The value of `field` in the first location with that field, in `structure`: LocationShown or LocationCreated."""
    for item in _items(properties.get(EXT + structure)):
        for part in item.iter():
            if part.tag == EXT + field:
                inner = [text for text in ((entry.text or "").strip() for entry in _items(part)) if text]
                if inner:
                    return inner[0]
            value = part.get(EXT + field, "").strip()
            if value:
                return value
    return None


def language_items(properties: Properties, name: str) -> list[tuple[str, str]]:
    """The entries of a text property as (`xml:lang`, text), without blank ones; untagged entries are `x-default`."""
    items = _items(properties.get(name))
    return [(item.get(LANG, "x-default"), item.text) for item in items if item.text and not item.text.isspace()]


def from_language_items(name: str, entries: Iterable[tuple[str, str]]) -> ET.Element:
    """A language alternative of entries as `language_items` returns them."""
    element = ET.Element(name)
    holder = ET.SubElement(element, RDF + "Alt")
    for tag, text in entries:
        ET.SubElement(holder, RDF + "li", {LANG: tag}).text = text
    return element


def language_alternative(name: str, found: Sequence[EmbeddedText]) -> ET.Element:
    """A language alternative: the first text as `x-default`, then each text with a language, tagged with `xml:lang`."""
    tagged = {entry.language: entry.text for entry in reversed(found) if entry.language}
    return from_language_items(name, [("x-default", found[0].text), *tagged.items()])


def array(name: str, kind: str, values: Iterable[str]) -> ET.Element:
    """A property that is a `Bag` or `Seq` of texts."""
    element = ET.Element(name)
    holder = ET.SubElement(element, RDF + kind)
    for value in values:
        ET.SubElement(holder, RDF + "li").text = value
    return element


def with_appended_texts(element: ET.Element, texts: Sequence[str]) -> ET.Element:
    """A copy of a property with texts added: to `dc:creator` as entries, to others in the `x-default` text."""
    items = _items(element)
    if element.tag == DC + "creator":
        return array(element.tag, "Seq", [*((item.text or "").strip() for item in items), *texts])
    copy = deepcopy(element)
    items = _items(copy)
    main = next((item for item in items if item.get(LANG) == "x-default"), items[0])
    main.text = "; ".join([(main.text or "").strip(), *texts])
    return copy


def simple_property(name: str, text: str) -> ET.Element:
    element = ET.Element(name)
    element.text = text
    return element


class PacketStyle(StrEnum):
    """How a packet is written. `PLAIN` is found by every program; the others are for files that must not grow.

    `BARE` lacks the wrapper around the RDF; `SHORT` also lacks `rdf:about` and has prefixes of one letter.
    """

    PLAIN = "plain"
    BARE = "bare"
    SHORT = "short"


def write(elements: Sequence[ET.Element], max_bytes: int, style: PacketStyle = PacketStyle.PLAIN) -> bytes | None:
    """A packet of these properties without padding; None if there are none. Simple properties are written as
    attributes.

    If it would be longer than `max_bytes`, properties are omitted from the end.
    """
    packet = _packet(elements, style) if elements else b""
    if len(packet) > max_bytes:
        # more properties never make a shorter packet, so the largest number that fits is found by bisection
        fitting = bisect_right(range(len(elements)), max_bytes, key=lambda count: len(_packet(elements[:count], style)))
        packet = _packet(elements[: fitting - 1], style) if fitting > 1 else b""
    return packet or None


def serialized_description(elements: Iterable[ET.Element], about: str) -> bytes:
    """An `rdf:Description` of these properties as bytes, with declared prefixes, to be inserted into a packet."""
    return _serialized(_description(elements, {RDF + "about": about}), PacketStyle.PLAIN).encode()


def _description(elements: Iterable[ET.Element], attributes: dict[str, str]) -> ET.Element:
    description = ET.Element(RDF + "Description", attributes)
    for element in elements:
        if len(element) or element.attrib or not element.text or any(char in element.text for char in "\n\r\t"):
            description.append(element)
        else:
            description.set(element.tag, element.text)
    return description


def _packet(elements: Sequence[ET.Element], style: PacketStyle) -> bytes:
    rdf = ET.Element(RDF + "RDF")
    rdf.append(_description(elements, {} if style is PacketStyle.SHORT else {RDF + "about": ""}))
    packet = _serialized(rdf, style)
    if style is PacketStyle.PLAIN:
        packet = f'{_HEAD}<x:xmpmeta xmlns:x="adobe:ns:meta/">{packet}</x:xmpmeta>{_TAIL}'
    return packet.encode()


def _serialized(root: ET.Element, style: PacketStyle) -> str:
    tags = dict.fromkeys(tag for element in root.iter() for tag in (element.tag, *element.attrib) if tag != LANG)
    namespaces = dict.fromkeys(tag[: tag.index("}") + 1] for tag in tags)
    if style is PacketStyle.SHORT:
        names = dict(zip(namespaces, ascii_lowercase, strict=False))
    else:
        names = {namespace: _PREFIX_BY_NAMESPACE[namespace] for namespace in namespaces}
    qualified = {tag: f"{names[tag[: tag.index('}') + 1]]}:{tag[tag.index('}') + 1 :]}" for tag in tags}
    qualified[LANG] = "xml:lang"
    declared = "".join(f' xmlns:{prefix}="{namespace[1:-1]}"' for namespace, prefix in names.items())
    return _element(root, qualified, declared)


def _element(element: ET.Element, qualified: dict[str, str], declared: str = "") -> str:
    from xml.sax.saxutils import escape  # slow to import, because it imports Python's HTTP client

    name = qualified[element.tag]
    attributes = "".join(f" {qualified[tag]}={_quoted(value)}" for tag, value in element.attrib.items())
    content = escape(_without_invalid_characters(element.text or ""), {"\r": "&#13;"}) + "".join(
        _element(child, qualified) for child in element
    )
    return f"<{name}{declared}{attributes}>{content}</{name}>" if content else f"<{name}{declared}{attributes}/>"


def _without_invalid_characters(text: str) -> str:
    return _NOT_IN_XML.sub("", text)


def _quoted(value: str) -> str:
    from xml.sax.saxutils import quoteattr

    return quoteattr(_without_invalid_characters(value), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
