"""The words and facts that a picture carries, gathered from its blocks into one shape for describers.

Only what may be published is read: the same cleaning as for outputs, so no text can repeat what a file may not say.
"""

from __future__ import annotations

import datetime

from imgproc_local.codecs.metadata import exif, iptc, strip, xmp
from imgproc_local.codecs.metadata.blocks import Blocks
from imgproc_local.domain.image import EmbeddedMetadata, EmbeddedText, KeepLocation


def embedded(blocks: Blocks, keep_location: KeepLocation) -> EmbeddedMetadata:
    """The words and facts in a file's blocks; XMP, which has languages, before IPTC-IIM, texts and EXIF."""
    published = strip.publishable(blocks, keep_location)
    words, datasets, main = published.xmp, iptc.read(published.iptc), published.exif
    texts = strip.by_name(published.texts)

    def all_of(name: str, dataset: int | None = None, *more: str) -> tuple[EmbeddedText, ...]:
        found = xmp.alternatives(words, name)
        found += [EmbeddedText(text) for text in (datasets.get(dataset, []) if dataset else [])]
        return strip.unique([*found, *texts.get(name, []), *(EmbeddedText(text) for text in more)])

    def first_of(name: str, dataset: int, *more: str | None) -> str | None:
        found = [entry.text for entry in xmp.alternatives(words, name)] + datasets.get(dataset, [])
        found += [entry.text for entry in texts.get(name, [])]
        return next((text for text in [*found, *more] if text), None)

    creators = xmp.texts(words, xmp.DC + "creator") + datasets.get(iptc.BYLINE, [])
    creators += [entry.text for entry in texts.get(xmp.DC + "creator", [])]
    artist = exif.text(main.get(exif.ARTIST)) or exif.wide_text(main.get(exif.XP_AUTHOR))
    creators += [name.strip() for name in artist.split(";") if name.strip()]
    xp_keywords = [word.strip() for word in exif.wide_text(main.get(exif.XP_KEYWORDS)).split(";") if word.strip()]
    stored, shot = exif.read_ifd(blocks.exif or b""), exif.read_ifd(blocks.exif or b"", exif.EXIF_IFD)
    return EmbeddedMetadata(
        alt_text=all_of(xmp.ALT_TEXT),
        extended_description=all_of(xmp.EXTENDED_DESCRIPTION),
        description=all_of(
            xmp.DC + "description",
            iptc.CAPTION,
            exif.text(main.get(exif.IMAGE_DESCRIPTION)),
            exif.wide_text(main.get(exif.XP_COMMENT)),
        ),
        headline=all_of(xmp.PHOTOSHOP + "Headline", iptc.HEADLINE),
        title=all_of(xmp.DC + "title", iptc.OBJECT_NAME, exif.wide_text(main.get(exif.XP_TITLE))),
        keywords=all_of(xmp.DC + "subject", iptc.KEYWORDS, *xp_keywords),
        event=all_of(xmp.EXT + "Event"),
        persons=tuple(dict.fromkeys(xmp.texts(words, xmp.EXT + "PersonInImage"))),
        sublocation=first_of(xmp.CORE + "Location", iptc.SUBLOCATION, _place(words, "Sublocation")),
        city=first_of(xmp.PHOTOSHOP + "City", iptc.CITY, _place(words, "City")),
        province=first_of(xmp.PHOTOSHOP + "State", iptc.PROVINCE, _place(words, "ProvinceState")),
        country=first_of(xmp.PHOTOSHOP + "Country", iptc.COUNTRY, _place(words, "CountryName")),
        creator=tuple(dict.fromkeys(creators)),
        copyright=first_of(xmp.DC + "rights", iptc.COPYRIGHT, exif.copyright_text(main.get(exif.COPYRIGHT))),
        created=_date(exif.text(shot.get(exif.DATE_TIME_ORIGINAL))),
        camera=_camera(exif.text(stored.get(exif.MAKE)), exif.text(stored.get(exif.MODEL))),
        gps=exif.degrees(exif.read_ifd(blocks.exif or b"", exif.GPS_IFD)),
        removed=tuple(sorted(published.removed_from_texts)),
    )


def _place(words: xmp.Properties, field: str) -> str | None:
    return xmp.location_field(words, "LocationShown", field) or xmp.location_field(words, "LocationCreated", field)


def _date(stamp: str) -> str | None:
    """`YYYY-MM-DD` of EXIF's `YYYY:MM:DD HH:MM:SS`; cameras with an unset clock write zeros or their factory's year."""
    try:
        return datetime.date(int(stamp[0:4]), int(stamp[5:7]), int(stamp[8:10])).isoformat()
    except ValueError:
        return None


def _camera(make: str, model: str) -> str | None:
    """Make and model, without the make where the model repeats it."""
    if not model:
        return make or None
    return model if not make or model.lower().startswith(make.partition(" ")[0].lower()) else f"{make} {model}"
