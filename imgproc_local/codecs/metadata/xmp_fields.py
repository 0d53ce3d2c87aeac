"""Which XMP properties may be published, which fields inside them, and which are the most important.

What is published is chosen by name, down to the fields inside a structure, so an unknown field is removed.
Source: IPTC Photo Metadata Standard 2025.1; PLUS 2.0; Ultra HDR image format 1.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree as ET

from msgspec import Struct

from imgproc_local.codecs.metadata import exif, xmp
from imgproc_local.domain.image import Disclosure, KeepLocation, Kept, NamePeople


def _names(namespace: str, *names: str) -> frozenset[str]:
    return frozenset(namespace + name for name in names)


_KEPT = {
    name: kept
    for kept, names in {
        Kept.DATES: _names(xmp.XMP, "CreateDate", "ModifyDate")
        | _names(xmp.EXIF, "DateTimeOriginal", "DateTimeDigitized")
        | {xmp.PHOTOSHOP + "DateCreated"},
        Kept.CAMERA: _names(xmp.TIFF, "Make", "Model")
        | _names(xmp.EXIF, "ExposureTime", "FNumber", "ExposureProgram", "ISOSpeedRatings", "ShutterSpeedValue")
        | _names(xmp.EXIF, "ApertureValue", "BrightnessValue", "ExposureBiasValue", "MaxApertureValue", "MeteringMode")
        | _names(xmp.EXIF, "FocalLength", "FocalLengthIn35mmFilm", "ExposureMode", "WhiteBalance")
        | _names(xmp.EXIF_EX, "PhotographicSensitivity", "LensMake", "LensModel")
        | {xmp.AUX + "Lens"},
        Kept.RATING: _names(xmp.XMP, "Rating", "Label"),
    }.items()
    for name in names
}
"""The properties that are published only where `Disclosure.kept` asks for them."""

_PUBLISHED = (
    xmp.DC + "rights", xmp.DC + "creator", xmp.PHOTOSHOP + "Credit", xmp.ALT_TEXT_SOURCE, xmp.ALT_TEXT,
    xmp.EXTENDED_DESCRIPTION_SOURCE, xmp.EXTENDED_DESCRIPTION,
    xmp.TIFF + "Copyright", xmp.TIFF + "Artist", xmp.EXT + "DigitalSourceType", xmp.RIGHTS, xmp.CC, xmp.PLUS,
    xmp.PANORAMA, xmp.DC + "title", xmp.DC + "description", xmp.PHOTOSHOP + "Headline", xmp.DC + "subject",
    xmp.PHOTOSHOP + "Source", xmp.PHOTOSHOP + "AuthorsPosition", xmp.PHOTOSHOP + "CaptionWriter",
    xmp.PHOTOSHOP + "Instructions", xmp.PHOTOSHOP + "City", xmp.PHOTOSHOP + "State", xmp.PHOTOSHOP + "Country",
    xmp.CORE + "Location", xmp.CORE + "CountryCode", xmp.CORE + "CreatorContactInfo",
    xmp.PERSONS, xmp.EXT + "Event", xmp.EXT + "LocationShown", xmp.EXT + "LocationCreated",
    xmp.EXT + "ArtworkOrObject", *sorted(_KEPT),
)  # fmt: skip
"""The properties that are published, the most important first. A namespace stands for all its properties.

The sources of the texts are before them, because without these they would count as a person's."""

_ELSEWHERE: tuple[tuple[str, tuple[int, ...], int | None, tuple[str, ...]], ...] = (
    (xmp.DC + "title", (exif.XP_FIELDS[0],), 5, ("title",)),
    (xmp.DC + "description", (exif.IMAGE_DESCRIPTION, exif.XP_FIELDS[1]), 120, ("description", "comment")),
    (xmp.DC + "rights", (exif.COPYRIGHT,), 116, ("copyright",)),
    (xmp.DC + "creator", (exif.ARTIST, exif.XP_FIELDS[2]), 80, ("author",)),
    (xmp.DC + "subject", (exif.XP_FIELDS[3],), 25, ()),
    (xmp.PHOTOSHOP + "Headline", (exif.XP_FIELDS[4],), 105, ()),
    (xmp.PHOTOSHOP + "Credit", (), 110, ()),
    (xmp.PHOTOSHOP + "Source", (), 115, ()),
    (xmp.PHOTOSHOP + "Instructions", (), 40, ()),
    (xmp.PHOTOSHOP + "AuthorsPosition", (), 85, ()),
    (xmp.PHOTOSHOP + "CaptionWriter", (), 122, ()),
    (xmp.PHOTOSHOP + "City", (), 90, ()),
    (xmp.PHOTOSHOP + "State", (), 95, ()),
    (xmp.PHOTOSHOP + "Country", (), 101, ()),
    (xmp.CORE + "CountryCode", (), 100, ()),
    (xmp.CORE + "Location", (), 92, ()),
    (xmp.RIGHTS + "UsageTerms", (), None, ("disclaimer",)),
)
"""The properties that other blocks can say, too: the fields of EXIF's IFD0, the dataset of record 2 of IPTC-IIM, and
the keywords of a PNG's texts, or `comment` for those of a GIF. Windows' subject is a line about the whole picture, as a
headline is; `dc:subject` are keywords.

Source: IPTC Photo Metadata Standard, mapping guidelines; W3C PNG specification, third edition, 11.3.3.1.
"""
EXIF_FIELDS = {tag: name for name, tags, _, _ in _ELSEWHERE for tag in tags}
IPTC_DATASETS = {number: name for name, _, number, _ in _ELSEWHERE if number is not None}
TEXT_NAMES = {keyword: name for name, _, _, keywords in _ELSEWHERE for keyword in keywords}

MARKS = {xmp.LANG, xmp.RDF + "parseType"}
"""Attributes that say nothing without content."""

_WHOLE_NAMESPACES = (xmp.RIGHTS, xmp.CC, xmp.PLUS, xmp.PANORAMA)
_VALUE_NAMESPACES = (xmp.PANORAMA, xmp.GAIN_MAP)
"""Their values are numbers and single words."""

_SIMPLE_VALUE = re.compile(r"[+-]?\d{1,10}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,3})?|[A-Za-z]{1,20}|\s*")
_MEDIA_SUMMARY_CODE = re.compile(r"\|PLUS\|[A-Z0-9|]{1,400}")
LANGUAGE_TAG = re.compile(r"[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8}){0,6}")
_MAX_PUBLISHED_NODES = 4_096
"""Elements and attributes in all properties that are published; what follows is removed."""


_STREETS = (
    _names(xmp.CORE, "Location", "CiAdrExtadr", "CiAdrPcode")
    | _names(xmp.EXT, "Sublocation", "LocationName")
    | _names(xmp.PLUS, "LicensorStreetAddress", "LicensorExtendedAddress", "LicensorPostalCode")
)
"""Written only where `KeepLocation.ALL` asks for them."""

_PLACES = (
    _names(xmp.PHOTOSHOP, "City", "State", "Country")
    | _names(xmp.CORE, "CountryCode", "CiAdrCity", "CiAdrRegion", "CiAdrCtry")
    | _names(xmp.EXT, "LocationShown", "LocationCreated", "City", "ProvinceState", "CountryName", "CountryCode")
    | _names(xmp.EXT, "WorldRegion")
    | _names(xmp.PLUS, "LicensorCity", "LicensorRegion", "LicensorCountry")
)
"""Not written with `KeepLocation.NONE`."""

_REMOVED = (
    _names(xmp.PLUS, "LicensorEmail", "LicensorTelephone1", "LicensorTelephone2", "LicensorTelephoneType1")
    | _names(xmp.PLUS, "LicensorTelephoneType2", "FileNameAsDelivered", "LicensorNotes", "LicenseeImageNotes")
    | _names(xmp.PLUS, "LicensorTransactionID", "LicenseeTransactionID", "LicenseeProjectReference")
    | _names(xmp.PANORAMA, "CaptureSoftware", "StitchingSoftware", "FirstPhotoDate", "LastPhotoDate")
    | {xmp.PANORAMA + "SourcePhotosCount"}
)
"""Parts of namespaces that are otherwise preserved as a whole."""

_INNER_NAMES = (
    _names(xmp.RDF, "li", "Alt", "Bag", "Seq", "Description", "value", "resource", "parseType")
    | _names(xmp.CORE, "CiUrlWork")
    | _names(xmp.EXT, "AOTitle", "AOCreator", "AOCopyrightNotice", "AOSource", "AOContentDescription")
    | _names(xmp.EXT, "AOContributionDescription", "AOPhysicalDescription", "AOStylePeriod")
    | _names(xmp.EXT, "AOCurrentCopyrightOwnerName", "AOCurrentLicensorName")
)
"""Fields that are preserved inside a property. Others are removed: EXIF's GPS fields can hide in IPTC's locations."""


def rank(name: str) -> int | None:
    """The rank of a property, lower for more important ones; None if it is not published.

    Those that describe a gain map have -1, since the picture can't be shown right without them; the list of pictures
    among these is written anew.
    """
    if name.startswith((xmp.GAIN_MAP, xmp.CONTAINER)):
        return -1
    namespace = name[: name.find("}") + 1]
    return next((number for number, entry in enumerate(_PUBLISHED) if entry in (name, namespace)), None)


def is_allowed(name: str, disclosure: Disclosure) -> bool:
    """Whether `disclosure` allows a property or a field in one; True for all that it does not decide about."""
    if name in _KEPT:
        return _KEPT[name] in disclosure.kept
    if name == xmp.PERSONS:
        return disclosure.name_people is NamePeople.ALL
    if name in _STREETS:
        return disclosure.keep_location is KeepLocation.ALL
    return name not in _PLACES or disclosure.keep_location is not KeepLocation.NONE


def is_published(name: str, disclosure: Disclosure) -> bool:
    """Whether a property is published, of which fields may yet be removed."""
    return rank(name) is not None and (name not in _KEPT or is_allowed(name, disclosure))


def published(
    properties: xmp.Properties, clean_of: Callable[[str], Callable[[str], str]], disclosure: Disclosure
) -> tuple[list[ET.Element], bool]:
    """Copies of the properties that may be published, without fields that may not, in the packet's order.

    What `clean_of` returns for the name of a property is applied to its texts; what that empties is removed. Also
    whether these are all: False if some were omitted because there are more than `_MAX_PUBLISHED_NODES`.
    """
    copier = _Copier(str, disclosure)
    copies = []
    for name, element in properties.items():
        if rank(name) is not None:
            copier.clean = clean_of(name)
            copies.append(copier.copy(element))
    return [copy for copy in copies if copy is not None], copier.nodes_left >= 0


def ordered(properties: xmp.Properties, *, gain_map_bytes: int | None = None) -> list[ET.Element]:
    """The properties, the most important first; without a gain map also without those that describe one.

    `gain_map_bytes` is the length of the gain map that follows the picture, written into `Container:Directory`; 0 for a
    gain map itself, which has none.
    """
    ranks = {name: rank(name) for name in properties}
    named = sorted((number, order, name) for order, (name, number) in enumerate(ranks.items()) if number is not None)
    found = [properties[name] for number, _, name in named if number >= 0 or gain_map_bytes is not None]
    described = any(name.startswith(xmp.GAIN_MAP) for name in properties)
    return [_directory(gain_map_bytes), *found] if gain_map_bytes and described else found


def _directory(gain_map_bytes: int) -> ET.Element:
    """The list of the two pictures in a file. Source: Ultra HDR image format 1.1, GContainer."""
    directory = ET.Element(xmp.CONTAINER + "Directory")
    entries = ET.SubElement(directory, xmp.RDF + "Seq")
    for semantic, length in (("Primary", {}), ("GainMap", {xmp.CONTAINER_ITEM + "Length": str(gain_map_bytes)})):
        entry = ET.SubElement(entries, xmp.RDF + "li", {xmp.RDF + "parseType": "Resource"})
        fields = {xmp.CONTAINER_ITEM + "Semantic": semantic, xmp.CONTAINER_ITEM + "Mime": "image/jpeg"}
        ET.SubElement(entry, xmp.CONTAINER + "Item", fields | length)
    return directory


class _Copier(Struct):
    """Copies properties. `nodes_left` elements and attributes may still be copied; it is negative when more exist."""

    clean: Callable[[str], str]
    disclosure: Disclosure
    nodes_left: int = _MAX_PUBLISHED_NODES

    def copy(self, element: ET.Element) -> ET.Element | None:
        """A copy of only what may be published; None where nothing of the content is left."""
        if self.nodes_left < 0 or not self._may_be_published(element.tag):
            return None
        self.nodes_left -= 1 + len(element.attrib)
        if self.nodes_left < 0:
            return None
        copy = ET.Element(element.tag)
        for name, value in element.attrib.items():
            if name == xmp.LANG:
                if LANGUAGE_TAG.fullmatch(value):
                    copy.set(xmp.LANG, value)
            elif self._may_be_published(name) and (cleaned := _clean_value(name, value, self.clean)):
                copy.set(name, cleaned)
        text = (element.text or "").strip()
        copy.text = _clean_value(element.tag, text, self.clean) or None
        for child in element:
            inner = self.copy(child)
            if inner is not None:
                copy.append(inner)
        has_content = copy.text or len(copy) or not set(copy.attrib) <= MARKS
        return copy if has_content else None

    def _may_be_published(self, name: str) -> bool:
        return is_known(name) and is_allowed(name, self.disclosure)


def is_known(name: str) -> bool:
    """Whether a property or a field in one is published, if `is_allowed` says so, too."""
    if name in _REMOVED:
        return False
    in_namespace = name.startswith((*_WHOLE_NAMESPACES, xmp.GAIN_MAP))
    return in_namespace or name in _PUBLISHED or name in _INNER_NAMES or name in _PLACES or name in _STREETS


def _clean_value(name: str, value: str, clean: Callable[[str], str]) -> str:
    if name.startswith(_VALUE_NAMESPACES):
        return value if _SIMPLE_VALUE.fullmatch(value) else ""
    if name == xmp.PLUS + "MediaSummaryCode":
        return value if _MEDIA_SUMMARY_CODE.fullmatch(value) else ""
    return clean(value)
