"""HDR and wide gamuts: what becomes of them in every result, as a table of `api/README.md` says, and how it looks."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import pyvips
from msgspec import structs
from PIL import Image

import imgproc_local
from imgproc_local.codecs import files
from imgproc_local.codecs.container import Blocks, avif, avif_writer, jpeg, png
from imgproc_local.codecs.container.jxl import codestream
from imgproc_local.codecs.metadata import icc
from imgproc_local.codecs.picture import decode, formats, other_decoders
from imgproc_local.codecs.picture.source import ResultOptions
from imgproc_local.domain.errors import StageFailed
from imgproc_local.domain.image import READ_ONLY_FORMATS, CodedColours, Format
from imgproc_local.domain.result import Note
from tests.codecs import pictures
from tests.codecs.operations import optimized, read_blocks, whole
from tests.codecs.pictures import never_stop
from tests.support.reading import encode_file, file_to_send, picture, probe

WIDTH, HEIGHT, SIDE_PX = 192, 144, 96
FAST = ResultOptions(effort="fast")
PQ, HLG, P3, REC2020 = CodedColours(9, 16), CodedColours(9, 18), CodedColours(12, 13), CodedColours(9, 13)


def samples() -> pyvips.Image:
    """16 bits per sample, of which the brightest are far above the white of SDR if they are coded by PQ or HLG."""
    return pyvips.Image.new_from_array(pictures.photo(WIDTH, HEIGHT).astype(np.uint16) * 257, interpretation="rgb16")


def coded_png(colours: CodedColours, *chunks: bytes) -> bytes:
    cicp = pictures.chunk(b"cICP", bytes((colours.primaries, colours.transfer, 0, 1)))
    return pictures.with_png_chunks(bytes(samples().pngsave_buffer()), cicp, *chunks)


def coded_avif(colours: CodedColours) -> bytes:
    encoded = bytes(samples().heifsave_buffer(compression="av1", bitdepth=10, Q=95, effort=0, keep="none"))
    return avif_writer.with_colours(encoded, colours)


def heic(rgb: np.ndarray, **options: object) -> bytes:
    pillow_heif = pytest.importorskip("pillow_heif", reason="needs imgproc-local[heic]")
    mode = ("RGB" if rgb.shape[2] == 3 else "RGBA") + (";16" if rgb.dtype == np.uint16 else "")
    out = io.BytesIO()
    pillow_heif.from_bytes(mode, (WIDTH, HEIGHT), rgb.tobytes()).save(out, quality=92, **options)
    return out.getvalue()


def coded_heic(colours: CodedColours) -> bytes:
    options = {"color_primaries": colours.primaries, "transfer_characteristics": colours.transfer}
    return heic(pictures.photo(WIDTH, HEIGHT).astype(np.uint16) * 257, save_nclx_profile=True, **options)


def heic_with_gain_map() -> bytes:
    """A HEIC whose auxiliary picture, which is its alpha, has a name that ends like that of Apple's gain maps."""
    rgba = np.dstack([pictures.photo(WIDTH, HEIGHT), np.full((HEIGHT, WIDTH), 77, np.uint8)])
    made = heic(rgba)
    assert made.count(b"urn:mpeg:hevc:2015:auxid:1") == 1
    return made.replace(b"urn:mpeg:hevc:2015:auxid:1", b"urn:c:photo:aux:hdrgainmap")


def avif_with_gain_map() -> bytes:
    """An AVIF with a further picture, and the item that says how it is applied to the first."""
    made = [pictures.saved(pictures.photo(320, 240), "AVIF", quality=100), pictures.saved(GREY, "AVIF")]
    shown, gain_map = (avif_writer._pictures(each)[0] for each in made)
    size = next(box for box in shown.properties if box[4:8] == b"ispe")
    items = [
        avif_writer._Item(shown.kind, shown.content, shown.properties),
        gain_map,
        avif_writer._Item(b"tmap", bytes(62), [size]),
    ]
    return avif_writer._file(made[0], items, avif_writer._reference(b"dimg", 3, [1, 2]))


def ultra_hdr(orientation: int = 1) -> bytes:
    """An Ultra HDR JPEG of libvips, with highlights of several times the white of SDR."""
    light = samples().colourspace("scrgb")
    shown = (light * (1 + 7 * light[1])).copy(interpretation="scrgb")
    made = bytes(shown.uhdrsave_buffer(Q=97))
    exif = pictures.segment(0xE1, b"Exif\0\0" + pictures.tiff(orientation))
    found = re.search(rb"\xff\xe1..Exif\0\0", made, re.DOTALL)
    if found is None:
        return made[:2] + exif + made[2:]
    return made[: found.start()] + exif + made[found.start() + 2 + int.from_bytes(found[0][2:4], "big") :]


GREY = np.ascontiguousarray(pictures.photo(WIDTH // 4, HEIGHT // 4)[..., 1])
WIDE = pictures.wide_profile()
ROWS: dict[str, tuple[Callable[[], bytes], ...]] = {
    "Ultra HDR JPEG": (ultra_hdr,),
    "AVIF with a gain map": (avif_with_gain_map,),
    "HEIC with a gain map": (heic_with_gain_map,),
    "PQ or HLG, AVIF": (lambda: coded_avif(PQ), lambda: coded_avif(HLG)),
    "PQ or HLG, PNG": (lambda: coded_png(PQ), lambda: coded_png(HLG)),
    "PQ or HLG, HEIC": (lambda: coded_heic(PQ), lambda: coded_heic(HLG)),
    "Display P3 or BT.2020 without a profile, AVIF": (lambda: coded_avif(P3), lambda: coded_avif(REC2020)),
    "Display P3 or BT.2020 without a profile, PNG": (lambda: coded_png(P3), lambda: coded_png(REC2020)),
    "Display P3 without a profile, HEIC": (lambda: coded_heic(P3),),
    "Display P3 by a profile, any format": tuple(
        lambda name=name: pictures.saved(pictures.photo(WIDTH, HEIGHT), name, quality=97, icc_profile=WIDE)
        for name in ("JPEG", "WEBP", "AVIF", "PNG")
    ),
}


def documented() -> dict[str, list[str]]:
    """The cells of the table by the first cell of their row."""
    text = (Path(imgproc_local.__file__).parent / "api/README.md").read_text("utf-8")
    section = text.split("### HDR and wide gamuts\n")[1].split("\n### ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    assert rows[0][1:] == ["optimized", "scaled", "to WebP", "to AVIF", "to JPEG XL"]
    return {first: cells for first, *cells in rows[2:]}


def results(folder: Path, data: bytes) -> list[files.Encoded]:
    """The optimized, the scaled, and the converted files of a picture."""
    path = pictures.write(folder, data)
    read = picture(path)
    size = read.info.scaled_within(SIDE_PX, SIDE_PX)
    optimize = files.encode_file if read.info.format in READ_ONLY_FORMATS else files.optimize_file
    made = [optimize(path, read, never_stop, FAST) or files.Encoded(data, read.info.format)]
    made.append(files.encode_file(path, read, never_stop, FAST, size))
    targets = (Format.WEBP, Format.AVIF, *((Format.JXL,) if formats.can_use_jxl() else ()))
    return made + [files.convert_file(path, read, each, never_stop, FAST) for each in targets]


def outcome(folder: Path, result: files.Encoded) -> str:
    """What a file has, and its notes, in the words of the table."""
    info = probe(pictures.write(folder, result.data, "result"))
    if result.format is Format.JXL:  # whose pixels are converted to sRGB while they are decoded
        width, height = info.display_size_px
        rows = other_decoders.rows_of(bytearray(width * height * 3), width, height, 3)
        profile = other_decoders.libjxl().decode(codestream(result.data), out=rows, metadata=True)[1].get("icc")
    else:
        profile = read_blocks(result.data, result.format).icc
    kind = "profile" if profile and icc.is_wide(profile) else "sRGB"
    if info.has_gain_map or Note.GAIN_MAP_DROPPED in result.notes:
        kind = "gain map" if info.has_gain_map else "SDR"
    elif info.colours:
        kind = "HDR" if info.colours.is_hdr else "numbers"
    return ", ".join([kind, *(f"`{note}`" for note in result.notes)])


@pytest.mark.parametrize("row", ROWS)
def test_a_result_is_as_documented(tmp_path: Path, row: str) -> None:
    assert documented().keys() == ROWS.keys()
    for make in ROWS[row]:
        made = [outcome(tmp_path, each) for each in results(tmp_path, make())]
        assert made == documented()[row][: len(made)]


class CountedBytes(bytes):
    """The bytes of a file, which count those that were read of them."""

    read = 0

    def __getitem__(self, key: slice) -> bytes:  # type: ignore[override]
        part = super().__getitem__(key)
        self.read += len(part) if isinstance(key, slice) else 1
        return part


def test_a_property_that_an_avif_names_many_times_is_read_once() -> None:
    made = pictures.saved(GREY, "AVIF")
    shown = avif_writer._pictures(made)[0]
    large = [
        avif.box_bytes(b"auxC", bytes(20_000)),
        *(avif.box_bytes(b"colr", kind + bytes(20_000)) for kind in (b"nclx", b"prof")),
    ]
    item = structs.replace(shown, properties=[*large * 70, *shown.properties])
    data = avif_writer._file(made, [item], b"")
    for read in (avif.has_gain_map, avif.coded_colours, avif.read_blocks):
        counted = CountedBytes(data)
        read(counted)
        assert counted.read < 2 * len(data)


# ---- how it looks

CHROMIUM = {
    PQ: [0, 5, 30, 70, 132, 213, 255, 255],
    HLG: [0, 14, 43, 71, 99, 135, 189, 228],
    CodedColours(9, 16, 400): [0, 8, 39, 88, 163, 249, 255, 255],
    CodedColours(9, 16, 4000): [0, 5, 30, 70, 132, 202, 226, 250],
    CodedColours(9, 18, 400): [0, 20, 55, 89, 123, 166, 231, 255],
}
"""What Chromium 156 shows of greys coded by 0, 32 … 224 of 255, as it fills a canvas in sRGB."""


@pytest.mark.parametrize("colours", CHROMIUM)
def test_hdr_greys_are_shown_as_in_chromium(colours: CodedColours) -> None:
    levels = (np.arange(0, 256, 32) / 255 * 65535).round().astype(np.uint16)
    ramp = pyvips.Image.new_from_array(np.repeat(levels[None, :, None], 3, axis=2), interpretation="rgb16")
    shown = decode.to_srgb(decode.as_browsers_show(ramp, colours)[0]).numpy()
    assert np.abs(shown - np.array(CHROMIUM[colours])[None, :, None]).max() <= 3


def test_the_brightest_light_is_read_from_png_and_avif() -> None:
    clli, mdcv = struct.pack(">II", 400 * 10_000, 0), bytes(16) + struct.pack(">II", 4000 * 10_000, 1)
    read = [
        png.coded_colours(coded_png(PQ, pictures.chunk(b"mDCV", mdcv), pictures.chunk(b"cLLI", clli))),
        png.coded_colours(coded_png(PQ, pictures.chunk(b"mDCV", mdcv))),
        png.coded_colours(coded_png(PQ, pictures.chunk(b"cLLI", bytes(8)))),
        avif.coded_colours(coded_avif(CodedColours(9, 16, 400))),
        avif.coded_colours(coded_avif(PQ)),
    ]
    assert [colours and colours.max_nits for colours in read] == [400, 4000, None, 400, None]
    assert not any(b"clli" in coded_avif(each) for each in (PQ, P3)), "nobody measured it"


def test_colours_of_an_unknown_kind_are_refused_in_words(tmp_path: Path) -> None:
    path = pictures.write(tmp_path, coded_avif(CodedColours(22, 16)))
    with pytest.raises(StageFailed, match=r"not supported \(CICP primaries 22, transfer 16\)"):
        files.convert_file(path, picture(path), Format.WEBP, never_stop, FAST)
    assert decode.thumbnail(path, probe(path), WIDTH, never_stop).width_px == WIDTH  # for a description, as sRGB


@pytest.mark.parametrize("numbers", [(6, 6), (5, 1), (22, 4), (1, 4)])
def test_colours_like_those_of_srgb_are_taken_as_such(numbers: tuple[int, int]) -> None:
    assert avif.coded_colours(coded_avif(CodedColours(*numbers))) is None
    assert png.coded_colours(coded_png(CodedColours(*numbers))) is None


def test_linear_light_is_shown_as_srgb() -> None:
    light = pyvips.Image.new_from_array(np.full((1, 1, 3), 0.2140 * 65535).astype(np.uint16), interpretation="rgb16")
    shown = decode.to_srgb(decode.as_browsers_show(light, CodedColours(1, 8))[0]).numpy()
    assert np.abs(shown.astype(int) - 127).max() <= 1


@pytest.mark.parametrize("make", [coded_avif, coded_png])
def test_a_thumbnail_and_a_conversion_show_the_same_tone_mapped_picture(
    tmp_path: Path, make: Callable[[CodedColours], bytes]
) -> None:
    path = pictures.write(tmp_path, make(PQ))
    info = probe(path)
    stored = samples()
    expected = decode.to_srgb(decode.as_browsers_show(stored, PQ)[0]).numpy()
    assert pictures.distance(stored.colourspace("srgb").numpy(), expected) > 10  # without it, the picture looks pale
    small = decode.thumbnail(path, info, WIDTH, never_stop)
    assert pictures.distance(np.frombuffer(small.rgb, np.uint8).reshape(expected.shape), expected) < 2
    for new_format in (Format.WEBP, Format.AVIF):
        out = files.convert_file(path, picture(path), new_format, never_stop, FAST).data
        result = pictures.write(tmp_path, out, "result")
        shown = decode.thumbnail(result, probe(result), WIDTH, never_stop)
        assert pictures.distance(np.frombuffer(shown.rgb, np.uint8).reshape(expected.shape), expected) < 4


def test_an_hdr_picture_with_transparency_keeps_both_in_an_avif(tmp_path: Path) -> None:
    alpha = pyvips.Image.new_from_array(np.tile(np.arange(HEIGHT, dtype=np.uint16)[:, None] * 257, (1, WIDTH)))
    plain = bytes(samples().bandjoin(alpha).copy(interpretation="rgb16").pngsave_buffer())
    path = pictures.write(tmp_path, pictures.with_png_chunks(plain, pictures.chunk(b"cICP", bytes((9, 16, 0, 1)))))
    out = files.convert_file(path, picture(path), Format.AVIF, never_stop, FAST).data
    info = probe(pictures.write(tmp_path, out, "result"))
    assert (info.colours, info.has_alpha) == (PQ, True)
    assert np.array_equal(np.asarray(pictures.opened(out))[..., 3], (alpha / 257).numpy())


# ---- gain maps


def loaded(data: bytes) -> tuple[pyvips.Image, dict[str, object], np.ndarray]:
    """An Ultra HDR picture as libvips reads it: in linear light, how the gain map is applied, the gain map."""
    image = pyvips.Image.uhdrload_buffer(data)
    fields = {name: image.get(name) for name in image.get_fields() if name.startswith("gainmap-")}
    stored = pyvips.Image.jpegload_buffer(fields.pop("gainmap-data"))
    fields.pop("gainmap-scale-factor", None)  # follows from the sizes
    return image.uhdr2scRGB(), fields, stored.numpy()


def test_a_gain_map_is_scaled_with_its_picture(tmp_path: Path) -> None:
    source = ultra_hdr()
    path = pictures.write(tmp_path, source)
    info = probe(path)
    out, _ = encode_file(path, info, never_stop, FAST, info.scaled_within(SIDE_PX, SIDE_PX))
    (before, fields, old_map), (after, new_fields, new_map) = loaded(source), loaded(out)
    assert new_fields == fields
    assert read_blocks(out, Format.JPEG).icc == picture(path).record.icc is not None
    expected_map = decode.scaled(pyvips.Image.new_from_array(old_map), 0.5).numpy()
    assert new_map.shape == expected_map.shape
    assert np.abs(new_map.astype(int) - expected_map).mean() < 3
    assert before.max() > 2.5
    assert np.abs(before.resize(0.5).numpy() - after.numpy()).mean() < 0.05 * before.avg()


@pytest.mark.parametrize("orientation", [1, 6])
def test_an_ultra_hdr_picture_is_optimized_like_any_other_and_keeps_its_gain_map(
    tmp_path: Path, orientation: int
) -> None:
    source = ultra_hdr(orientation)
    out = whole(optimized(tmp_path, source))
    plain = whole(optimized(tmp_path, jpeg.with_blocks(source, read_blocks(source, Format.JPEG))))
    assert np.array_equal(np.asarray(pictures.opened(out)), np.asarray(pictures.opened(plain)))
    old_map, new_map = (pictures.opened(whole(jpeg.gain_map(each))) for each in (source, out))
    turned = old_map if orientation == 1 else old_map.transpose(Image.Transpose.ROTATE_270)
    assert pictures.distance(turned.convert("RGB"), new_map.convert("RGB")) < (0.01 if orientation == 1 else 1.5)
    assert loaded(out)[1] == loaded(source)[1]
    assert pictures.GPS_RATIONAL not in out
    assert optimized(tmp_path, out) is None


@pytest.mark.parametrize("make", [ultra_hdr, avif_with_gain_map])
def test_a_picture_with_a_gain_map_is_not_sent_to_an_external_service(
    tmp_path: Path, make: Callable[[], bytes]
) -> None:
    path = pictures.write(tmp_path, make())
    assert file_to_send(path, probe(path)) is None


def test_a_gain_map_of_more_pixels_than_the_picture_is_none(tmp_path: Path) -> None:
    source = ultra_hdr()
    gain_map = whole(jpeg.gain_map(source))
    large = pictures.saved(pictures.photo(2 * WIDTH, HEIGHT), "JPEG")
    assert probe(pictures.write(tmp_path, source)).has_gain_map
    assert not probe(pictures.write(tmp_path, source.replace(gain_map, large))).has_gain_map


def test_a_picture_whose_gain_map_has_no_frame_header_is_read_without_it(tmp_path: Path) -> None:
    source = ultra_hdr()
    gain_map = whole(jpeg.gain_map(source))
    at = gain_map.index(b"\xff\xc0")
    damaged = source.replace(gain_map, gain_map[: at + 1] + b"\xef" + gain_map[at + 2 :])
    assert not probe(pictures.write(tmp_path, damaged)).has_gain_map
    assert jpeg.gain_map(whole(optimized(tmp_path, damaged))) is None


def test_a_gain_map_that_cannot_be_decoded_is_dropped_where_it_would_have_to_be_turned(tmp_path: Path) -> None:
    source = ultra_hdr(orientation=6)
    gain_map = whole(jpeg.gain_map(source))
    path = pictures.write(tmp_path, source.replace(gain_map, gain_map.replace(b"\xff\xdb", b"\xff\xef")))
    made = files.optimize_file(path, picture(path), never_stop, FAST)
    assert made is not None
    assert jpeg.gain_map(made.data) is None
    assert made.notes == (Note.GAIN_MAP_DROPPED,)


def test_a_description_of_a_gain_map_has_nothing_after_its_fields() -> None:
    """Of one or three channels, with or without a common denominator; the picture has only versions."""
    name, plain = b"urn:iso:std:iso:ts:21496:-1\0", pictures.saved(GREY, "JPEG")
    versions = pictures.segment(0xE2, name + bytes(4))
    for fields in (bytes(4) + b"\x40" + bytes(56), bytes(4) + b"\xc8" + bytes(72)):
        for private in (b"", b"SECRET"):
            source = plain[:2] + pictures.segment(0xE2, name + fields + private) + plain[2:]
            assert jpeg.iso_gain_map_segments(source) == pictures.segment(0xE2, name + fields)
            out = jpeg.with_blocks_and_gain_map(source, Blocks(), plain[:2] + versions + plain[2:])
            assert out[2:].startswith(versions), "the picture has no other fields, whatever the original had"
            assert out.count(name) == 2
    assert name not in jpeg.with_blocks_and_gain_map(source, Blocks(), plain)
    mention = pictures.segment(0xE2, b"SECRET " + name)
    assert not jpeg.iso_gain_map_segments(plain[:2] + mention + plain[2:])


def test_nothing_follows_the_versions_in_an_optimized_picture(tmp_path: Path) -> None:
    source = ultra_hdr()
    versions = pictures.segment(0xE2, b"urn:iso:std:iso:ts:21496:-1\0" + bytes(4))
    assert source.count(versions) == 1
    private = pictures.segment(0xE2, b"urn:iso:std:iso:ts:21496:-1\0" + bytes(5) + b"SECRET")
    out = whole(optimized(tmp_path, source.replace(versions, private)))
    assert b"SECRET" not in out
    assert loaded(out)[1] == loaded(source)[1]
