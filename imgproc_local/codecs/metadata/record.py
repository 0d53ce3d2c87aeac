"""The record of a picture: the words and rights in its metadata, read once by meaning and written in one form.

`read_record` merges XMP, IPTC-IIM, PNG texts, GIF comments and EXIF into XMP properties, whose model holds all that the
others can say. `blocks_for` writes the record into a result, the same way whatever block the words came from: EXIF's
copyright, artist, description and orientation and, unless they say it all, one XMP packet and in a JPEG the IPTC-IIM
datasets of the same meaning.

Preserved: who made it and whose it is (copyright, creator, credit, usage terms, licence), its words (alt text, extended
description, title, headline, caption, keywords, event), place names as far as `Disclosure.keep_location` allows (by
default down to the city), with `NamePeople.ALL` the names of tagged persons, how it was made (DigitalSourceType), a
panorama's projection, colour profiles other than sRGB (as `icc.rewritten`), and what `Disclosure.kept` asks for of
dates, camera and rating, as EXIF and XMP have it. Removed: regions of faces, GPS, serial
numbers, personal data in texts with their sentences, thumbnails, maker notes, other dates, software and its history,
identifiers, content credentials (their signature would no longer hold), and texts that hold data instead of words. What
is preserved is chosen by name, so an unknown field is removed; each preserved text passes `clean_text`.

A block that can't be parsed counts as absent; nothing here raises because of one.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from xml.etree import ElementTree as ET

import msgspec
from msgspec import Struct, structs

from imgproc_local.codecs.metadata import exif, iptc, text_sources, xmp, xmp_fields
from imgproc_local.codecs.metadata.blocks import MAX_BLOCK_BYTES, Blocks
from imgproc_local.codecs.metadata.icc import kept_profile
from imgproc_local.codecs.metadata.removed import kinds_in
from imgproc_local.domain.alt_text import is_camera_default, reads_as_a_caption
from imgproc_local.domain.image import Disclosure, EmbeddedMetadata, EmbeddedText, Format, KeepLocation, NamePeople
from imgproc_local.domain.privacy import MAX_TEXT_CHARACTERS, Removed, clean_text

_CREATOR, _RIGHTS, _DESCRIPTION, _SUBJECT = (xmp.DC + name for name in ("creator", "rights", "description", "subject"))
_CREDIT, _DATE_CREATED = xmp.PHOTOSHOP + "Credit", xmp.PHOTOSHOP + "DateCreated"
_ARRAYS = {_CREATOR: "Seq", _SUBJECT: "Bag", xmp.PERSONS: "Bag"}
_LANGUAGE_ALTERNATIVES = (xmp.DC + "title", _DESCRIPTION, _RIGHTS, xmp.RIGHTS + "UsageTerms")
_JOINED = {_RIGHTS: "; ", _CREDIT: "; "}
"""Properties of one text in each language, to which other blocks may add, and what separates the additions. Of all
others, such as titles and captions, the record has the text of the first block that has one."""

_ATTRIBUTION = (_RIGHTS, _CREATOR, _CREDIT, xmp.PHOTOSHOP + "Source", xmp.TIFF, xmp.RIGHTS, xmp.CC, xmp.PLUS)
"""The properties that say whose the picture is. A namespace stands for all its properties."""

_MAX_JPEG_XMP_BYTES, _MAX_JPEG_EXIF_BYTES = 65_502, 65_527
"""What one segment may hold after the bytes that name its content. Source: XMP part 3, 1.1.3; CIPA DC-008, 4.7.2."""
_MAX_CLEANED_CHARACTERS = 128 * 1024
"""Characters in all texts of one file that are searched for private data, which takes up to 8 µs each.

The longest single text that is preserved has 32 Ki. `clean_text` caches its results, so that a text that several blocks
hold is searched once.
"""


class Record(Struct, frozen=True):
    """What the metadata of a file says and may be published, after cleaning, and the kinds of what was removed.

    `properties` are by XMP name and hold those of a gain map, too; `fields` are those of EXIF that are preserved.
    `created` and `camera` are for describers only, and `taken_at` is for `ImageInfo`: none of them is ever written.
    `removed_from_texts` are those of the `removed` kinds that were found in texts of published fields, and UNREADABLE
    if texts or properties were left out because they exceed the bounds.
    """

    properties: xmp.Properties
    icc: bytes | None
    removed: frozenset[Removed]
    removed_from_texts: frozenset[Removed]
    fields: exif.KeptFields = exif.KeptFields()
    created: str | None = None
    camera: str | None = None
    taken_at: str | None = None

    def texts(self, name: str) -> list[str]:
        """The texts of a property: each entry of an array, or its text in the language that comes first."""
        found = xmp.texts(self.properties, name)
        return found if name in _ARRAYS else found[:1]


def read_record(blocks: Blocks, disclosure: Disclosure) -> Record:
    """The record in a file's blocks."""
    packet = xmp.parse(blocks.xmp, blocks.more_xmp)
    persons, are_named = xmp.person_names(packet.properties), disclosure.name_people is NamePeople.ALL
    keep_streets = disclosure.keep_location is KeepLocation.ALL
    clean = _TextCleaner(() if are_named else persons, keep_streets=keep_streets)
    texts_elsewhere = _texts_beside_xmp(blocks, clean, disclosure)
    if are_named and (names := [EmbeddedText(name) for person in persons if (name := clean(person))]):
        texts_elsewhere[xmp.PERSONS] = names
    published, is_complete = xmp_fields.published(packet.properties, clean.of, disclosure)
    if not is_complete:
        clean.removed.add(Removed.UNREADABLE)
    properties = {element.tag: element for element in published}
    for name, others in texts_elsewhere.items():
        properties[name] = _merged(name, properties.get(name), others)
    _renew_marks(properties, packet.properties, clean)
    tiff = blocks.tiff or blocks.exif
    stored, shot = exif.read_ifd(tiff), exif.read_ifd(tiff, exif.EXIF_IFD)
    taken = [_moment(stamp) for stamp in _stamps(shot, packet.properties, blocks)]
    fields = exif.kept_fields(stored, shot, disclosure.kept, clean)
    return Record(
        properties,
        kept_profile(blocks.icc),
        frozenset(clean.removed | clean.dropped) | kinds_in(blocks, packet, fields, disclosure),
        frozenset(clean.removed),
        fields,
        taken[0][:10] if taken[0] else None,
        _camera(stored.text(exif.MAKE), stored.text(exif.MODEL)),
        next(filter(None, taken), None),
    )


def _renew_marks(properties: xmp.Properties, stored: xmp.Properties, clean: _TextCleaner) -> None:
    """Mark the sources of the texts in `properties` as those of the same texts in `stored`, before cleaning."""
    for name, mark_name in text_sources.MARKS.items():
        authors = {clean(text): author for text, author in text_sources.authors(stored, name).items()}
        properties.pop(mark_name, None)
        if marks := text_sources.marks(xmp.language_items(properties, name), authors):
            properties[mark_name] = xmp.from_language_items(mark_name, marks)


_Packed = tuple[Disclosure, bytes | None, Record]
"""A record as it is stored with a job: what it was read with, its properties as an XMP packet, and the rest of it."""


def packed(record: Record, disclosure: Disclosure) -> bytes:
    """The record as bytes, with the `disclosure` that it was read with."""
    # a longer packet would be read as none
    properties = xmp.fitting(list(record.properties.values()), xmp.MAX_XMP_BYTES)
    stored: _Packed = disclosure, xmp.write(properties), structs.replace(record, properties={})
    return msgspec.msgpack.encode(stored)


def unpacked(stored: bytes, disclosure: Disclosure) -> Record | None:
    """The record that was `packed`; None if it was read with another `disclosure`, or by an earlier release."""
    try:
        read_with, packet, record = msgspec.msgpack.decode(stored, type=_Packed)
    except msgspec.ValidationError:
        return None
    return structs.replace(record, properties=xmp.parse(packet).properties) if read_with == disclosure else None


def blocks_for(
    record: Record,
    target: Format,
    *,
    orientation: int = 1,
    gain_map_bytes: int | None = None,
    can_hold_exif: bool = True,
) -> Blocks:
    """The blocks that an output of format `target` carries.

    `orientation` is the EXIF orientation of the stored pixels, `gain_map_bytes` the length of the gain map after them.
    Properties that do not fit into a JPEG's segment are omitted from all blocks, the least important first.
    """
    is_jpeg = target is Format.JPEG
    elements = xmp.fitting(
        xmp_fields.ordered(record.properties, gain_map_bytes=gain_map_bytes),
        _MAX_JPEG_XMP_BYTES if is_jpeg else xmp.MAX_XMP_BYTES,
    )
    written = Record({element.tag: element for element in elements}, None, frozenset(), frozenset())
    fields = {
        tag: "; ".join(written.texts(name)) for tag, name in xmp_fields.EXIF_FIELDS.items() if tag not in exif.XP_FIELDS
    }
    max_bytes = _MAX_JPEG_EXIF_BYTES if is_jpeg else MAX_BLOCK_BYTES
    exif_block = exif.write(fields, orientation, max_bytes, record.fields) if can_hold_exif else None
    stored = exif.read_ifd(exif_block)  # without a text that is too long for it
    in_exif = {name for tag, name in xmp_fields.EXIF_FIELDS.items() if stored.text(tag) == fields.get(tag)}
    if target is not Format.GIF and all(name in in_exif and _is_one_text(written, name) for name in written.properties):
        return Blocks(exif_block, None, None, record.icc)  # EXIF alone says it in a third of the bytes
    datasets = [(number, text) for number, name in xmp_fields.IPTC_DATASETS.items() for text in written.texts(name)]
    return Blocks(exif_block, xmp.write(elements), iptc.write(datasets) if is_jpeg else None, record.icc)


def describes_gain_map(record: Record) -> bool:
    """Whether the properties say how a gain map is applied."""
    return any(name.startswith(xmp.GAIN_MAP) for name in record.properties)


def _is_one_text(record: Record, name: str) -> bool:
    """Whether a property is one text of which no language is known. In EXIF, a semicolon separates creators."""
    if name in _ARRAYS:
        return len(record.texts(name)) == 1 and ";" not in record.texts(name)[0]
    return [language for language, _ in xmp.language_items(record.properties, name)] == ["x-default"]


def embedded(record: Record, name_people: NamePeople = NamePeople.CAPTIONS) -> EmbeddedMetadata:
    """The words and facts of a record for describers, without blank texts and cameras' default captions.

    With `NamePeople.NONE`, the only words are alt texts: in captions, titles and keywords, names can't be told from
    other words.
    """
    properties = record.properties

    def all_of(name: str, *, by_model: bool = False) -> tuple[EmbeddedText, ...]:
        if name_people is NamePeople.NONE and name != xmp.ALT_TEXT:
            return ()
        found: dict[str, EmbeddedText] = {}
        models = text_sources.texts_of_models(properties, name)
        for entry in xmp.alternatives(properties, name):
            if (entry.text in models) is by_model and not is_camera_default(entry.text):
                found.setdefault(" ".join(entry.text.split()), entry)
        return tuple(found.values())

    def place(name: str, field: str) -> str | None:
        texts = xmp.texts(properties, name)
        shown = [xmp.location_field(properties, each, field) for each in ("LocationShown", "LocationCreated")]
        return next((text for text in [*texts, *shown] if text), None)

    return EmbeddedMetadata(
        alt_text=all_of(xmp.ALT_TEXT),
        model_alt_text=all_of(xmp.ALT_TEXT, by_model=True),
        extended_description=all_of(xmp.EXTENDED_DESCRIPTION),
        model_extended_description=all_of(xmp.EXTENDED_DESCRIPTION, by_model=True),
        description=all_of(_DESCRIPTION),
        headline=all_of(xmp.PHOTOSHOP + "Headline"),
        title=all_of(xmp.DC + "title"),
        keywords=all_of(_SUBJECT),
        event=all_of(xmp.EXT + "Event"),
        persons=tuple(dict.fromkeys(xmp.texts(properties, xmp.PERSONS))),
        sublocation=place(xmp.CORE + "Location", "Sublocation"),
        city=place(xmp.PHOTOSHOP + "City", "City"),
        province=place(xmp.PHOTOSHOP + "State", "ProvinceState"),
        country=place(xmp.PHOTOSHOP + "Country", "CountryName"),
        creator=tuple(dict.fromkeys(xmp.texts(properties, _CREATOR))),
        copyright=next(iter(xmp.texts(properties, _RIGHTS)), None),
        created=record.created,
        camera=record.camera,
        removed=tuple(sorted(record.removed_from_texts)),
    )


class _TextCleaner:
    """Cleans the texts of one file, up to `_MAX_CLEANED_CHARACTERS`; further ones become empty.

    A text that several blocks hold counts once, so that a result, which repeats some in EXIF and IPTC, is read as a
    whole. Keywords that are `left_out`, in whatever case, become empty. `removed` are the kinds of what was removed
    from texts, `dropped` those of whole texts that are no captions.
    """

    def __init__(self, left_out: Iterable[str], *, keep_streets: bool) -> None:
        self._left_out = {text.casefold() for text in left_out}
        self.removed: set[Removed] = set()
        self.dropped: set[Removed] = set()
        self._characters_left = _MAX_CLEANED_CHARACTERS
        self._cleaned: dict[tuple[str, bool], str] = {}
        self._keep_streets = keep_streets

    def of(self, name: str) -> Callable[[str], str]:
        """The cleaner of a property's texts. In those that say whose the picture is, it keeps all sentences; marks of
        sources, which `_renew_marks` makes anew, it keeps as they are."""
        if name in text_sources.MARKS.values():
            return str
        if name == _SUBJECT:
            return self._keyword
        return partial(self, keep_sentences=name.startswith(_ATTRIBUTION))

    def _keyword(self, text: str) -> str:
        return "" if text.strip().casefold() in self._left_out else self(text)

    def __call__(self, text: str, *, keep_sentences: bool = False) -> str:
        if (text, keep_sentences) not in self._cleaned:
            self._characters_left -= min(len(text), MAX_TEXT_CHARACTERS)
            if self._characters_left < 0:
                self.removed.add(Removed.UNREADABLE)
                return ""
            cleaned = clean_text(text, keep_sentences=keep_sentences, keep_streets=self._keep_streets)
            self.removed.update(cleaned.removed)
            self._cleaned[text, keep_sentences] = cleaned.text
        return self._cleaned[text, keep_sentences]


def _texts_beside_xmp(blocks: Blocks, clean: _TextCleaner, disclosure: Disclosure) -> dict[str, list[EmbeddedText]]:
    """The texts of IPTC-IIM, of text blocks and of EXIF, cleaned, by the XMP property of the same meaning."""
    found: dict[str, list[EmbeddedText]] = {}

    def add(name: str, text: str, language: str | None = None, *, is_comment: bool = False) -> None:
        words = clean.of(name)(xmp.without_invalid_characters(text)).strip()
        if words and is_comment and not reads_as_a_caption(words):
            clean.dropped.add(Removed.COMMENT)
        elif words and not is_camera_default(words):
            found.setdefault(name, []).append(EmbeddedText(words, language))

    for number, texts in iptc.read(blocks.iptc).texts.items():
        name = xmp_fields.IPTC_DATASETS.get(number)
        if name is not None and xmp_fields.is_allowed(name, disclosure):
            for text in texts:
                add(name, text)
    for block in blocks.texts:
        add(xmp_fields.TEXT_NAMES[block.keyword], block.text, block.language, is_comment=block.keyword == "comment")
    main = exif.read_ifd(blocks.tiff or blocks.exif)
    for tag, name in xmp_fields.EXIF_FIELDS.items():
        for text in main.text(tag).split(";") if name in _ARRAYS else [main.text(tag)]:
            add(name, text)
    return found


def _merged(name: str, stored: ET.Element | None, others: Sequence[EmbeddedText]) -> ET.Element:
    """A property with the texts of other blocks that it lacks; `stored` itself if it lacks none."""
    present = [] if stored is None else xmp.texts({name: stored}, name)
    missing = _missing(present, others, whole=name in (_SUBJECT, xmp.PERSONS))
    if present and name == _DESCRIPTION:  # two captions in one language are mostly two spellings of one
        missing = [entry for entry in missing if entry.language is not None]
    elif present and name not in _ARRAYS and name not in _JOINED:
        missing = []
    if stored is not None and not missing:
        return stored
    if name in _ARRAYS:
        return xmp.array(name, _ARRAYS[name], [*present, *(entry.text for entry in missing)])
    items = [] if stored is None else xmp.language_items({name: stored}, name)
    for entry in missing:
        is_new_language = entry.language is not None and entry.language not in dict(items)
        if not items:
            items.append(("x-default", entry.text))
        elif name in _JOINED and not is_new_language:
            items[0] = items[0][0], f"{items[0][1].strip()}{_JOINED[name]}{entry.text}"
        if is_new_language:
            items.append((entry.language or "", entry.text))
    if name in _LANGUAGE_ALTERNATIVES:
        return xmp.from_language_items(name, items)
    return xmp.simple_property(name, items[0][1])


def _missing(texts: Iterable[str], others: Sequence[EmbeddedText], *, whole: bool) -> list[EmbeddedText]:
    """Those of the `others` that are not in one of the texts or in an earlier one of the others.

    A text that is a part of another is in it: programs cut long texts for IPTC. They also replace letters that are not
    ASCII by question marks, so a text with such marks is compared by its other letters. With `whole`, only equal texts
    are compared, as many as there are; otherwise at most 64 others, because each is compared with each.
    """
    present, missing = dict.fromkeys(map(_comparable, texts)), []
    for entry in others if whole else others[:64]:
        text = _comparable(entry.text)
        is_lossy, letters = "?" in text, _ascii_letters(text)
        longer = () if whole else present
        if text not in present and not any(
            text in each or (is_lossy and letters in _ascii_letters(each)) for each in longer
        ):
            missing.append(entry)
            present[text] = None
    return missing


def _comparable(text: str) -> str:
    return " ".join(text.replace("\ufffd", "?").split()).casefold()


def _ascii_letters(text: str) -> str:
    return "".join(character for character in text if character.isascii() and character != "?").strip()


def _stamps(shot: exif.Ifd, properties: xmp.Properties, blocks: Blocks) -> list[str]:
    """What EXIF, XMP and IPTC say of when the picture was taken, "" where they say nothing.

    Source: Metadata Working Group, Guidelines for Handling Image Metadata 2.0, 5.4.
    """
    in_xmp = ["".join(xmp.texts(properties, name)[:1]) for name in (xmp.EXIF + "DateTimeOriginal", _DATE_CREATED)]
    datasets = iptc.read(blocks.iptc).texts
    day, time = ("".join(datasets.get(number, [])[:1]) for number in (iptc.DATE_CREATED, iptc.TIME_CREATED))
    return [shot.text(exif.DATE_TIME_ORIGINAL), *in_xmp, f"{day}T{time}" if time else day]


def _moment(stamp: str) -> str | None:
    """`YYYY-MM-DDTHH:MM:SS`, in the camera's time, of EXIF's `YYYY:MM:DD HH:MM:SS` or an ISO 8601 date, of which a time
    that is missing or impossible counts as midnight; None if it is no date, such as zeros.
    """
    stamp = re.sub(r"^(\d{4}):(\d\d):(\d\d)", r"\1-\2-\3", stamp)
    for text in (stamp, stamp[:10]):
        with suppress(ValueError):
            return datetime.datetime.fromisoformat(text).replace(tzinfo=None, microsecond=0).isoformat()
    return None


def _camera(make: str, model: str) -> str | None:
    """Make and model, without the make where the model repeats it."""
    if not model:
        return make or None
    return model if not make or model.lower().startswith(make.partition(" ")[0].lower()) else f"{make} {model}"
