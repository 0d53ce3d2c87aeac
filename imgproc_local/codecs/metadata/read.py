"""The words and facts in a picture's metadata blocks, merged into one struct for describers.

Words are read from the metadata that may be published, so that no description repeats what results must not contain.
Date, camera and position are read as stored, although results never carry them: describers decide what they use.
"""

from __future__ import annotations

import datetime

from imgproc_local.codecs.metadata import exif, iptc, strip, xmp
from imgproc_local.codecs.metadata.blocks import Blocks
from imgproc_local.domain.image import EmbeddedMetadata, EmbeddedText, KeepLocation


def embedded(blocks: Blocks, keep_location: KeepLocation) -> EmbeddedMetadata:
    """The words and facts in a file's blocks; those of XMP, which has languages, first, then IPTC-IIM, texts, EXIF."""
    published = strip.publishable(blocks, keep_location)
    properties, datasets, fields = published.xmp, iptc.read(published.iptc), published.exif
    texts = strip.texts_by_property(published.texts)

    def all_of(name: str, dataset: int | None = None, *more: str) -> tuple[EmbeddedText, ...]:
        found = xmp.alternatives(properties, name)
        found += [EmbeddedText(text) for text in (datasets.get(dataset, []) if dataset else [])]
        return strip.unique([*found, *texts.get(name, []), *(EmbeddedText(text) for text in more)])

    def first_of(name: str, dataset: int, *more: str | None) -> str | None:
        found = [entry.text for entry in xmp.alternatives(properties, name)] + datasets.get(dataset, [])
        found += [entry.text for entry in texts.get(name, [])]
        return next((text for text in [*found, *more] if text), None)

    creators = xmp.texts(properties, xmp.DC + "creator") + datasets.get(iptc.BYLINE, [])
    creators += [entry.text for entry in texts.get(xmp.DC + "creator", [])]
    artist = exif.text(fields.get(exif.ARTIST)) or exif.wide_text(fields.get(exif.XP_AUTHOR))
    creators += [name.strip() for name in artist.split(";") if name.strip()]
    xp_keywords = [word.strip() for word in exif.wide_text(fields.get(exif.XP_KEYWORDS)).split(";") if word.strip()]
    stored, shot = exif.read_ifd(blocks.exif or b""), exif.read_ifd(blocks.exif or b"", exif.EXIF_IFD)
    marks = {mark for _, mark in xmp.language_items(properties, xmp.ALT_TEXT_SOURCE)}
    alt_texts = all_of(xmp.ALT_TEXT)
    return EmbeddedMetadata(
        alt_text=tuple(each for each in alt_texts if xmp.text_mark(each.text) not in marks),
        model_alt_text=tuple(each for each in alt_texts if xmp.text_mark(each.text) in marks),
        extended_description=all_of(xmp.EXTENDED_DESCRIPTION),
        description=all_of(
            xmp.DC + "description",
            iptc.CAPTION,
            exif.text(fields.get(exif.IMAGE_DESCRIPTION)),
            exif.wide_text(fields.get(exif.XP_COMMENT)),
        ),
        headline=all_of(xmp.PHOTOSHOP + "Headline", iptc.HEADLINE, exif.wide_text(fields.get(exif.XP_SUBJECT))),
        title=all_of(xmp.DC + "title", iptc.OBJECT_NAME, exif.wide_text(fields.get(exif.XP_TITLE))),
        keywords=all_of(xmp.DC + "subject", iptc.KEYWORDS, *xp_keywords),
        event=all_of(xmp.EXT + "Event"),
        persons=tuple(dict.fromkeys(xmp.texts(properties, xmp.EXT + "PersonInImage"))),
        sublocation=first_of(xmp.CORE + "Location", iptc.SUBLOCATION, _place(properties, "Sublocation")),
        city=first_of(xmp.PHOTOSHOP + "City", iptc.CITY, _place(properties, "City")),
        province=first_of(xmp.PHOTOSHOP + "State", iptc.PROVINCE, _place(properties, "ProvinceState")),
        country=first_of(xmp.PHOTOSHOP + "Country", iptc.COUNTRY, _place(properties, "CountryName")),
        creator=tuple(dict.fromkeys(creators)),
        copyright=first_of(xmp.DC + "rights", iptc.COPYRIGHT, exif.copyright_text(fields.get(exif.COPYRIGHT))),
        created=_date(exif.text(shot.get(exif.DATE_TIME_ORIGINAL))),
        camera=_camera(exif.text(stored.get(exif.MAKE)), exif.text(stored.get(exif.MODEL))),
        removed=tuple(sorted(published.removed_from_texts)),
    )


def _place(properties: xmp.Properties, field: str) -> str | None:
    return xmp.location_field(properties, "LocationShown", field) or xmp.location_field(
        properties, "LocationCreated", field
    )


def _date(stamp: str) -> str | None:
    """`YYYY-MM-DD` of EXIF's `YYYY:MM:DD HH:MM:SS`; None if it is no date, such as zeros."""
    try:
        return datetime.date(int(stamp[0:4]), int(stamp[5:7]), int(stamp[8:10])).isoformat()
    except ValueError:
        return None


def _camera(make: str, model: str) -> str | None:
    """Make and model, without the make where the model repeats it."""
    if not model:
        return make or None
    return model if not make or model.lower().startswith(make.partition(" ")[0].lower()) else f"{make} {model}"
