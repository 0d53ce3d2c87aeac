"""What a picture carries besides its pixels: read into one shape, and what of it is written again.

Kept: who made it and whose it is (copyright, creator, credit, usage terms, licence), its words (alt text, extended
description, title, headline, caption, keywords, persons, event, places by name), how it came to be
(DigitalSourceType), a panorama's projection. Everything else goes: GPS, serial numbers, thumbnails, maker notes,
dates, software and its history, identifiers, content credentials (their signature would no longer
hold). What is kept is chosen by name, so a field nobody thought of is gone.

A block that can't be read counts as absent; nothing here raises because of one.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree as ET

from imgproc_local.codecs import exif, iptc, xmp
from imgproc_local.codecs.border import at_border
from imgproc_local.codecs.container import Blocks, Data, avif, gif, jpeg, png, webp
from imgproc_local.codecs.icc import kept_profile
from imgproc_local.codecs.probe import opened
from imgproc_local.domain.image import Embedded, EmbeddedText, Format, ImageInfo

_READERS = {
    Format.JPEG: jpeg.read_blocks,
    Format.PNG: png.read_blocks,
    Format.GIF: gif.read_blocks,
    Format.WEBP: webp.read_blocks,
    Format.AVIF: avif.read_blocks,
}

_CAMERA_PHRASES = re.compile(
    r"(olympus|minolta|kodak|konica|samsung|sony|nikon|ricoh|pentax|casio|vivitar)?[ <]*"
    r"(digital (still )?camera|dsc|digimax.*|kenox.*|dcim|exif_jpeg_picture|jpeg|untitled|default|charset=.*)>?",
    re.IGNORECASE,
)
"""What cameras put into the caption by themselves."""

_TO_IPTC = {
    iptc.OBJECT_NAME: xmp.DC + "title",
    iptc.CAPTION: xmp.DC + "description",
    iptc.COPYRIGHT: xmp.DC + "rights",
    iptc.BYLINE: xmp.DC + "creator",
    iptc.KEYWORDS: xmp.DC + "subject",
    iptc.HEADLINE: xmp.PHOTOSHOP + "Headline",
    iptc.CREDIT: xmp.PHOTOSHOP + "Credit",
    iptc.SOURCE: xmp.PHOTOSHOP + "Source",
    iptc.INSTRUCTIONS: xmp.PHOTOSHOP + "Instructions",
    iptc.BYLINE_TITLE: xmp.PHOTOSHOP + "AuthorsPosition",
    iptc.CAPTION_WRITER: xmp.PHOTOSHOP + "CaptionWriter",
    iptc.CITY: xmp.PHOTOSHOP + "City",
    iptc.PROVINCE: xmp.PHOTOSHOP + "State",
    iptc.COUNTRY: xmp.PHOTOSHOP + "Country",
    iptc.COUNTRY_CODE: xmp.CORE + "CountryCode",
    iptc.SUBLOCATION: xmp.CORE + "Location",
}
"""IIM datasets and the XMP properties of the same meaning. Source: IPTC Photo Metadata Standard, mapping guidelines."""

_ARRAYS = {xmp.DC + "creator": "Seq", xmp.DC + "subject": "Bag"}
_LANGUAGE_ALTERNATIVES = (xmp.DC + "title", xmp.DC + "description", xmp.DC + "rights")
_MAX_XMP_BYTES = 1024 * 1024


def read_blocks(data: Data, form: Format) -> Blocks:
    """The metadata blocks as the file has them. Raises: BrokenImage."""
    return _READERS[form](data)


@at_border("The picture's metadata can't be read")
def read_embedded(path: Path, info: ImageInfo) -> Embedded:
    """The words and facts in the file; XMP, which knows languages, before IPTC-IIM before EXIF.

    Raises: BrokenImage where the file itself, not only a block of it, is damaged.
    """
    with opened(path) as data:
        blocks = read_blocks(data, info.format)
    words, datasets = xmp.parse(blocks.xmp), iptc.read(blocks.iptc)
    main, shot = exif.read_ifd(blocks.exif or b""), exif.read_ifd(blocks.exif or b"", exif.EXIF_IFD)

    def told(name: str, dataset: int | None = None, *more: str) -> tuple[EmbeddedText, ...]:
        found = xmp.alternatives(words, name)
        found += [EmbeddedText(text) for text in (datasets.get(dataset, []) if dataset else [])]
        return _once([*found, *(EmbeddedText(text) for text in more)])

    def one(name: str, dataset: int | None, *more: str | None) -> str | None:
        plain = [entry.text for entry in xmp.alternatives(words, name)] + (datasets.get(dataset, []) if dataset else [])
        return next((text for text in [*plain, *more] if text), None)

    creators = xmp.texts(words, xmp.DC + "creator") + datasets.get(iptc.BYLINE, [])
    artist = exif.text(main.get(exif.ARTIST)) or exif.wide_text(main.get(exif.XP_AUTHOR))
    creators += [name.strip() for name in artist.split(";") if name.strip()]
    xp_keywords = [word.strip() for word in exif.wide_text(main.get(exif.XP_KEYWORDS)).split(";") if word.strip()]
    return Embedded(
        alt_text=told(xmp.ALT_TEXT),
        extended_description=told(xmp.EXTENDED_DESCRIPTION),
        description=told(
            xmp.DC + "description",
            iptc.CAPTION,
            exif.text(main.get(exif.IMAGE_DESCRIPTION)),
            exif.wide_text(main.get(exif.XP_COMMENT)),
        ),
        headline=told(xmp.PHOTOSHOP + "Headline", iptc.HEADLINE),
        title=told(xmp.DC + "title", iptc.OBJECT_NAME, exif.wide_text(main.get(exif.XP_TITLE))),
        keywords=told(xmp.DC + "subject", iptc.KEYWORDS, *xp_keywords),
        event=told(xmp.EXT + "Event"),
        persons=tuple(dict.fromkeys(xmp.texts(words, xmp.EXT + "PersonInImage"))),
        sublocation=one(xmp.CORE + "Location", iptc.SUBLOCATION, _place(words, "Sublocation")),
        city=one(xmp.PHOTOSHOP + "City", iptc.CITY, _place(words, "City")),
        province=one(xmp.PHOTOSHOP + "State", iptc.PROVINCE, _place(words, "ProvinceState")),
        country=one(xmp.PHOTOSHOP + "Country", iptc.COUNTRY, _place(words, "CountryName")),
        creator=tuple(dict.fromkeys(creators)),
        copyright=one(xmp.DC + "rights", iptc.COPYRIGHT, exif.text(main.get(exif.COPYRIGHT))),
        created=_date(exif.text(shot.get(exif.DATE_TIME_ORIGINAL))),
        camera=_camera(exif.text(main.get(exif.MAKE)), exif.text(main.get(exif.MODEL))),
        gps=exif.degrees(exif.read_ifd(blocks.exif or b"", exif.GPS_IFD)),
    )


def _once(texts: Iterable[EmbeddedText]) -> tuple[EmbeddedText, ...]:
    """Each text once, the first time it comes; blank ones and cameras' own phrases dropped."""
    found: dict[str, EmbeddedText] = {}
    for entry in texts:
        key = " ".join(entry.text.split())
        if key and not _CAMERA_PHRASES.fullmatch(key):
            found.setdefault(key, EmbeddedText(entry.text.strip(), entry.language))
    return tuple(found.values())


def _place(words: xmp.Properties, field: str) -> str | None:
    return xmp.place(words, "LocationShown", field) or xmp.place(words, "LocationCreated", field)


def _date(stamp: str) -> str | None:
    """`YYYY-MM-DD` of EXIF's `YYYY:MM:DD HH:MM:SS`; cameras with an empty clock write zeros or their factory's year."""
    try:
        return datetime.date(int(stamp[0:4]), int(stamp[5:7]), int(stamp[8:10])).isoformat()
    except ValueError:
        return None


def _camera(make: str, model: str) -> str | None:
    """Make and model, the make not said twice."""
    if not model:
        return make or None
    return model if not make or model.lower().startswith(make.partition(" ")[0].lower()) else f"{make} {model}"


def kept(blocks: Blocks, source: Format, target: Format, *, orientation: int = 1, gain_map: bool = False) -> Blocks:
    """The blocks that an output of format `target` carries; the profile stays as it is where it means more than sRGB.

    A JPEG made from a JPEG has the same kinds of blocks as before; everything else gets one XMP packet into which IPTC
    and EXIF are merged, and EXIF's copyright, artist and caption. `orientation` is what EXIF says of unturned pixels.
    """
    main = exif.read_ifd(blocks.exif or b"")
    texts = {tag: main.get(tag) for tag in (exif.IMAGE_DESCRIPTION, exif.ARTIST, exif.COPYRIGHT)}
    raw = {tag: value for tag, value in texts.items() if isinstance(value, bytes)}
    if _CAMERA_PHRASES.fullmatch(exif.text(raw.get(exif.IMAGE_DESCRIPTION))):
        del raw[exif.IMAGE_DESCRIPTION]
    written = exif.write(raw, orientation)
    profile = kept_profile(blocks.icc)
    words = xmp.parse(blocks.xmp)
    if source is target is Format.JPEG:
        datasets = iptc.read(blocks.iptc)
        again = iptc.write((number, text) for number in iptc.KEPT for text in datasets.get(number, []))
        return Blocks(written, xmp.write(xmp.kept(words, gain_map=gain_map), jpeg.MAX_XMP_BYTES), again, profile)
    limit = jpeg.MAX_XMP_BYTES if target is Format.JPEG else _MAX_XMP_BYTES
    return Blocks(written, xmp.write(xmp.kept(_merged(words, blocks)), limit), None, profile)


def _merged(words: xmp.Properties, blocks: Blocks) -> xmp.Properties:
    """The XMP properties, those that it lacks filled from IPTC and then from EXIF."""
    found = dict(words)
    datasets, main = iptc.read(blocks.iptc), exif.read_ifd(blocks.exif or b"")
    fallback = {
        xmp.DC + "rights": [exif.text(main.get(exif.COPYRIGHT))],
        xmp.DC + "creator": [exif.text(main.get(exif.ARTIST)) or exif.wide_text(main.get(exif.XP_AUTHOR))],
        xmp.DC + "description": [
            exif.text(main.get(exif.IMAGE_DESCRIPTION)) or exif.wide_text(main.get(exif.XP_COMMENT))
        ],
        xmp.DC + "title": [exif.wide_text(main.get(exif.XP_TITLE))],
        xmp.DC + "subject": exif.wide_text(main.get(exif.XP_KEYWORDS)).split(";"),
    }
    for dataset, name in _TO_IPTC.items():
        values = datasets.get(dataset) or fallback.get(name, [])
        values = [text.strip() for text in values if text.strip() and not _CAMERA_PHRASES.fullmatch(text.strip())]
        if values and name not in found:
            found[name] = _property(name, values)
    return found


def _property(name: str, values: list[str]) -> ET.Element:
    if name in _ARRAYS:
        return xmp.array(name, _ARRAYS[name], values)
    if name in _LANGUAGE_ALTERNATIVES:
        return xmp.language_alternative(name, values[0])
    return xmp.single(name, values[0])
