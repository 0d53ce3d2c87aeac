"""Replaces properties of an XMP packet and preserves every other byte of it: prefixes, comments and unknown properties.

The time is linear in the packet's length: it is parsed once, by expat, which reports the offset of each tag.
Source: ISO 16684-1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree as ET
from xml.parsers import expat

from imgproc_local.codecs.metadata import xmp
from imgproc_local.codecs.metadata.bounds import MAX_XMP_BYTES, MAX_XMP_NODES

_TAG = re.compile(rb"<[^\s/>]++(?:[^\"'>]++|\"[^\"]*+\"|'[^']*+')*+>")
_NAME = re.compile(rb"<[^\s/>]++")
_ATTRIBUTE = re.compile(rb"\s++([^\s=]++)\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+')")
_ABOUT = (xmp.RDF + "about", "about")


def with_properties(packet: bytes | None, properties: Mapping[str, ET.Element]) -> bytes | None:
    """The packet, in UTF-8, with these properties in place of those of the same names; without one, a new packet.

    None if the packet can't be parsed, or has more than `MAX_XMP_NODES` elements and attributes.
    """
    if not properties:
        return packet
    if packet is None:
        return xmp.write(list(properties.values()), MAX_XMP_BYTES)
    text = xmp.decoded(packet)
    if text is None:
        return None
    data = text.encode()
    try:
        found = _PropertyRanges(data, frozenset(properties))
    except (expat.ExpatError, ValueError):
        return None
    if found.rdf_end is None:
        # no RDF, or an empty-element tag of it: there is nothing to preserve
        return xmp.write(list(properties.values()), MAX_XMP_BYTES)
    out, at = [], 0
    inserted = (found.rdf_end, found.rdf_end, xmp.serialized_description(properties.values(), found.about or ""))
    for start, end, content in sorted([*((start, end, b"") for start, end in found.ranges), inserted]):
        out += [data[at:start], content]
        at = end
    return _without_padding(b"".join([*out, data[at:]]))


def _without_padding(packet: bytes) -> bytes:
    """The packet without the blanks before its end, which are room for editing it in place."""
    end = packet.rfind(b"<?xpacket end=")
    return packet if end < 0 else packet[:end].rstrip() + packet[end:]


class _PropertyRanges:
    """Where the properties of given names are in a packet.

    `ranges` are their byte ranges; a description that has no other properties is included as a whole. `rdf_end` is the
    offset of the RDF's end tag, None if there is none. `about` is the first `rdf:about` of a description.

    Raises: ExpatError; ValueError for more than `MAX_XMP_NODES`.
    """

    def __init__(self, data: bytes, names: frozenset[str]) -> None:
        self.ranges: list[tuple[int, int]] = []
        self.rdf_end: int | None = None
        self.about: str | None = None
        self._data, self._names = data, names
        self._depth = self._rdf_depth = self._nodes = 0
        self._description_start = self._property_start = 0
        self._is_empty_tag = self._has_others = False
        self._in_description: list[tuple[int, int]] = []
        self._parser = expat.ParserCreate("utf-8", "}")
        self._parser.namespace_prefixes = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.Parse(data, True)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._nodes += 1 + len(attributes)
        if self._nodes > MAX_XMP_NODES:
            raise ValueError("too many elements and attributes")
        self._depth += 1
        start = self._parser.CurrentByteIndex
        name = _qualified(tag)[0]
        if not self._rdf_depth:
            if name == xmp.RDF + "RDF" and self.rdf_end is None:
                self._rdf_depth = self._depth
            return
        level = self._depth - self._rdf_depth
        if level == 1:
            self._description_start = start
            self._in_description, self._has_others = [], name != xmp.RDF + "Description"
            self._read_attributes(start, attributes)
        elif level == 2:
            self._property_start = start
            self._has_others = self._has_others or name not in self._names

    def _end(self, tag: str) -> None:
        level = self._depth - self._rdf_depth if self._rdf_depth else -1
        self._depth -= 1
        if level not in (0, 1, 2):
            return
        at = self._parser.CurrentByteIndex
        start = {1: self._description_start, 2: self._property_start}.get(level, at)
        tag_end = _tag_end(self._data, start)
        if level == 0:
            self._rdf_depth = 0
            # an empty-element tag has no end tag: then nothing can be inserted before it
            self.rdf_end = at if self._data[at : at + 2] == b"</" else None
            return
        is_empty = self._data[tag_end - 2 : tag_end] == b"/>"
        end = tag_end if is_empty else self._data.index(b">", at) + 1
        if level == 2 and _qualified(tag)[0] in self._names:
            self._in_description.append((start, end))
        elif level == 1 and self._in_description:
            self.ranges += self._in_description if self._has_others else [(start, end)]

    def _read_attributes(self, start: int, attributes: dict[str, str]) -> None:
        """Record what a description is about, and the ranges of properties written as its attributes."""
        raw_names = set()
        for tag, value in attributes.items():
            name, raw_name = _qualified(tag)
            if name in _ABOUT:
                self.about = value if self.about is None else self.about
            elif name in self._names:
                raw_names.add(raw_name.encode())
            else:
                self._has_others = True
        if not raw_names:
            return
        named = _NAME.match(self._data, start)
        at = named.end() if named else start
        while attribute := _ATTRIBUTE.match(self._data, at):
            at = attribute.end()
            if attribute[1] in raw_names:
                self._in_description.append((attribute.start(), at))


def _tag_end(data: bytes, start: int) -> int:
    found = _TAG.match(data, start)
    return found.end() if found else start


def _qualified(name: str) -> tuple[str, str]:
    """A name of expat, `namespace}local` or `namespace}local}prefix`, as `{namespace}local` and `prefix:local`."""
    parts = name.split("}")
    if len(parts) == 1:
        return name, name
    raw = f"{parts[2]}:{parts[1]}" if len(parts) > 2 else parts[1]
    return f"{{{parts[0]}}}{parts[1]}", raw
