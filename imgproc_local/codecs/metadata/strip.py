"""What a picture carries besides its pixels: read into one shape, and what of it is written again.

Kept: who made it and whose it is (copyright, creator, credit, usage terms, licence), its words (alt text, extended
description, title, headline, caption, keywords, persons, event, places by name), how it came to be
(DigitalSourceType), a panorama's projection. Everything else goes: GPS, serial numbers, thumbnails, maker notes,
dates, software and its history, identifiers, content credentials (their signature would no longer
hold). What is kept is chosen by name, so a field nobody thought of is gone.

A block that can't be read counts as absent; nothing here raises because of one.

What must go goes whatever the file's size: within a format each block stays in its own kind, and where the cleaned file
would still not be smaller than the one that came, which then would be served as it is, kept fields are given up, the
least important first, as `cleaned` says.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from imgproc_local.codecs.container import Blocks, Data, Text, avif, gif, jpeg, png, webp
from imgproc_local.codecs.errors import at_border
from imgproc_local.codecs.metadata import exif, iptc, xmp
from imgproc_local.codecs.metadata.icc import kept_profile
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

_EXIF_NAMES = {
    exif.IMAGE_DESCRIPTION: xmp.DC + "description",
    exif.ARTIST: xmp.DC + "creator",
    exif.COPYRIGHT: xmp.DC + "rights",
    exif.XP_TITLE: xmp.DC + "title",
    exif.XP_COMMENT: xmp.DC + "description",
    exif.XP_AUTHOR: xmp.DC + "creator",
    exif.XP_KEYWORDS: xmp.DC + "subject",
    exif.XP_SUBJECT: xmp.DC + "subject",
}
"""The fields of EXIF that stay, and the XMP properties of the same meaning."""

_TEXT_NAMES = {
    "title": xmp.DC + "title",
    "author": xmp.DC + "creator",
    "description": xmp.DC + "description",
    "comment": xmp.DC + "description",
    "copyright": xmp.DC + "rights",
    "disclaimer": xmp.RIGHTS + "UsageTerms",
}
"""PNG's keywords and a GIF's comments likewise. Source: W3C PNG specification, third edition, 11.3.3.1."""

_NO_CAPTION = re.compile(
    r"\b(created|made|generated|edited|optimi[sz]ed|compressed|converted|encoded|exported|processed|resized|saved"
    r"|produced|built|written|animated) (with|by|using|in|from|on)\b"
    r"|\b(gimp|photoshop|adobe|imagemagick|ezgif|giphy|tenor|imgur|ulead|paint|software|converter|encoder|optimizer"
    r"|shareware|unregistered|trial|version|gif|jpe?g|png|webp|lead technologies|gps|latitude|longitude"
    r"|serial|camera)\b"
    r"|https?:|www\.|\.(com|net|org|io|app)\b|@|\bver\.?\s?\d|\bv?\d+\.\d|[={}<>|\\_~^°]",
    re.IGNORECASE,
)
_WORD_WITHOUT_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]{2}")
"""In Thai, Lao, Burmese, Khmer, Japanese and Chinese."""

_MAX_COMMENT_CHARACTERS = 2000

_ARRAYS = {xmp.DC + "creator": "Seq", xmp.DC + "subject": "Bag"}
_LANGUAGE_ALTERNATIVES = (xmp.DC + "title", xmp.DC + "description", xmp.DC + "rights", xmp.RIGHTS + "UsageTerms")
_MAX_XMP_BYTES = 1024 * 1024


def read_blocks(data: Data, form: Format) -> Blocks:
    """The metadata blocks as the file has them. Raises: BrokenImage."""
    return _READERS[form](data)


@at_border("The picture's metadata can't be read")
def read_embedded(path: Path, info: ImageInfo) -> Embedded:
    """The words and facts in the file; XMP, which knows languages, before IPTC-IIM, texts and EXIF.

    Raises: BrokenImage where the file itself, not only a block of it, is damaged.
    """
    with opened(path) as data:
        blocks = read_blocks(data, info.format)
    words, datasets = xmp.parse(blocks.xmp, blocks.more_xmp), iptc.read(blocks.iptc)
    main, shot = exif.read_ifd(blocks.exif or b""), exif.read_ifd(blocks.exif or b"", exif.EXIF_IFD)

    notes = _by_name(blocks.texts)

    def told(name: str, dataset: int | None = None, *more: str) -> tuple[EmbeddedText, ...]:
        found = xmp.alternatives(words, name)
        found += [EmbeddedText(text) for text in (datasets.get(dataset, []) if dataset else [])]
        return _once([*found, *notes.get(name, []), *(EmbeddedText(text) for text in more)])

    def one(name: str, dataset: int | None, *more: str | None) -> str | None:
        plain = [entry.text for entry in xmp.alternatives(words, name)] + (datasets.get(dataset, []) if dataset else [])
        plain += [entry.text for entry in notes.get(name, [])]
        return next((text for text in [*plain, *more] if text), None)

    creators = xmp.texts(words, xmp.DC + "creator") + datasets.get(iptc.BYLINE, [])
    creators += [entry.text for entry in notes.get(xmp.DC + "creator", [])]
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
        copyright=one(xmp.DC + "rights", iptc.COPYRIGHT, exif.copyright_text(main.get(exif.COPYRIGHT))),
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


def kept(
    blocks: Blocks, source: Format, target: Format, *, orientation: int = 1, gain_map_bytes: int | None = None
) -> Blocks:
    """The blocks that an output of format `target` carries; the profile stays as it is where it means more than sRGB.

    Within a format each block stays what it is. Another format gets one XMP packet into which IPTC, EXIF and texts are
    merged, and EXIF's copyright, artist and caption.
    `orientation` is what EXIF says of unturned pixels, `gain_map_bytes` how long the gain map behind them is.
    """
    return _kept(blocks, source, target, orientation, gain_map_bytes)


def _kept(
    blocks: Blocks,
    source: Format,
    target: Format,
    orientation: int,
    gain_map_bytes: int | None,
    form: xmp.Form = xmp.Form.PLAIN,
    most: int = xmp.WEIGHTS,
) -> Blocks:
    def stays(name: str) -> bool:
        weight = xmp.weight(name)
        return weight is not None and weight < most

    main = exif.read_ifd(blocks.exif or b"")
    fields = _EXIF_NAMES if source is target else {tag: _EXIF_NAMES[tag] for tag in _EXIF_NAMES if tag < exif.XP_TITLE}
    raw = {tag: value for tag, name in fields.items() if isinstance(value := main.get(tag), bytes) and stays(name)}
    if _CAMERA_PHRASES.fullmatch(exif.text(raw.get(exif.IMAGE_DESCRIPTION))):
        del raw[exif.IMAGE_DESCRIPTION]
    written, profile, words = (
        exif.write(raw, orientation),
        kept_profile(blocks.icc),
        xmp.parse(blocks.xmp, blocks.more_xmp),
    )
    limit = jpeg.MAX_XMP_BYTES if target is Format.JPEG else _MAX_XMP_BYTES
    datasets: bytes | None = None
    texts: tuple[Text, ...] = ()
    if source is not target:
        words = _merged(words, blocks)
    else:
        datasets = iptc.cut(blocks.iptc, [number for number in iptc.KEPT if stays(_name_of_dataset(number))])
        texts = tuple(text for text in _told(blocks.texts) if stays(_TEXT_NAMES[text.keyword]))
    packet = xmp.write(xmp.kept(words, gain_map_bytes=gain_map_bytes, most=most), limit, form)
    return Blocks(written, packet, datasets, profile, texts)


def cleaned(
    data: Data,
    blocks: Blocks,
    form: Format,
    write: Callable[[Blocks, bool], bytes],
    *,
    orientation: int = 1,
    gain_map_bytes: int | None = None,
) -> bytes:
    """The file with the same picture data and only the metadata that may stay: smaller wherever something had to go.

    `write` makes it of the blocks; its second argument asks for the shortest form. Where the usual form is not smaller
    and something must go, XMP is written shorter. Where that isn't either, kept fields go too until it is: from the
    last of `xmp`'s weights up, in all blocks at once, so that places and persons go first, then caption and title, then
    licences, then alt text, and the creator and the copyright last. That is so only where blocks were stored in ways
    that can't be written again: fields that share their bytes, a text packed together with much else.
    """
    clean = write(_kept(blocks, form, form, orientation, gain_map_bytes), False)
    if len(clean) < len(data) or not _something_goes(data, blocks, form, write, orientation, gain_map_bytes):
        return clean
    forms = [(xmp.Form.BARE, xmp.WEIGHTS), *((xmp.Form.SHORT, most) for most in range(xmp.WEIGHTS, -1, -1))]
    for short, most in forms:
        shorter = write(_kept(blocks, form, form, orientation, gain_map_bytes, short, most), True)
        if len(shorter) < len(data):
            return shorter
    return clean


def _something_goes(
    data: Data,
    blocks: Blocks,
    form: Format,
    write: Callable[[Blocks, bool], bytes],
    orientation: int,
    gain_map_bytes: int | None,
) -> bool:
    """Whether the file holds more than it may keep."""
    all_stays = _kept(blocks, form, form, orientation, gain_map_bytes)
    main, words = exif.read_ifd(blocks.exif or b""), xmp.parse(blocks.xmp, blocks.more_xmp)
    if set(main) - {*_EXIF_NAMES, exif.ORIENTATION}:
        return True
    # other IFDs, and what no field points to
    if blocks.exif not in (None, avif.NO_EXIF) and len(blocks.exif or b"") > len(all_stays.exif or b""):
        return True
    if xmp.parts(words.values()) != xmp.parts(xmp.kept(words, gain_map_bytes=gain_map_bytes)):
        return True
    if not words and blocks.xmp not in (None, avif.NO_XMP):
        return True
    if all_stays.texts != blocks.texts or iptc.cut(blocks.iptc, iptc.KEPT) != blocks.iptc:
        return True
    # with the blocks as they are only what lies outside of them is missing
    packed = blocks.xmp is not None and data.find(blocks.xmp) < 0
    return len(write(blocks, packed)) < len(data)


def _told(texts: Iterable[Text]) -> list[Text]:
    """The PNG texts and GIF comments that a person wrote, as far as that can be told."""
    return [
        text
        for text in texts
        if not _CAMERA_PHRASES.fullmatch(text.text) and (text.keyword != "comment" or reads_as_a_caption(text.text))
    ]


def reads_as_a_caption(comment: str) -> bool:
    """Whether a comment is words about the picture, not a program's advertisement, settings or a position."""
    comment = " ".join(comment.split())
    several_words = sum(_letters(word) >= 2 for word in comment.split()) >= 2
    return (
        0 < len(comment) <= _MAX_COMMENT_CHARACTERS
        and _letters(comment) + sum(comment.count(sign) for sign in " ,.;:!?'’-–") >= 0.85 * len(comment)
        and (several_words or bool(_WORD_WITHOUT_SPACES.search(comment)))
        and not _NO_CAPTION.search(comment)
    )


def _letters(text: str) -> int:
    """How many letters there are, and marks that belong to letters."""
    return sum(unicodedata.category(character)[0] in "LM" for character in text)


def _name_of_dataset(number: int) -> str:
    """The XMP property that a dataset weighs as."""
    return _TO_IPTC.get(number, xmp.CORE + "CreatorContactInfo")


def _by_name(texts: Iterable[Text]) -> dict[str, list[EmbeddedText]]:
    """What the PNG texts and GIF comments that stay say, by the XMP property of the same meaning."""
    found: dict[str, list[EmbeddedText]] = {}
    for text in _told(texts):
        found.setdefault(_TEXT_NAMES[text.keyword], []).append(EmbeddedText(text.text, text.language))
    return found


def _merged(words: xmp.Properties, blocks: Blocks) -> xmp.Properties:
    """The XMP properties, those that it lacks filled from IPTC, then from texts, then from EXIF.

    Where IPTC or a text names other creators or rights than XMP does, both stay; EXIF's stay where they are.
    """
    found = dict(words)
    datasets, main, notes = iptc.read(blocks.iptc), exif.read_ifd(blocks.exif or b""), _by_name(blocks.texts)
    fallback = {
        xmp.DC + "rights": [exif.copyright_text(main.get(exif.COPYRIGHT))],
        xmp.DC + "creator": [exif.text(main.get(exif.ARTIST)) or exif.wide_text(main.get(exif.XP_AUTHOR))],
        xmp.DC + "description": [
            exif.text(main.get(exif.IMAGE_DESCRIPTION)) or exif.wide_text(main.get(exif.XP_COMMENT))
        ],
        xmp.DC + "title": [exif.wide_text(main.get(exif.XP_TITLE))],
        xmp.DC + "subject": exif.wide_text(main.get(exif.XP_KEYWORDS)).split(";"),
    }
    for dataset, name in [*_TO_IPTC.items(), (None, xmp.RIGHTS + "UsageTerms")]:
        told = [EmbeddedText(text) for text in (datasets.get(dataset, []) if dataset else [])]
        values = _once(told or notes.get(name) or (EmbeddedText(text) for text in fallback.get(name, [])))
        if values and not xmp.texts(found, name):
            found[name] = _property(name, values)
    author = exif.wide_text(main.get(exif.XP_AUTHOR))
    told_elsewhere = {
        xmp.DC + "rights": datasets.get(iptc.COPYRIGHT, []),
        xmp.DC + "creator": [*datasets.get(iptc.BYLINE, []), *author.split(";")],
        xmp.PHOTOSHOP + "Credit": datasets.get(iptc.CREDIT, []),
    }
    for name, others in told_elsewhere.items():
        for other in (text.strip() for text in [*others, *(entry.text for entry in notes.get(name, []))]):
            if other and not any(_is_told_in(text, other) for text in xmp.texts(found, name)):
                found[name] = xmp.told_more(found[name], [other])
    return found


def _is_told_in(told: str, other: str) -> bool:
    """Whether a text holds another, of which IPTC may have lost the end, and letters that became question marks."""
    spelling = "".join("." if letter in "?\ufffd" else re.escape(letter) for letter in " ".join(other.split()))
    return re.search(spelling, " ".join(told.split()), re.IGNORECASE) is not None


def _property(name: str, values: Sequence[EmbeddedText]) -> ET.Element:
    if name in _ARRAYS:
        return xmp.array(name, _ARRAYS[name], [entry.text for entry in values])
    if name in _LANGUAGE_ALTERNATIVES:
        return xmp.language_alternative(name, values)
    return xmp.single(name, values[0].text)
