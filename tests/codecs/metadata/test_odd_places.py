"""Private bytes in unusual places are removed, and the picture is preserved.

The pictures are small and of low quality, so that optimizing copies their data. If they were encoded again, private
bytes would disappear even without being removed.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import pyvips
from PIL import Image

from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import avif as avif_container
from imgproc_local.codecs.container import gif as gif_container
from imgproc_local.codecs.container import jpeg as jpeg_container
from imgproc_local.codecs.container import webp as webp_container
from imgproc_local.codecs.metadata import xmp
from imgproc_local.codecs.picture.source import dropped_kinds
from imgproc_local.domain.image import Format
from tests.codecs import avif_writer, pictures
from tests.codecs.pictures import never_stop
from tests.support.reading import optimize_file, probe, read_embedded

MAX_PIXELS = 10**9


def optimized(folder: Path, data: bytes) -> bytes:
    path = pictures.write(folder, data)
    return optimize_file(path, probe(path, MAX_PIXELS), never_stop) or data


def optimized_twice(folder: Path, data: bytes) -> bytes:
    """The optimized file, which optimizing again does not change."""
    once = optimized(folder, data)
    assert optimized(folder, once) == once
    return once


def frames(data: bytes) -> list[np.ndarray]:
    image = pictures.opened(data)
    pixels = []
    for number in range(getattr(image, "n_frames", 1)):
        image.seek(number)
        pixels.append(np.asarray(image.convert("RGBA")))
    return pixels


@pytest.mark.parametrize("marker", [0xF0, 0x50, 0xC8, 0xDC])
def test_segments_of_a_jpeg_that_no_decoder_needs_are_removed(marker: int) -> None:
    plain = pictures.saved(pictures.photo(64, 48), "JPEG", quality=60, progressive=True)
    for at in (2, plain.rfind(b"\xff\xda")):
        hidden = plain[:at] + pictures.segment(marker, b"SECRET") + plain[at:]
        assert jpeg_container.with_blocks(hidden, Blocks()) == jpeg_container.with_blocks(plain, Blocks())
        assert list(jpeg_container.dropped(hidden)) != list(jpeg_container.dropped(plain))


def test_segments_between_the_scans_of_a_jpeg_are_removed(tmp_path: Path) -> None:
    plain = optimized_twice(tmp_path, pictures.saved(pictures.photo(200, 150), "JPEG", quality=90))
    assert plain.count(b"\xff\xda") > 1
    hidden = pictures.segment(0xFE, b"SECRET remark") + pictures.segment(0xE1, b"Exif\0\0" + pictures.tiff())
    last_scan = plain.rfind(b"\xff\xda")
    out = optimized(tmp_path, plain[:last_scan] + hidden + plain[last_scan:])
    assert out == plain


def test_bytes_after_the_fields_of_an_adobe_segment_are_removed() -> None:
    plain = pictures.saved(pictures.photo(), "JPEG")
    adobe = b"Adobe\0\x64\0\0\0\0\1"
    out = jpeg_container.with_blocks(plain[:2] + pictures.segment(0xEE, adobe + b"SECRET") + plain[2:], Blocks())
    assert pictures.segment(0xEE, adobe) in out
    assert b"SECRET" not in out


def test_fill_bytes_before_a_removed_segment_make_no_marker_of_what_follows() -> None:
    plain = pictures.saved(pictures.photo(), "JPEG")
    end = len(plain) - 2
    comment = b"\xff" + pictures.segment(0xFE, b"Secret")
    damaged = plain[:end] + comment + b"\xd9\x11" + plain[end:]
    cleaned = jpeg_container.with_blocks(damaged, Blocks())
    assert cleaned == plain[:end] + b"\xd9\x11" + plain[end:]
    assert dropped_kinds(Format.JPEG, cleaned) == set()


HDRGM = "http://ns.adobe.com/hdr-gain-map/1.0/"


def xmp_segment_of(attributes: str, properties: str = "") -> bytes:
    """A segment of a JPEG with an XMP packet of these attributes and elements."""
    namespaces = (
        f'xmlns:hdrgm="{HDRGM}" xmlns:exif="http://ns.adobe.com/exif/1.0/" xmlns:Container="{xmp.CONTAINER[1:-1]}"'
        f' xmlns:Item="{xmp.CONTAINER_ITEM[1:-1]}"'
    )
    inner = f"<rdf:Description {namespaces} {attributes}>{properties}</rdf:Description>"
    text = f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="{xmp.RDF[1:-1]}">{inner}</rdf:RDF></x:xmpmeta>'
    return pictures.segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + text.encode())


def ultra_hdr(signalled_by: str) -> bytes:
    """An Ultra HDR picture of a phone: after the JPEG come a preview, the gain map with its own metadata, and a video.

    `signalled_by` is how the gain map is declared: by XMP `attributes` or `elements` and the ISO 21496-1 marker, or by
    the marker alone, `iso`.
    """
    plain = pictures.saved(pictures.photo(200, 150), "JPEG", quality=60)
    preview = pictures.saved(pictures.scene(64, 48), "JPEG", comment=b"SECRET preview")
    gain_map = pictures.saved(Image.fromarray(pictures.scene(80, 60)).convert("L"), "JPEG", quality=80)
    iso = pictures.segment(0xE2, b"urn:iso:std:iso:ts:21496:-1\0\0\0\0\0")
    metadata = pictures.segment(0xE1, b"Exif\0\0" + pictures.tiff()) + pictures.segment(0xFE, b"SECRET remark")
    metadata += xmp_segment_of('hdrgm:Version="1.0" hdrgm:GainMapMax="2.5" exif:GPSLatitude="SECRET"') + iso
    gain_map = gain_map[:2] + metadata + gain_map[2:]
    video = b"\0\0\0\x18ftypmp42SECRET video"

    def item(semantic: str, size: int) -> str:
        if signalled_by == "elements":
            fields = f"<Item:Semantic>{semantic}</Item:Semantic><Item:Length>{size}</Item:Length>"
            inner = f'<Container:Item rdf:parseType="Resource">{fields}</Container:Item>'
        else:
            inner = f'<Container:Item Item:Semantic="{semantic}" Item:Length="{size}"/>'
        return f'<rdf:li rdf:parseType="Resource">{inner}</rdf:li>'

    items = item("Primary", 0) + item("GainMap", len(gain_map)) + item("MotionPhoto", len(video))
    directory = f"<Container:Directory><rdf:Seq>{items}</rdf:Seq></Container:Directory>"
    xmp_segment = (
        xmp_segment_of('hdrgm:Version="1.0"', directory)
        if signalled_by != "iso"
        else xmp_segment_of('exif:GPSLatitude="SECRET"')
    )
    return plain[:2] + xmp_segment + iso + plain[2:] + preview + gain_map + video


@pytest.mark.parametrize("signalled_by", ["attributes", "elements", "iso"])
def test_only_the_gain_map_is_preserved_of_the_data_after_a_jpeg_and_without_its_metadata(
    tmp_path: Path, signalled_by: str
) -> None:
    source = ultra_hdr(signalled_by)
    out = optimized_twice(tmp_path, source)
    for secret in (b"SECRET", b"MotionPhoto", b"video", *pictures.SECRETS.values()):
        assert secret not in out
    gain_map = jpeg_container.gain_map(out)
    assert gain_map is not None
    assert out.endswith(gain_map)
    assert out.count(b"urn:iso:std:iso:ts:21496:-1") == 2
    assert b'hdrgm:GainMapMax="2.5"' in gain_map
    if signalled_by != "iso":
        assert f'Item:Length="{len(gain_map)}"'.encode() in out
        assert out.count(b"Item:Semantic=") == 2
    before = jpeg_container.gain_map(source)
    assert before is not None
    assert np.array_equal(frames(before)[0], frames(gain_map)[0])


def test_unknown_chunks_in_the_frames_of_a_webp_are_removed(tmp_path: Path) -> None:
    plain = optimized_twice(tmp_path, pictures.animated("WEBP", [100, 200, 300], quality=20))
    hidden = b"PRIVSECRET".replace(b"SECRET", struct.pack("<I", 6) + b"SECRET")
    body = b"".join(
        webp_container._chunk(chunk.kind, plain[chunk.payload : chunk.end] + (hidden if chunk.kind == b"ANMF" else b""))
        for chunk in webp_container.chunks(plain)
    )
    source = b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body
    assert source.count(b"SECRET") == 3
    assert optimized(tmp_path, source) == plain


def test_a_frame_of_a_webp_that_is_cut_short_gets_no_bytes_from_behind_it() -> None:
    still = pictures.saved(pictures.photo(), "WEBP", quality=80)
    body = still[12:] + webp_container._chunk(b"ANMF", b"") + webp_container._chunk(b"EXIF", b"SECRET" * 9)
    cleaned = webp_container.with_blocks(b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body, Blocks())
    assert b"SECRET" not in cleaned


def test_private_bytes_in_gif_extensions_are_removed(tmp_path: Path) -> None:
    plain = optimized_twice(tmp_path, pictures.animated("GIF", [100, 200, 300], loop=2))
    unknown = b"\x21\x99\x06SECRET\0"
    text = b"\x21\xf9\x04\x08\xff\0\0\0" + b"\x21\x01\x0c" + struct.pack("<HHHHBBBB", 0, 0, 8, 8, 8, 8, 0, 1)
    text += b"\x0bSECRET text\0"
    first = next(block.start for block in gif_container.blocks(plain) if block.label == gif_container.CONTROL)
    out = optimized(tmp_path, plain[:first] + unknown + text + plain[first:-1] + text + unknown + b"\x3b")
    assert out == plain
    control, loop = b"\x21\xf9\x04" + plain[first + 3 : first + 7], b"\x03\x01\x02\0"
    assert plain.count(control + b"\0") == plain.count(loop + b"\0") == 1
    source = plain.replace(control, control + b"\x06SECRET").replace(loop, loop + b"\x06SECRET")
    assert optimized(tmp_path, source) == plain


def box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(body), kind) + body


def avif_of(folder: Path, *items: avif_writer._Item) -> bytes:
    """A small AVIF with these further items, which reference the picture: as a thumbnail if av01, else as metadata."""
    tile = optimized_twice(folder, pictures.saved(pictures.photo(200, 150), "AVIF", quality=30))
    picture = avif_writer.picture_of(tile)
    numbers = range(2, len(items) + 2)
    references = [
        (b"thmb" if item.kind == b"av01" else b"cdsc", number, [1]) for number, item in zip(numbers, items, strict=True)
    ]
    return avif_writer._file(tile, [avif_writer._Item(b"av01", picture.data, picture.properties), *items], references)


@pytest.mark.parametrize("place", [avif_writer._IN_FILE, avif_writer._IN_IDAT])
def test_private_bytes_in_avif_items_are_removed_with_each_construction_method(tmp_path: Path, place: int) -> None:
    small = avif_writer.picture_of(pictures.saved(pictures.scene(32, 24), "AVIF", quality=50))
    exif = avif_writer._Item(b"Exif", b"\0\0\0\0" + pictures.tiff(), place=place)
    xmp_item = avif_writer._Item(b"mime", pictures.xmp_packet(), place=place, content_type=b"application/rdf+xml\0")
    # an item in idat, whichever construction method the others have
    in_idat = avif_writer._IN_IDAT
    json = avif_writer._Item(b"mime", b'{"position": "SECRET"}', place=in_idat, content_type=b"application/json\0")
    thumbnail = avif_writer._Item(b"av01", small.data, small.properties)
    source = avif_of(tmp_path, exif, xmp_item, thumbnail, json)
    out = optimized_twice(tmp_path, source)
    for secret in (b"SECRET", small.data, *pictures.SECRETS.values()):
        assert secret not in out
    for text in (pictures.COPYRIGHT, *pictures.ALT_TEXT.values()):
        assert text.encode() in out
    assert np.array_equal(frames(source)[0], frames(out)[0])
    assert pyvips.Image.heifload_buffer(out).avg() == pyvips.Image.heifload_buffer(source).avg()
    path = pictures.write(tmp_path, out)
    assert read_embedded(path, probe(path, MAX_PIXELS)).copyright == pictures.COPYRIGHT


def shifted(data: bytes, start: int, by: int) -> bytes:
    """The AVIF with `by` added to all item and chunk offsets from `start` on."""
    out = bytearray(data)
    fields = [
        (extent.offset_field, extent.offset) for item in avif_container._all_items(data) for extent in item.extents
    ]
    chunks = avif_container._chunk_offsets(data, avif_container._tracks(data))
    fields += [((position, size), offset) for position, size, offset in chunks]
    for (position, size), offset in fields:
        if offset >= start:
            out[position : position + size] = (offset + by).to_bytes(size, "big")
    return bytes(out)


@pytest.mark.parametrize("secret", [True, False])
def test_an_xmp_packet_in_a_uuid_box_is_replaced(tmp_path: Path, *, secret: bool) -> None:
    plain = optimized_twice(tmp_path, pictures.saved(pictures.photo(200, 150), "AVIF", quality=30))
    uuid = bytes.fromhex("be7acfcb97a942e89c71999491e3afac")
    private = b"<xmpMM:History>SECRET</xmpMM:History>" if secret else b""
    packet_bytes = pictures.xmp_packet().replace(b"<dc:creator>", private + b"<dc:creator>")
    out = optimized_twice(tmp_path, plain + box(b"uuid", uuid + packet_bytes))
    assert b"SECRET" not in out
    path = pictures.write(tmp_path, out)
    assert read_embedded(path, probe(path, MAX_PIXELS)).copyright == pictures.COPYRIGHT


@pytest.mark.parametrize("block", ["exif", "xmp"])
def test_the_only_block_of_an_avif_keeps_its_words(tmp_path: Path, block: str) -> None:
    packet = (
        f'<rdf:RDF xmlns:rdf="{xmp.RDF[1:-1]}"><rdf:Description xmlns:dc="{xmp.DC[1:-1]}" dc:rights="Example Press"'
        ' xmlns:exif="http://ns.adobe.com/exif/1.0/" exif:GPSLatitude="SECRET"/></rdf:RDF>'
    )
    title = b"Ada\0".decode().encode("utf-16-le")
    blocks = {
        "exif": pictures.compact_tiff({0x9C9B: title}, 1, {"maker note": b"SECRET note"}),
        "xmp": packet.encode(),
    }
    source = pictures.saved(pictures.photo(200, 150), "AVIF", quality=30, **{block: blocks[block]})
    out = optimized_twice(tmp_path, source)
    assert (b"SECRET" in source, b"SECRET" in out) == (True, False)
    assert avif_container.read_blocks(out).exif is None
    path = pictures.write(tmp_path, out)
    found = read_embedded(path, probe(path, MAX_PIXELS))
    assert (found.copyright, [each.text for each in found.title]) == (
        (None, ["Ada"]) if block == "exif" else ("Example Press", [])
    )


@pytest.mark.parametrize("place", [avif_writer._IN_FILE, avif_writer._IN_IDAT])
@pytest.mark.parametrize("with_base_offset", [False, True])
def test_avif_metadata_in_several_extents_is_read_and_cleaned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int, *, with_base_offset: bool
) -> None:
    def locations(items: Sequence[avif_writer._Item], start: int) -> bytes:
        """The iloc box as `avif_writer` writes it, but with the metadata items in three extents."""
        at, entries = {avif_writer._IN_FILE: start, avif_writer._IN_IDAT: 0}, b""
        for number, item in enumerate(items, 1):
            length, begin = len(item.content), at[item.place]
            sizes = [length] if length < 1000 else [10, length // 2, length - 10 - length // 2]
            entries += struct.pack(">HHHIH", number, item.place, 0, begin if with_base_offset else 0, len(sizes))
            for size in sizes:
                offset = at[item.place] - begin if with_base_offset else at[item.place]
                entries += struct.pack(">II", offset, size)
                at[item.place] += size
        return avif_writer._full_box(b"iloc", struct.pack(">BBH", 0x44, 0x40, len(items)) + entries, version=1)

    monkeypatch.setattr(avif_writer, "_locations", locations)
    exif = avif_writer._Item(b"Exif", b"\0\0\0\0" + pictures.tiff(), place=place)
    xmp_item = avif_writer._Item(b"mime", pictures.xmp_packet(), place=place, content_type=b"application/rdf+xml\0")
    other = avif_writer._Item(b"mime", b"{}", place=avif_writer._IN_IDAT, content_type=b"application/json\0")
    source = avif_of(tmp_path, exif, xmp_item, other)
    out = optimized_twice(tmp_path, source)
    assert [secret for secret in pictures.SECRETS.values() if secret in out] == []
    path = pictures.write(tmp_path, out)
    assert len(read_embedded(path, probe(path, MAX_PIXELS)).alt_text) == 2
    assert np.array_equal(frames(source)[0], frames(out)[0])
