"""The kinds of private data in a file's blocks that an output does not carry, for telling a user what was removed."""

from __future__ import annotations

from collections.abc import Iterator

from imgproc_local.codecs.metadata import exif, iptc, xmp, xmp_fields
from imgproc_local.codecs.metadata.blocks import Blocks
from imgproc_local.domain.image import KeepLocation
from imgproc_local.domain.privacy import Removed

_EXIF_KINDS = {
    0x0131: Removed.SOFTWARE,
    0x927C: Removed.MAKER_NOTE,
    0xA431: Removed.SERIAL_NUMBER,
    0xA435: Removed.SERIAL_NUMBER,
    0xC62F: Removed.SERIAL_NUMBER,
    exif.GPS_IFD: Removed.GPS,
}
"""By tag in IFD0 or the Exif IFD. Source: CIPA DC-008; 0xC62F is CameraSerialNumber of DNG."""

_IPTC_KINDS = {65: Removed.SOFTWARE, 70: Removed.SOFTWARE, 118: Removed.CONTACT}
"""Originating program, its version, contact."""

_XMP_KINDS = (
    ("GPS", Removed.GPS),
    ("SerialNumber", Removed.SERIAL_NUMBER),
    ("CiEmail", Removed.EMAIL),
    ("LicensorEmail", Removed.EMAIL),
    ("CiTel", Removed.CONTACT),
    ("LicensorTelephone", Removed.CONTACT),
    ("CreatorTool", Removed.SOFTWARE),
    ("Software", Removed.SOFTWARE),
    ("History", Removed.HISTORY),
    ("DerivedFrom", Removed.HISTORY),
    ("Thumbnails", Removed.THUMBNAIL),
)
"""By a part of the local name."""


def kinds_in(blocks: Blocks, packet: xmp.Packet, keep_location: KeepLocation) -> frozenset[Removed]:
    """The kinds of private fields in a file's blocks, of which `packet` is the XMP as parsed.

    Those inside texts are found by `clean_text`.
    """
    found: set[Removed] = set()
    tags = exif.tags(blocks.exif or b"") | exif.tags(blocks.exif or b"", exif.EXIF_IFD)
    found |= {_EXIF_KINDS[tag] for tag in tags & set(_EXIF_KINDS)}
    if exif.has_second_ifd(blocks.exif or b""):
        found.add(Removed.THUMBNAIL)
    datasets = iptc.read(blocks.iptc)
    found |= {_IPTC_KINDS[number] for number in datasets if number in _IPTC_KINDS}
    if iptc.SUBLOCATION in datasets and keep_location is not KeepLocation.ALL:
        found.add(Removed.LOCATION)
    if not packet.is_complete:
        found.add(Removed.UNREADABLE)
    for name in _names(packet.properties):
        local = name.rpartition("}")[2]
        found |= {kind for part, kind in _XMP_KINDS if part in local}
        if not xmp_fields.is_allowed_place(name, keep_location):
            found.add(Removed.LOCATION)
    return frozenset(found)


def _names(properties: xmp.Properties) -> Iterator[str]:
    """The names of all elements and attributes, at every level."""
    for element in properties.values():
        for inner in element.iter():
            yield inner.tag
            yield from inner.attrib
