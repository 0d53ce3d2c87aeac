"""Writes alt texts into picture files, as XMP that other programs read, and into sidecar files; and a person's caption,
keywords and credit.

The texts of all languages become `Iptc4xmpCore:AltTextAccessibility` and `ExtDescrAccessibility`, language alternatives
with `x-default` first, and marks beside them say who wrote them (`metadata/text_sources.py`). Only these properties
change: pixels, profile, orientation and other metadata are copied bit for bit; other XMP properties keep their meaning.
A file grows by the texts, so a result can become larger than its original.

Of a caption, keywords and a credit, EXIF and IPTC-IIM must not say other words than XMP, so a file that gets some has
all its metadata written anew, in the form of results (`metadata/record.py`).
Source: IPTC Photo Metadata Standard 2025.1; ISO 16684-1; Metadata Working Group, Guidelines 2.0, 5.1 to 5.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path

from msgspec import Struct, structs

from imgproc_local.codecs import jxl
from imgproc_local.codecs.container import Data, jpeg
from imgproc_local.codecs.metadata import exif, record, text_sources, xmp
from imgproc_local.codecs.metadata.text_sources import Author
from imgproc_local.codecs.metadata.xmp import MAX_XMP_BYTES, MAX_XMP_DEPTH
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.codecs.picture.libvips import translate_errors
from imgproc_local.codecs.picture.source import jpeg_in, opened, with_record
from imgproc_local.domain.errors import CheckStop, StageFailed
from imgproc_local.domain.image import EVERYTHING, Format, ImageInfo
from imgproc_local.domain.result import TextSource, Translation, Words

_DEFAULT = "x-default"
_NO_WORDS = Words()


class FileText(Struct, frozen=True):
    """A text to write, and who wrote it."""

    text: str
    author: Author


class FileTexts(Struct, frozen=True):
    """The texts to write into a file, by language code, the first language being that of `x-default`."""

    alt_texts: dict[str, FileText] = {}
    extended_descriptions: dict[str, FileText] = {}


def texts_to_write(translations: Iterable[Translation]) -> FileTexts:
    """The texts that may be written into files: those that a person or a model wrote.

    A long description is the model's where one is named; otherwise it is from the file, or a person edited it.
    """
    alt_texts, extended_descriptions = {}, {}
    for each in translations:
        if each.belongs_in_files:
            alt_texts[each.language_code] = FileText(each.seo_alt_text, Author(each.source, each.model))
        if each.long_description.strip():
            edited = TextSource.PERSON if each.source is TextSource.PERSON else TextSource.EMBEDDED
            source = TextSource.VISION if each.model else edited
            extended_descriptions[each.language_code] = FileText(each.long_description, Author(source, each.model))
    return FileTexts(alt_texts, extended_descriptions)


def _word_properties(words: Words) -> xmp.Properties:
    """The XMP properties of the words that are set, by name; those of empty words have no text."""
    caption, subject, credit = xmp.DC + "description", xmp.DC + "subject", xmp.PHOTOSHOP + "Credit"
    found: xmp.Properties = {}
    if words.caption is not None:
        found[caption] = xmp.from_language_items(caption, [(_DEFAULT, words.caption)])
    if words.keywords is not None:
        found[subject] = xmp.array(subject, "Bag", words.keywords)
    if words.credit is not None:
        found[credit] = xmp.simple_property(credit, words.credit)
    return found


def _with_properties(data: Data, file_format: Format, properties: xmp.Properties) -> bytes:
    """The file with all its metadata written anew, with these properties in place of its own, if they have a text."""
    blocks = FORMATS[file_format].container.read_blocks(data)
    read = record.read_record(blocks, EVERYTHING)
    others = {name: element for name, element in read.properties.items() if name not in properties}
    merged = others | {name: element for name, element in properties.items() if xmp.texts(properties, name)}
    new, orientation = structs.replace(read, properties=merged, icc=blocks.icc), exif.orientation(blocks.exif)
    gain_map = jpeg.gain_map(data) if file_format is Format.JPEG else None
    if gain_map is None:
        return with_record(data, file_format, new, orientation)
    described = record.blocks_for(new, file_format, orientation=orientation, gain_map_bytes=len(gain_map))
    return jpeg.with_blocks_and_gain_map(data, described, gain_map)


@translate_errors("The texts can't be written into the picture")
def write_alt_texts(
    path: Path,
    info: ImageInfo,
    file_texts: FileTexts,
    check_stop: CheckStop,
    *,
    overwrite: bool = False,
    words: Words = _NO_WORDS,
) -> bytes:
    """The file with these texts in its XMP, and these words; its own bytes if nothing has to be added or replaced.

    A text in the file is replaced with `overwrite`, by an edited text, or if a model wrote it. Texts in other languages
    remain, and so does an `x-default`, unless it repeats a text that is replaced, or the first language is replaced.
    Writing the same texts again changes nothing.
    Raises: BrokenImage; StageFailed if the file's XMP can't be parsed or the format can't hold the texts; and what
    `check_stop` raises.
    """
    check_stop()
    if FORMATS[info.format].with_xmp is None:
        raise StageFailed(
            f"No texts can be written into a {FORMATS[info.format].name}: write a sidecar file, or use the optimized"
            " file."
        )
    with opened(path) as stored:
        original = jpeg_in(stored) if info.format is Format.JXL else None
        if original is None:
            return _written(stored, info.format, file_texts, check_stop, overwrite=overwrite, words=words)
        # a JPEG can only be rebuilt together with its own metadata: the texts are written into it
        written = _written(original, Format.JPEG, file_texts, check_stop, overwrite=overwrite, words=words)
        encoded = bytes(stored) if written == original else jxl.without_loss(written)
        read = FORMATS[info.format].container.read_blocks
        if encoded is None or (read(stored).exif and not read(encoded).exif):
            raise StageFailed("The texts can't be written into this JPEG XL without loss: write a sidecar file.")
        return encoded


def _written(
    stored: Data, file_format: Format, file_texts: FileTexts, check_stop: CheckStop, *, overwrite: bool, words: Words
) -> bytes:
    """The file with the texts and words; its own bytes if nothing has to be added or replaced."""
    properties, row = _word_properties(words), FORMATS[file_format]
    data = _with_properties(stored, file_format, properties) if properties else stored
    blocks = row.container.read_blocks(data)
    changed = {name: element for name, element in properties.items() if xmp.texts(properties, name)}
    changed |= _changed(xmp.parse(blocks.xmp, blocks.more_xmp).properties, file_texts, overwrite=overwrite)
    if not changed or row.with_xmp is None:
        return bytes(data)
    check_stop()
    # of a property that a JPEG's extended XMP has, too, programs read the one in the packet
    return row.with_xmp(data, _edited(blocks.xmp, changed))


def sidecar(file_texts: FileTexts) -> bytes:
    """An XMP packet of these texts, for a file `NAME.xmp` beside the picture."""
    return _edited(None, _changed({}, file_texts, overwrite=False))


def _edited(packet: bytes | None, properties: Mapping[str, xmp.Element]) -> bytes:
    edited = xmp.with_properties(packet, properties)
    if edited is None or len(edited) > MAX_XMP_BYTES:
        raise StageFailed(
            "No texts can be added to the file's XMP: expected well-formed XML without a DOCTYPE, nested at most"
            f" {MAX_XMP_DEPTH} deep and, with the texts, of at most {MAX_XMP_BYTES:,} bytes."
        )
    return edited


def _changed(stored: xmp.Properties, file_texts: FileTexts, *, overwrite: bool) -> dict[str, xmp.Element]:
    """The properties that have to be written, by name."""
    changed = {}
    written = {xmp.ALT_TEXT: file_texts.alt_texts, xmp.EXTENDED_DESCRIPTION: file_texts.extended_descriptions}
    for name, texts in written.items():
        if not texts:
            continue
        before, known = xmp.language_items(stored, name), text_sources.authors(stored, name)
        by_tag = {tag.lower(): text.strip() for tag, text in before}
        own = {tag: by_tag.get(tag.lower(), by_tag.get(_DEFAULT, "")) for tag in texts}
        by_model = text_sources.texts_of_models(stored, name)
        edited = [tag for tag, new in texts.items() if new.author.source is TextSource.PERSON]
        # a text in the file is not replaced by one that is only its beginning
        replacing = [tag for tag in edited if not own[tag].startswith(texts[tag].text)]
        replacing += texts if overwrite else [tag for tag in texts if own[tag] in by_model]
        after = _merged(before, {tag: new.text for tag, new in texts.items()}, {tag.lower() for tag in replacing})
        if after != before:
            changed[name] = xmp.from_language_items(name, after)
        # what the file says of a text remains, unless a person confirms the text, or it was not in the file
        for new in texts.values():
            if new.author.source is TextSource.PERSON or new.text.strip() not in by_tag.values():
                known[new.text.strip()] = new.author
        marks, stored_marks = text_sources.marks(after, known), xmp.language_items(stored, text_sources.MARKS[name])
        if marks != stored_marks:
            changed[text_sources.MARKS[name]] = xmp.from_language_items(text_sources.MARKS[name], marks)
    return changed


def _merged(before: Sequence[tuple[str, str]], texts: Mapping[str, str], replacing: Set[str]) -> list[tuple[str, str]]:
    """The entries of a language alternative, `x-default` first, with `texts` added, of which there is at least one.

    A text replaces an entry of its language only if `replacing` contains the language.
    """
    # language tags that differ only in case are equal: the first entry of a language is preserved, in its place
    merged = {tag.lower(): (tag, text) for tag, text in reversed(before)}
    merged = {tag.lower(): merged[tag.lower()] for tag, _ in before}
    first = next(iter(texts)).lower()
    default = merged.pop(_DEFAULT, None)
    for tag, text in texts.items():
        stored = merged.get(tag.lower())
        if stored is None or tag.lower() in replacing:
            merged[tag.lower()] = (tag, text)
            if stored is not None and default is not None and default[1] == stored[1]:
                default = (_DEFAULT, text)
    if default is None or first in replacing:
        default = (_DEFAULT, merged[first][1])
    return [default, *merged.values()]
