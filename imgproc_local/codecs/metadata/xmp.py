"""Parses and writes XMP packets.

Untrusted packets are safe to parse. A packet counts as empty if it is too long, is not well-formed XML, has a DOCTYPE,
without which no entities can be expanded, has elements that are nested deeper than `MAX_XMP_DEPTH`, or declares a
namespace of 200 characters or more, or of others than ASCII.
Source: ISO 16684-1.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from xml.etree import ElementTree as ET

from msgspec import Struct

from imgproc_local.domain.image import EmbeddedText

RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
DC = "{http://purl.org/dc/elements/1.1/}"
PHOTOSHOP = "{http://ns.adobe.com/photoshop/1.0/}"
CORE = "{http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/}"
EXT = "{http://iptc.org/std/Iptc4xmpExt/2008-02-29/}"
RIGHTS = "{http://ns.adobe.com/xap/1.0/rights/}"
TIFF = "{http://ns.adobe.com/tiff/1.0/}"
EXIF = "{http://ns.adobe.com/exif/1.0/}"
EXIF_EX = "{http://cipa.jp/exif/1.0/}"
AUX = "{http://ns.adobe.com/exif/1.0/aux/}"
XMP = "{http://ns.adobe.com/xap/1.0/}"
PLUS = "{http://ns.useplus.org/ldf/xmp/1.0/}"
CC = "{http://creativecommons.org/ns#}"
PANORAMA = "{http://ns.google.com/photos/1.0/panorama/}"
CONTAINER = "{http://ns.google.com/photos/1.0/container/}"
CONTAINER_ITEM = "{http://ns.google.com/photos/1.0/container/item/}"
GAIN_MAP = "{http://ns.adobe.com/hdr-gain-map/1.0/}"
GAIN_MAP_NAMESPACES = (GAIN_MAP, CONTAINER, CONTAINER_ITEM)
_IMGPROC = "{urn:x-imgproc-local:xmp:}"
"""The program's own namespace, which names no host."""
_MWG_REGIONS = "{http://www.metadataworkinggroup.com/schemas/regions/}"
_WINDOWS = "http://ns.microsoft.com/photo/1.2/"
_REGIONS = (_MWG_REGIONS + "Regions", f"{{{_WINDOWS}}}RegionInfo")
_REGION_NAMES = (_MWG_REGIONS + "Name", f"{{{_WINDOWS}t/Region#}}PersonDisplayName")
_XML = "{http://www.w3.org/XML/1998/namespace}"
LANG = _XML + "lang"

_PREFIXES = {
    "rdf": RDF, "dc": DC, "photoshop": PHOTOSHOP, "Iptc4xmpCore": CORE, "Iptc4xmpExt": EXT, "xmpRights": RIGHTS,
    "tiff": TIFF, "plus": PLUS, "cc": CC, "GPano": PANORAMA, "Container": CONTAINER, "Item": CONTAINER_ITEM,
    "hdrgm": GAIN_MAP, "imgproc": _IMGPROC, "x": "{adobe:ns:meta/}", "xmp": XMP,
    "xmpMM": "{http://ns.adobe.com/xap/1.0/mm/}", "xmpNote": "{http://ns.adobe.com/xmp/note/}",
    "exif": EXIF, "exifEX": EXIF_EX, "aux": AUX,
    "crs": "{http://ns.adobe.com/camera-raw-settings/1.0/}", "lr": "{http://ns.adobe.com/lightroom/1.0/}",
    "stEvt": "{http://ns.adobe.com/xap/1.0/sType/ResourceEvent#}", "pdf": "{http://ns.adobe.com/pdf/1.3/}",
    "stRef": "{http://ns.adobe.com/xap/1.0/sType/ResourceRef#}", "digiKam": "{http://www.digikam.org/ns/1.0/}",
    "mwg-rs": _MWG_REGIONS,
    "xmpDM": "{http://ns.adobe.com/xmp/1.0/DynamicMedia/}",
    "GCamera": "{http://ns.google.com/photos/1.0/camera/}", "GDepth": "{http://ns.google.com/photos/1.0/depthmap/}",
    "MicrosoftPhoto": "{http://ns.microsoft.com/photo/1.0/}",
}  # fmt: skip
for _prefix, _namespace in _PREFIXES.items():
    ET.register_namespace(_prefix, _namespace[1:-1])
"""The usual prefixes. A namespace without one is written with `ns` and a number."""
_GAIN_MAP_DECLARATIONS = [
    f' xmlns:{prefix}="{name[1:-1]}"' for prefix, name in _PREFIXES.items() if name in GAIN_MAP_NAMESPACES
]

ALT_TEXT, EXTENDED_DESCRIPTION = CORE + "AltTextAccessibility", CORE + "ExtDescrAccessibility"
ALT_TEXT_SOURCE, EXTENDED_DESCRIPTION_SOURCE = _IMGPROC + "AltTextSource", _IMGPROC + "ExtDescrSource"
PERSONS = EXT + "PersonInImage"

_HEAD = '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>'
_TAIL = '<?xpacket end="w"?>'

_ENCODINGS = (
    (b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"), (b"<\0\0\0", "utf-32-le"), (b"\0\0\0<", "utf-32-be"),
    (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"),
)  # fmt: skip
"""The first bytes of packets that are not in UTF-8, with and without a byte order mark."""

MAX_XMP_BYTES = 2 * 1024 * 1024
"""The largest XMP packet that is parsed. Larger ones hold previews or the history of a document."""

MAX_XMP_DEPTH = 256
"""The nesting depth of a packet's elements. Source: libxml2's limit, `xmlParserMaxDepth`."""

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

_LONG_NAMESPACE = re.compile(
    r"""\sxmlns(?::[^\s=]*)?\s*=\s*(?:"(?:[^"]{200}|[^"]{0,199}[^"\0-\x7f])|'(?:[^']{200}|[^']{0,199}[^'\0-\x7f]))"""
)
"""A parser copies the namespace into each name, other characters than ASCII with four bytes. The longest in use has
about 60 characters.
"""

_ABOUT = {RDF + "about", "about"}

Element = ET.Element
Properties = dict[str, Element]


class Packet(Struct, frozen=True):
    """The top-level properties of a packet by qualified name; those written as attributes are elements here, too.

    `is_complete` is False if the packet or its extension counts as empty.
    """

    properties: Properties
    is_complete: bool


def parse(packet: bytes | None, extended: bytes | None = None) -> Packet:
    """The properties of a packet and of its ExtendedXMP; the first of equal names."""
    found: Properties = {}
    trees = [_tree(each) for each in (packet, extended) if each]
    for rdf in (rdf for root in trees for rdf in _rdfs(root)):
        for description in rdf:
            for name, value in description.attrib.items():
                if not name.startswith(RDF) and name != LANG:
                    found.setdefault(name, simple_property(name, value))
            for element in description:
                found.setdefault(element.tag, element)
    return Packet(found, None not in trees)


def with_properties(packet: bytes | None, properties: Mapping[str, ET.Element]) -> bytes | None:
    """The packet with these properties in place of those of the same names; without one, a new packet.

    Other properties keep their values, under the usual prefixes; comments, indentation and padding are left out. None
    if the packet can't be parsed, or exceeds the bounds.
    """
    if packet is None or not properties:
        return packet if packet is not None else write([*properties.values()])
    root = _tree(packet)
    if root is None:
        return None
    rdf = next(_rdfs(root), None)
    if rdf is None:
        return write([*properties.values()])
    about = ""
    for description in list(rdf):
        about = about or description.get(RDF + "about") or description.get("about") or ""
        for name in properties:
            description.attrib.pop(name, None)
        for element in [each for each in description if each.tag in properties]:
            description.remove(element)
        if description.tag == RDF + "Description" and not len(description) and set(description.attrib) <= _ABOUT:
            rdf.remove(description)
    rdf.append(_description(properties.values(), about))
    return _serialized(root)


def _rdfs(root: ET.Element | None) -> Iterator[ET.Element]:
    """The RDF elements of a tree, in order, without those in the value of a property: they belong to that value."""
    unvisited = [] if root is None else [root]
    while unvisited:
        element = unvisited.pop()
        if element.tag == RDF + "RDF":
            yield element
        else:
            unvisited += reversed(element)


def _decoded(packet: bytes) -> str | None:
    """The text of a packet without an XML declaration; None if it is too long, has a DOCTYPE or a long namespace, or
    can't be decoded.
    """
    if len(packet) > MAX_XMP_BYTES:
        return None
    encoding = next((name for start, name in _ENCODINGS if packet.startswith(start)), "utf-8")
    try:
        text = packet.decode(encoding).strip("\ufeff\0 \r\n\t")
    except UnicodeDecodeError:
        return None
    if "<!DOCTYPE" in text.upper() or _LONG_NAMESPACE.search(text):
        return None
    # the text is decoded already: an encoding named in the declaration no longer applies
    return text.partition("?>")[2] if text.startswith("<?xml") else text


def _tree(packet: bytes) -> ET.Element | None:
    """The root element; None if the packet counts as empty."""
    text = _decoded(packet)
    if text is None:
        return None
    try:
        root = ET.XML(text)  # without a DOCTYPE there are no entities to expand
    except (ET.ParseError, ValueError):
        return None
    level = [root]
    for _ in range(MAX_XMP_DEPTH):
        level = [child for element in level for child in element]
    return None if level else root


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
    items = language_items(properties, name)
    found = [EmbeddedText(text.strip(), None if tag in ("x-default", "x-repair") else tag) for tag, text in items]
    tagged = {entry.text for entry in found if entry.language}
    return [entry for entry in found if entry.language or entry.text not in tagged]


def person_names(properties: Properties) -> list[str]:
    """The persons in `PERSONS` and in the regions of faces, in the forms of the Metadata Working Group and of Windows.

    Source: MWG, Guidelines for Handling Image Metadata 2.0, 5.10; Microsoft, People Tagging Overview.
    """
    found = texts(properties, PERSONS)
    for region in (part for name in _REGIONS if name in properties for part in properties[name].iter()):
        fields = region.attrib | {part.tag: part.text or "" for part in region}
        if fields.get(_MWG_REGIONS + "Type", "Face").strip() == "Face":
            found += [fields[name].strip() for name in _REGION_NAMES if name in fields]
    return [name for name in dict.fromkeys(found) if name]


def location_field(properties: Properties, structure: str, field: str) -> str | None:
    """The value of `field` in the first location with that field, in `structure`: LocationShown or LocationCreated."""
    for item in _items(properties.get(EXT + structure)):
        for part in item.iter():
            value = next(iter(texts({part.tag: part}, EXT + field)), part.get(EXT + field, "").strip())
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


def array(name: str, kind: str, values: Iterable[str]) -> ET.Element:
    """A property that is a `Bag` or `Seq` of texts."""
    element = ET.Element(name)
    holder = ET.SubElement(element, RDF + kind)
    for value in values:
        ET.SubElement(holder, RDF + "li").text = value
    return element


def simple_property(name: str, text: str) -> ET.Element:
    element = ET.Element(name)
    element.text = text
    return element


def fitting(elements: Sequence[ET.Element], max_bytes: int) -> Sequence[ET.Element]:
    """As many of these properties, from the first on, as a packet of at most `max_bytes` holds."""
    if len(write(elements) or b"") <= max_bytes:
        return elements
    # more properties never make a shorter packet, so the largest number that fits is found by bisection
    count = bisect_right(range(len(elements)), max_bytes, key=lambda number: len(write(elements[:number]) or b""))
    return elements[: count - 1]


def write(elements: Sequence[ET.Element]) -> bytes | None:
    """A packet of these properties without padding; None if there are none. Simple ones are written as attributes."""
    if not elements:
        return None
    root = ET.Element(_PREFIXES["x"] + "xmpmeta")
    ET.SubElement(root, RDF + "RDF").append(_description(elements, ""))
    return _serialized(root)


def _description(elements: Iterable[ET.Element], about: str) -> ET.Element:
    description = ET.Element(RDF + "Description", {RDF + "about": about})
    for element in elements:
        if len(element) or element.attrib or not element.text or any(char in element.text for char in "\n\r\t"):
            description.append(element)
        else:
            description.set(element.tag, element.text)
    return description


def _serialized(root: ET.Element) -> bytes:
    """The element as a packet, with all namespaces declared in it, without indentation.

    A JPEG's packet may have 64 KB, of which indentation, white space with a line break, can take a quarter.
    """
    for element in root.iter():
        if len(element) and element.text and "\n" in element.text and element.text.isspace():
            element.text = None
        if element.tail and "\n" in element.tail and element.tail.isspace():
            element.tail = None
    text = without_invalid_characters(ET.tostring(root, encoding="unicode"))
    # Chromium knows the properties of a gain map only by namespaces that are declared in their description
    declared = "".join(name for name in _GAIN_MAP_DECLARATIONS if name in text)
    text = text.replace("<rdf:Description ", f"<rdf:Description{declared} ")
    # parsers read a carriage return in a text as a new line; those in attributes are escaped
    return f"{_HEAD}{text.replace(chr(13), '&#13;')}{_TAIL}".encode()


def without_invalid_characters(text: str) -> str:
    """The text without characters that XML can't hold, but IPTC, EXIF and PNG texts can."""
    return _NOT_IN_XML.sub("", text)
