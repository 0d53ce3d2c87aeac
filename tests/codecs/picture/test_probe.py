"""Probing: the properties in a picture's header, and the refusal of files that are not pictures."""

from __future__ import annotations

import struct
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path

import pytest

from imgproc_local.codecs.container import Blocks, avif, inflate, jpeg, png
from imgproc_local.codecs.container.avif import box_bytes
from imgproc_local.codecs.embedded import read_embedded
from imgproc_local.codecs.metadata.bounds import MAX_BLOCK_BYTES
from imgproc_local.codecs.picture.probe import probe
from imgproc_local.domain.errors import BrokenImage, StageFailed, TooManyPixels, UnsupportedImage
from imgproc_local.domain.image import Format
from imgproc_local.domain.plan import ACCEPTED_FORMATS, Operation
from tests.codecs import pictures
from tests.faults.floods import webp_chunk
from tests.faults.hostile import hostile_files

MAX_PIXELS = 10**9


@pytest.mark.parametrize(
    ("data", "file_format"),
    [
        (pictures.jpeg_with_metadata(), Format.JPEG),
        (pictures.png_with_metadata(), Format.PNG),
        (pictures.saved(pictures.scene(), "GIF"), Format.GIF),
        (pictures.webp_with_metadata(), Format.WEBP),
        (pictures.webp_with_metadata(lossless=True), Format.WEBP),
        (pictures.saved(pictures.scene(), "WEBP"), Format.WEBP),
        (pictures.avif_with_metadata(), Format.AVIF),
    ],
)
def test_the_format_is_decided_by_the_bytes_and_the_size_by_the_header(
    tmp_path: Path, data: bytes, file_format: Format
) -> None:
    info = probe(pictures.write(tmp_path, data, "picture.txt"), MAX_PIXELS)
    assert (info.format, info.width_px, info.height_px, info.frames) == (file_format, 320, 240, 1)
    assert info.duration_ms == 0


@pytest.mark.parametrize("file_format", ["GIF", "WEBP", "PNG", "AVIF"])
def test_frames_and_duration_of_an_animation_are_counted(tmp_path: Path, file_format: str) -> None:
    options = {} if file_format == "GIF" else {"lossless": True} if file_format == "WEBP" else {}
    info = probe(pictures.write(tmp_path, pictures.animated(file_format, [100, 250, 300, 50], **options)), MAX_PIXELS)
    assert (info.frames, info.duration_ms) == (4, 700)
    assert (info.width_px, info.height_px) == (96, 64)
    if file_format == "GIF":  # short delays count as browsers play them
        assert probe(pictures.write(tmp_path, pictures.animated("GIF", [0, 10, 20])), MAX_PIXELS).duration_ms == 220


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_is_read_from_every_format(tmp_path: Path, orientation: int) -> None:
    stored = pictures.oriented(pictures.scene(), orientation)
    found = [
        probe(pictures.write(tmp_path, data), MAX_PIXELS)
        for data in (
            pictures.jpeg_with_metadata(stored, orientation),
            pictures.png_with_metadata(stored, orientation),
            pictures.webp_with_metadata(stored, orientation),
            pictures.saved(stored, "AVIF", exif=pictures.tiff(orientation)),
        )
    ]
    assert [info.orientation for info in found] == [orientation] * 4
    assert [info.display_size_px for info in found] == [(320, 240)] * 4


@pytest.mark.parametrize(
    ("mode", "alpha", "bits"),
    [("RGB", False, 8), ("RGBA", True, 8), ("LA", True, 8), ("I;16", False, 16), ("1", False, 1)],
)
def test_alpha_and_depth_of_a_png_are_read(tmp_path: Path, mode: str, alpha: bool, bits: int) -> None:
    from PIL import Image

    info = probe(pictures.write(tmp_path, pictures.saved(Image.new(mode, (9, 7)), "PNG")), MAX_PIXELS)
    assert (info.has_alpha, info.bits_per_sample) == (alpha, bits)


def test_alpha_of_the_other_formats_is_read(tmp_path: Path) -> None:
    rgba = pictures.graphic(alpha=True)
    for data, alpha in (
        (pictures.saved(rgba, "WEBP"), True),
        (pictures.saved(rgba, "WEBP", lossless=True), True),
        (pictures.saved(rgba, "AVIF"), True),
        (pictures.saved(rgba[..., :3], "AVIF"), False),
        (pictures.saved(rgba[..., :3], "WEBP"), False),
    ):
        assert probe(pictures.write(tmp_path, data), MAX_PIXELS).has_alpha is alpha


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"Dear diary, today\n", "text"),
        ("Grüße aus München – schön hier".encode(), "text"),
        (b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>', "SVG"),
        (b"<!DOCTYPE html><html></html>", "web page"),
        (b"II*\0" + b"\0" * 40, "TIFF"),
        (b"%PDF-1.7\n", "PDF"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0" * 20, "HEIC"),
        (b"\0\0\0\x18ftypisom\0\0\0\0isommp42" + b"\0" * 20, "video"),
        (b"RIFF\x10\0\0\0WAVEfmt ", "RIFF"),
        (bytes(range(256)), "no known picture type"),
    ],
)
def test_the_refusal_names_the_type_of_the_file_if_it_is_known(tmp_path: Path, data: bytes, named: str) -> None:
    with pytest.raises(UnsupportedImage) as refused:
        probe(pictures.write(tmp_path, data, "boat.jpg"), MAX_PIXELS, ACCEPTED_FORMATS[Operation.OPTIMIZE])
    assert named in refused.value.message
    assert "JPEG, PNG, GIF, WebP or AVIF" in refused.value.message
    assert str(tmp_path) not in refused.value.message


def test_the_pixels_of_all_frames_are_limited_and_the_message_has_the_numbers(tmp_path: Path) -> None:
    path = pictures.write(tmp_path, pictures.animated("GIF", [100] * 4))
    assert probe(path, 96 * 64 * 4).frames == 4
    with pytest.raises(TooManyPixels, match=r"24,575 pixels, but has 96 × 64 × 4 frames = 24,576"):
        probe(path, 96 * 64 * 4 - 1)


def test_a_header_with_billions_of_pixels_is_refused(tmp_path: Path) -> None:
    header = pictures.chunk(b"IHDR", struct.pack(">IIBBBBB", 60000, 60000, 1, 0, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + header + pictures.chunk(b"IDAT", b"") + pictures.chunk(b"IEND", b"")
    with pytest.raises(TooManyPixels, match="3,600,000,000"):
        probe(pictures.write(tmp_path, data), 200_000_000)


def test_a_decompression_bomb_in_metadata_is_not_decompressed() -> None:
    assert inflate(zlib.compress(b"\0" * 100_000_000)) is None
    assert inflate(zlib.compress(b"profile")) == b"profile"


@pytest.mark.parametrize(
    "data",
    [
        pictures.jpeg_with_metadata()[:400],
        pictures.png_with_metadata()[:5000],
        pictures.gif_with_metadata()[:590],
        pictures.webp_with_metadata()[:900],
        pictures.avif_with_metadata()[:-900],
        b"\xff\xd8\xff\xe0\0\x10JFIF",
        b"\xff\xd8\xff\xd9",
        b"\x89PNG\r\n\x1a\n",
        b"GIF89a\x01\0\x01\0\0\0\0;",
        b"RIFF\x04\0\0\0WEBP",
        b"\0\0\0\x14ftypavif\0\0\0\0avif",
    ],
)
def test_a_truncated_file_is_broken_not_unsupported(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(BrokenImage):
        probe(pictures.write(tmp_path, data), MAX_PIXELS)


def webp(*chunks: bytes) -> bytes:
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def avif_with_an_empty_size() -> bytes:
    """An AVIF whose size box ends before the size, with another box in its place."""
    whole = pictures.avif_with_metadata()
    at = whole.index(b"ispe") - 4
    return whole[:at] + box_bytes(b"ispe", bytes(4)) + box_bytes(b"free", b"") + whole[at + 20 :]


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xd8" + pictures.segment(0xC0, b"\x08\0\x40") + pictures.segment(0xDA, bytes(10)),
        b"\xff\xd8" + pictures.segment(0xC0, b"\x08\0\x40\0\x40\x01") + pictures.segment(0xDA, b""),
        avif_with_an_empty_size(),
        webp(webp_chunk(b"VP8X", b"\x02\0\0\0")),
        webp(webp_chunk(b"VP8X", b"\x02" + bytes(9)), webp_chunk(b"ANMF", bytes(4))),
        webp(webp_chunk(b"VP8L", b"\x2f")),
        pictures.with_png_chunks(pictures.saved(pictures.photo(), "PNG"), pictures.chunk(b"acTL", b"\0\0")),
        pictures.with_png_chunks(pictures.saved(pictures.photo(), "PNG"), pictures.chunk(b"fcTL", bytes(20))),
    ],
    ids=["frame", "scan", "ispe", "VP8X", "ANMF", "VP8L", "acTL", "fcTL"],
)
def test_a_field_is_never_read_from_the_next_part_of_the_file(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(BrokenImage, match=r"damaged: its .* ends at byte \d+, but needs \d+ more"):
        probe(pictures.write(tmp_path, data + bytes(20)), MAX_PIXELS)


def test_the_orientation_is_never_read_from_the_next_part_of_the_file(tmp_path: Path) -> None:
    upright = pictures.jpeg_with_metadata(orientation=6)
    damaged = upright[:2] + b"\xff\xe1\0\2" + b"Exif\0\0" + upright[2:]
    assert probe(pictures.write(tmp_path, damaged), MAX_PIXELS).orientation == 6


def test_the_error_for_a_missing_file_does_not_contain_its_path(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as failed:
        probe(tmp_path / "nowhere", MAX_PIXELS)
    assert "nowhere" not in failed.value.message


def test_probing_loads_no_image_library() -> None:
    code = "import sys, imgproc_local.codecs.picture.probe; sys.exit('PIL' in sys.modules or 'pyvips' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture(scope="module")
def hostile() -> dict[str, bytes]:
    return hostile_files()


@pytest.mark.parametrize("name", ["bomb-exif.png", "bomb-exif.jpg", "bomb-exif.webp"])
def test_exif_entries_that_share_their_bytes_are_not_all_read(
    tmp_path: Path, hostile: dict[str, bytes], name: str
) -> None:
    path = pictures.write(tmp_path, hostile[name])
    tracemalloc.start()
    try:
        embedded = read_embedded(path, probe(path, MAX_PIXELS))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert embedded.camera is None
    assert peak_bytes < 16 * 1024 * 1024


@pytest.mark.parametrize(
    "name",
    [
        "comment-flood.jpg",
        "restart-flood.jpg",
        "chunk-flood.webp",
        "block-flood.gif",
        "sub-block-flood.gif",
        "box-flood.avif",
        "property-flood.avif",
        "flood-ztxt.png",
        "bomb-ztxt.png",
    ],
)
def test_a_file_with_too_many_parts_is_refused_early(tmp_path: Path, hostile: dict[str, bytes], name: str) -> None:
    with pytest.raises(BrokenImage, match=r"more than [0-9,]+"):
        probe(pictures.write(tmp_path, hostile[name]), MAX_PIXELS)


def test_a_scan_with_too_many_segments_is_refused(hostile: dict[str, bytes]) -> None:
    with pytest.raises(BrokenImage, match="more than 2,000 segments within"):
        jpeg.picture_end(hostile["scan-flood.jpg"])


def test_avif_with_too_many_empty_extents_is_refused(tmp_path: Path, hostile: dict[str, bytes]) -> None:
    path = pictures.write(tmp_path, hostile["bomb-extents.avif"])
    info = probe(path, MAX_PIXELS)
    tracemalloc.start()
    try:
        with pytest.raises(BrokenImage, match="items and extents"):
            read_embedded(path, info)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 64 * 1024 * 1024


def test_deeply_nested_boxes_do_not_recurse(hostile: dict[str, bytes]) -> None:
    data = hostile["nested-boxes.avif"]
    assert avif.read_header(data).frames == 1
    assert avif.with_blocks(data, Blocks()).count(b"moov") == 1


def test_fill_bytes_without_a_marker_take_linear_time(tmp_path: Path, hostile: dict[str, bytes]) -> None:
    """The child process may use 20 s of CPU time. Searching again from each fill byte would take days."""
    path = pictures.write(tmp_path, hostile["fill-flood.jpg"])
    code = (
        "import resource, sys; from pathlib import Path; resource.setrlimit(resource.RLIMIT_CPU, (20, 20))\n"
        "from imgproc_local.codecs.picture.probe import probe; from imgproc_local.domain.errors import BrokenImage\n"
        "try:\n    probe(Path(sys.argv[1]), 10**9)\nexcept BrokenImage:\n    sys.exit(7)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 7


def test_the_compressed_metadata_of_a_png_has_one_limit(
    monkeypatch: pytest.MonkeyPatch, hostile: dict[str, bytes]
) -> None:
    inflated_bytes = 0

    def counted(compressed: bytes, max_bytes: int = MAX_BLOCK_BYTES) -> bytes | None:
        nonlocal inflated_bytes
        plain = inflate(compressed, max_bytes)
        inflated_bytes += max_bytes if plain is None else len(plain)
        return plain

    monkeypatch.setattr(png, "inflate", counted)
    too_long = pictures.chunk(b"iCCP", b"icc\0\0" + zlib.compress(bytes(MAX_BLOCK_BYTES + 1)))
    for data in (hostile["flood-ztxt.png"], pictures.with_png_chunks(pictures.png_with_metadata(), *[too_long] * 50)):
        inflated_bytes = 0
        png.read_blocks(data)
        assert 0 < inflated_bytes <= 2 * MAX_BLOCK_BYTES


def test_a_second_block_of_the_same_kind_is_not_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    packets = [b"<first/>", b"<second/>", b"<third/>"]
    chunks = [pictures.chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(packet)) for packet in packets]
    seen: list[bytes | None] = []

    def noted(compressed: bytes, max_bytes: int) -> bytes | None:
        seen.append(inflate(compressed, max_bytes))
        return seen[-1]

    monkeypatch.setattr(png, "inflate", noted)
    plain = pictures.saved(pictures.scene(), "PNG")
    assert png.read_blocks(pictures.with_png_chunks(plain, *chunks)).xmp == packets[0]
    assert seen == packets[:1]


def test_all_frames_of_a_long_animation_are_counted(tmp_path: Path) -> None:
    animated = pictures.animated("GIF", [100, 100])
    first = animated.index(b"\x21\xf9")
    second = animated.index(b"\x21\xf9", first + 1)
    long = animated[:first] + animated[first:second] * 20_000 + b";"
    info = probe(pictures.write(tmp_path, long), MAX_PIXELS)
    assert (info.frames, info.duration_ms) == (20_000, 2_000_000)


def test_a_jpeg_with_a_thousand_segments_is_read(tmp_path: Path) -> None:
    whole = pictures.jpeg_with_metadata()
    notes = b"".join(pictures.segment(0xE5, b"a note") for _ in range(1000))
    path = pictures.write(tmp_path, whole[:2] + notes + whole[2:])
    assert probe(path, MAX_PIXELS).width_px == 320
    assert jpeg.read_blocks(path.read_bytes()) == jpeg.read_blocks(whole)


def test_a_refusal_names_only_the_accepted_formats(tmp_path: Path) -> None:
    accepted = (Format.JPEG, Format.PNG, Format.GIF, Format.WEBP)
    for data, came in (
        (pictures.avif_with_metadata(), "an AVIF"),
        (b"%PDF-1.7\n", "a PDF"),
    ):
        with pytest.raises(UnsupportedImage) as refused:
            probe(pictures.write(tmp_path, data), MAX_PIXELS, accepted)
        assert refused.value.errors["image"] == [f"Expected a picture as JPEG, PNG, GIF or WebP, but got {came}."]
    with pytest.raises(UnsupportedImage, match=r"^The file is empty\.$"):
        probe(pictures.write(tmp_path, b""), MAX_PIXELS, accepted)
    with pytest.raises(UnsupportedImage, match=r"^Expected a picture as JPEG, but got a PNG\.$"):
        probe(pictures.write(tmp_path, pictures.png_with_metadata()), MAX_PIXELS, [Format.JPEG])
    assert probe(pictures.write(tmp_path, pictures.jpeg_with_metadata()), MAX_PIXELS, accepted).format is Format.JPEG


def test_a_png_with_thousands_of_compressed_texts_is_refused(tmp_path: Path) -> None:
    plain = pictures.saved(pictures.scene(), "PNG")
    text = pictures.chunk(b"zTXt", b"Comment\0\0" + zlib.compress(b"a note " * 1000))
    assert probe(pictures.write(tmp_path, pictures.with_png_chunks(plain, *[text] * 900)), MAX_PIXELS).width_px == 320
    with pytest.raises(BrokenImage, match="1,000 compressed texts"):
        probe(pictures.write(tmp_path, pictures.with_png_chunks(plain, *[text] * 1001)), MAX_PIXELS)


def test_damaged_compressed_texts_count_with_their_decompressed_part(tmp_path: Path) -> None:
    broken = zlib.compress(bytes(6 * 1024 * 1024), 9)[:-4] + b"\0\0\0\0"
    plain = pictures.saved(pictures.scene(), "PNG")
    text = pictures.chunk(b"zTXt", b"Comment\0\0" + broken)
    with pytest.raises(BrokenImage, match="compressed texts"):
        probe(pictures.write(tmp_path, pictures.with_png_chunks(plain, *[text] * 3)), MAX_PIXELS)
