"""What is fuzzed: functions that take any bytes, and may raise no other errors than those of the service.

A target may also assert what holds for every input that is accepted.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyvips
from litestar.datastructures import Headers

from imgproc_local.api import uploads
from imgproc_local.codecs.container import Blocks, avif, jpeg, png, tiff, webp
from imgproc_local.codecs.metadata import icc, iptc, xmp, xmp_fields
from imgproc_local.codecs.metadata.record import blocks_for, embedded, read_record
from imgproc_local.codecs.picture import other_decoders
from imgproc_local.codecs.picture.formats import FORMATS, HEAD_BYTES, detect
from imgproc_local.codecs.picture.libvips import translate_errors
from imgproc_local.codecs.picture.source import dropped_kinds
from imgproc_local.domain.errors import ServiceError, StageFailed
from imgproc_local.domain.image import READ_ONLY_FORMATS, Disclosure, Format, KeepLocation, Kept
from imgproc_local.domain.privacy import Removed, clean_text
from imgproc_local.vision.facts.texts import collect_texts
from imgproc_local.vision.text.human_words import filename_number, filename_words, human_text, is_screenshot_name
from imgproc_local.vision.text.words import shorten

MAX_FORM_IMAGE_BYTES = 100_000
PACKET = b"<a>A packet</a>"


def fuzz_container(file_format: Format, data: bytes) -> None:
    """Reads a file; cleans and rewrites a picture. The written file can be read, and has no private data."""
    if detect(data[:HEAD_BYTES]) is not file_format:
        return
    container = FORMATS[file_format].container
    _read_specifics(file_format, data)
    blocks = container.read_blocks(data)
    record_blocks = _record_blocks(blocks, file_format)
    dropped_kinds(file_format, data)
    if file_format is Format.JXL:
        _decode_jxl(data)
    elif file_format in READ_ONLY_FORMATS or not _is_opened_by_libvips(data):
        return
    bare = container.with_blocks(data, Blocks())
    assert dropped_kinds(file_format, bare) <= {Removed.UNREADABLE}, "cleaning left private data"
    container.read_blocks(container.with_blocks(data, record_blocks))
    try:
        with_packet = FORMATS[file_format].with_xmp(data, PACKET)
    except StageFailed:
        return
    assert (container.read_blocks(with_packet).xmp or b"").rstrip() == PACKET, "a written packet is not read"


def _decode_jxl(data: bytes) -> None:
    """Rebuilds the JPEG and decodes the picture, if it is small, by libjxl."""
    other_decoders.jpeg_of(data)
    if other_decoders.read_jxl_info(data).pixels <= 100_000:
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            with translate_errors("The picture can't be read"):
                other_decoders.open_jxl(Path(file.name))


def _is_opened_by_libvips(data: bytes) -> bool:
    """Whether the file has a header with a size; the service refuses all others before it writes anything."""
    try:
        pyvips.Image.new_from_buffer(data, "")
    except pyvips.Error:
        return False
    return True


def _read_specifics(file_format: Format, data: bytes) -> None:
    if file_format is Format.JPEG:
        jpeg.components(data)
        jpeg.gain_map(data)
        jpeg.iso_gain_map_segments(data)
        jpeg.luma_sampling(data)
        jpeg.size(data)
    elif file_format is Format.PNG:
        png.coded_colours(data)
        png.frame_count(data)
        palette = png.palette_chunks(data)
        for frame in png.frames(data)[:100]:
            png.as_png(data, frame, palette)
    elif file_format is Format.WEBP:
        webp.is_lossless(data)
    elif file_format is Format.TIFF:
        tiff.is_camera_raw(data)
        tiff.has_mask(data)
    elif file_format is Format.AVIF:
        avif.orientation(data)
        avif.frame_count(data)
        avif.coded_colours(data)
        avif.has_gain_map(data)


def _record_blocks(blocks: Blocks, file_format: Format = Format.JPEG) -> Blocks:
    """The record of the blocks as it is written into a file. Read and written again, it is the same."""
    disclosure = Disclosure(kept=frozenset(Kept))
    record = read_record(blocks, disclosure)
    collect_texts(embedded(record), "a.jpg")
    written = blocks_for(record, file_format, orientation=6)
    again = blocks_for(read_record(written, disclosure), file_format, orientation=6)
    assert again == written, "a written record is read as another one"
    return written


def fuzz_xmp(data: bytes) -> None:
    """A written packet can be read, and has no properties that the original packet has not."""
    packet = xmp.parse(data)
    elements = xmp_fields.published(packet.properties, lambda name: str, Disclosure(KeepLocation.ALL))[0]
    written = xmp.write(xmp_fields.ordered({element.tag: element for element in elements}))
    if written is not None:
        again = xmp.parse(written)
        assert again.is_complete, "a written packet can't be read"
        assert again.properties.keys() <= packet.properties.keys(), "a packet has gained properties"
    _record_blocks(Blocks(xmp=data, more_xmp=data[::2]))
    edited = xmp.with_properties(data, {xmp.ALT_TEXT: xmp.from_language_items(xmp.ALT_TEXT, [("x-default", "A boat")])})
    if edited is not None:
        properties = xmp.parse(edited).properties
        assert xmp.language_items(properties, xmp.ALT_TEXT) == [("x-default", "A boat")], "an edit is not read"
        assert properties.keys() >= packet.properties.keys() - {xmp.ALT_TEXT}, "an edit removed properties"


def fuzz_exif(data: bytes) -> None:
    _record_blocks(Blocks(exif=data))


def fuzz_iptc(data: bytes) -> None:
    for datasets in (iptc.from_photoshop(data), data):
        written = _record_blocks(Blocks(iptc=datasets)).iptc
        assert written is None or iptc.from_photoshop(iptc.to_photoshop(written)) == written


def fuzz_icc(data: bytes) -> None:
    icc.colour_space(data)
    icc.is_wide(data)
    icc.kept_profile(data)
    icc.left_out(data)
    new = icc.rewritten(data)
    assert icc.rewritten(new) == new


def fuzz_texts(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    cleaned = clean_text(text)
    assert cleaned.removed or cleaned.text == text
    shorten(human_text(text))
    filename_words(text[:255])
    filename_number(text[:255])
    is_screenshot_name(text[:255])


def fuzz_multipart(data: bytes) -> None:
    """A form whose Content-Type is the first line; every byte after it is the body."""
    content_type, _, body = data.partition(b"\n")
    size = 1 + len(body) // 3

    async def stream() -> AsyncIterator[bytes]:
        for at in range(0, len(body), size):
            yield body[at : at + size]

    request: Any = SimpleNamespace(
        headers=Headers({"content-type": content_type.decode("latin-1")}),
        stream=stream,
        app=SimpleNamespace(state=SimpleNamespace(uploads=uploads.Uploads())),
    )
    received = bytearray()
    incoming: Any = SimpleNamespace(write=received.extend)
    with contextlib.suppress(UnicodeDecodeError):  # api/errors.py answers it, also in paths and queries
        _RUNNER.run(uploads.read_form(request, incoming, MAX_FORM_IMAGE_BYTES))
    assert len(received) <= MAX_FORM_IMAGE_BYTES


_RUNNER = asyncio.Runner()

TARGETS: dict[str, Callable[[bytes], None]] = {
    **{file_format.value: partial(fuzz_container, file_format) for file_format in Format},
    "xmp": fuzz_xmp,
    "exif": fuzz_exif,
    "iptc": fuzz_iptc,
    "icc": fuzz_icc,
    "texts": fuzz_texts,
    "multipart": fuzz_multipart,
}
"""The functions by the names that `campaign` accepts."""


def run(name: str, data: bytes) -> bool:
    """Whether the target accepted the input. Any error but a refusal is raised."""
    try:
        TARGETS[name](data)
    except ServiceError:
        return False
    return True
