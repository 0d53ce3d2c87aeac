"""Bytes that no decoder needs are removed, wherever in a file they are, and the pixels are preserved.

The sources are results of the optimizer, which it would otherwise return as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import pyvips

from imgproc_local.codecs.container import avif as avif_container
from imgproc_local.codecs.container import png as png_container
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.domain.privacy import Removed
from tests.codecs import pictures
from tests.codecs.metadata.test_odd_places import MAX_PIXELS, box, frames, optimized_twice, shifted
from tests.codecs.pictures import never_stop
from tests.support.reading import optimize_file, private_kinds, probe

SECRET = b"SECRET 52.518N 13.400E of Ada"


def cleaned(folder: Path, source: bytes, *, is_reported: bool = True) -> bytes:
    """The optimized file, without the secret of the source and with its pixels; optimizing it again changes nothing."""
    path = pictures.write(folder, source)
    info = probe(path, MAX_PIXELS)
    assert Removed.OTHER in private_kinds(path, info) or not is_reported
    out = optimize_file(path, info, never_stop)
    assert out is not None
    assert SECRET[:6] not in out
    path = pictures.write(folder, out)
    assert private_kinds(path, probe(path, MAX_PIXELS)) == ()
    assert optimize_file(path, probe(path, MAX_PIXELS), never_stop) is None
    load = getattr(pyvips.Image, f"{FORMATS[info.format].loader}_buffer")
    before, after = load(source), load(out)
    assert (before.width, before.height, before.bands) == (after.width, after.height, after.bands)
    assert (before != after).max() == 0
    return out


# ---- AVIF ----


META, IPRP, IPCO = (b"meta",), (b"meta", b"iprp"), (b"meta", b"iprp", b"ipco")


def inside(data: bytes, *path: bytes) -> list[avif_container.Box]:
    """The boxes on this path of types; children begin after the fields of a box."""
    fields = {b"meta": 4, b"iinf": 6, b"iref": 4, b"stsd": 8}
    found = [avif_container.Box(b"", 0, 0, len(data))]
    for kind in path:
        parent = found[-1]
        start = parent.body + fields.get(parent.kind, 0)
        found.append(next(each for each in avif_container.boxes(data, start, parent.end) if each.kind == kind))
    return found[1:]


def grown(data: bytes, path: tuple[bytes, ...], added: bytes, at: int | None = None) -> bytes:
    """The file with bytes added to the last box on a path, at its end or `at` a position in its body."""
    parents = inside(data, *path)
    start = (parents[-1].end if parents else len(data)) if at is None else parents[-1].body + at
    # the tables lie before what they refer to
    out = bytearray(shifted(data, start, len(added)))
    for each in parents:
        out[each.start : each.start + 4] = struct.pack(">I", each.end - each.start + len(added))
    out[start:start] = added
    return bytes(out)


def full_box(kind: bytes, body: bytes) -> bytes:
    return box(kind, bytes(4) + body)


def associated(data: bytes, prop: bytes) -> bytes:
    """The AVIF with a property of its picture."""
    store = inside(data, *IPCO)[-1]
    number = 1 + len(list(avif_container.boxes(data, store.body, store.end)))
    data = grown(data, IPCO, prop)
    table = inside(data, *IPRP, b"ipma")[-1]
    out = bytearray(grown(data, (*IPRP, b"ipma"), bytes((number,)), at=11 + data[table.body + 10]))
    out[table.body + 10] += 1
    return bytes(out)


AVIF_PLACES: dict[str, Callable[[bytes], bytes]] = {
    **{
        f"tail of {path[-1].decode()}": lambda data, path=path: grown(data, path, SECRET)
        for path in (
            (*META, b"hdlr"), (*META, b"pitm"), (*META, b"iloc"), (*IPRP, b"ipma"), (*IPCO, b"ispe"),
            (*IPCO, b"pixi"), (*IPCO, b"colr"),
        )
    },
    **{
        f"property {kind.decode()}": lambda data, kind=kind: grown(data, IPCO, full_box(kind, SECRET))
        for kind in (b"udes", b"altt", b"abcd", b"uuid", b"free")
    },
    **{
        f"property {kind.decode()} of the picture": lambda data, kind=kind: associated(data, full_box(kind, SECRET))
        for kind in (b"udes", b"altt", b"abcd")
    },
    **{
        f"{kind.decode()} in {path[-1].decode() if path else 'the file'}": lambda data, kind=kind, path=path: grown(
            data, path, box(kind, SECRET)
        )
        for path in ((), META, IPRP)
        for kind in (b"uuid", b"abcd", b"free")
    },
    "unknown brands": lambda data: grown(data, (b"ftyp",), SECRET[:28]),
    "second handler": lambda data: grown(data, META, full_box(b"hdlr", bytes(4) + b"pict" + bytes(12) + SECRET)),
    "location of external data": lambda data: grown(
        data, META, box(b"dinf", full_box(b"dref", struct.pack(">I", 1) + full_box(b"url ", SECRET)))
    ),
    "idat of no item": lambda data: grown(data, META, box(b"idat", SECRET)),
    "mdat of no item": lambda data: data + box(b"mdat", SECRET),
    "slack in mdat": lambda data: grown(data, (b"mdat",), SECRET * 40),
    "slack before the picture in mdat": lambda data: grown(data, (b"mdat",), SECRET, at=0),
    "handler name": lambda data: grown(data, (b"meta", b"hdlr"), SECRET, at=24),
    "item name": lambda data: grown(data, (b"meta", b"iinf", b"infe"), SECRET, at=12),
    "unknown box among the names": lambda data: grown(data, (b"meta", b"iinf"), box(b"abcd", SECRET)),
    "bytes after the last box": lambda data: data + SECRET[:7],
}  # fmt: skip


@cache
def small_avif(*, alpha: bool = False, metadata: bool = False) -> bytes:
    picture = pictures.graphic(64, 48, alpha=True) if alpha else pictures.photo(64, 48)
    blocks = {"exif": pictures.tiff(), "xmp": pictures.xmp_packet()} if metadata else {}
    return pictures.saved(picture, "AVIF", quality=30, **blocks)


@pytest.mark.parametrize("place", AVIF_PLACES)
def test_bytes_in_an_avif_that_is_small_already_are_removed(tmp_path: Path, place: str) -> None:
    for alpha in (False, True):
        plain = optimized_twice(tmp_path, small_avif(alpha=alpha))
        source = AVIF_PLACES[place](plain)
        out = cleaned(tmp_path, source)
        assert len(out) <= len(source)  # the bytes remain as zeros
        if not place.endswith("in iprp"):  # libavif, with which Pillow decodes, refuses any other box there
            assert [frame.tobytes() for frame in frames(out)] == [frame.tobytes() for frame in frames(plain)]


def with_sound(data: bytes) -> bytes:
    """The animation with a second track, whose handler is that of sound, and whose samples hold the secret."""
    track = inside(data, b"moov", b"trak")[-1]
    sound = data[track.start : track.end].replace(b"pict", b"soun", 1)
    data = grown(data, (b"moov",), sound)
    at = data.rindex(b"stco") + 12
    return data[:at] + struct.pack(">I", len(data) + 8) + data[at + 4 :] + box(b"mdat", SECRET * 40)


ANIMATED_PLACES: dict[str, Callable[[bytes], bytes]] = {
    "user data": lambda data: grown(data, (b"moov",), box(b"udta", box(b"\xa9xyz", SECRET))),
    "box of a track": lambda data: grown(data, (b"moov", b"trak"), box(b"abcd", SECRET)),
    "box of the frames": lambda data: grown(data, (b"moov", b"trak", b"mdia", b"minf", b"stbl"), box(b"sgpd", SECRET)),
    "tail of a table": lambda data: grown(data, (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsz"), SECRET),
    "handler name": lambda data: grown(data, (b"moov", b"trak", b"mdia", b"hdlr"), SECRET, at=24),
    "compressor name": lambda data: data.replace(
        b"\nAOM Coding".ljust(32, b"\0"), bytes((len(SECRET),)) + SECRET.ljust(31, b"\0")
    ),
    "slack between the frames": lambda data: grown(data, (b"mdat",), SECRET),
    "sound": with_sound,
}


@pytest.mark.parametrize("place", ANIMATED_PLACES)
def test_bytes_in_an_animated_avif_are_removed(tmp_path: Path, place: str) -> None:
    plain = optimized_twice(tmp_path, pictures.animated("AVIF", [100, 200, 300], quality=30))
    source = ANIMATED_PLACES[place](plain)
    assert SECRET in source
    out = cleaned(tmp_path, source)
    assert len(frames(out)) == 3
    assert all(np.array_equal(*pair) for pair in zip(frames(plain), frames(out), strict=True))


# ---- JPEG ----


def before(marker: bytes, added: bytes) -> Callable[[bytes], bytes]:
    """Adds bytes before the last occurrence of a marker."""
    return lambda data: data[: data.rindex(marker)] + added + data[data.rindex(marker) :]


def tables(marker: int, first: int, size: int) -> bytes:
    """Sixty tables that are defined with the same number and not used."""
    return b"".join(pictures.segment(marker, bytes((first,)) + (SECRET * 9)[:size]) for _ in range(60))


HUFFMAN_TABLE = bytes((0x13, *([0] * 7), len(SECRET), *([0] * 8))) + SECRET
JPEG_PLACES: dict[str, Callable[[bytes], bytes]] = {
    **{f"{size} bytes before the end": before(b"\xff\xd9", (SECRET * 2000)[:size]) for size in (7, 8, 50_000)},
    "escaped bytes before the end": before(b"\xff\xd9", b"\xff\0" + SECRET + b"\xff\xd3" + SECRET),
    "before the last scan": before(b"\xff\xda", SECRET),
    "before the first Huffman table": lambda data: data.replace(b"\xff\xc4", SECRET + b"\xff\xc4", 1),
    "unused quantisation tables": before(b"\xff\xda", tables(0xDB, 3, 64)),
    "unused Huffman tables": before(b"\xff\xda", pictures.segment(0xC4, HUFFMAN_TABLE) * 60),
    "segment that decoders skip": before(b"\xff\xda", pictures.segment(0xDC, SECRET)),
}


@pytest.mark.parametrize("place", JPEG_PLACES)
def test_bytes_in_a_jpeg_that_was_optimized_before_are_removed(tmp_path: Path, place: str) -> None:
    plain = optimized_twice(tmp_path, pictures.saved(pictures.photo(), "JPEG"))
    assert cleaned(tmp_path, JPEG_PLACES[place](plain), is_reported=False) == plain


# ---- PNG ----


def with_chunk(kind: bytes, change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Changes the content of all chunks of a kind."""

    def changed(data: bytes) -> bytes:
        out = [png_container.SIGNATURE]
        for chunk in png_container.chunks(data):
            content = data[chunk.payload : chunk.end]
            out.append(pictures.chunk(chunk.kind, change(content) if chunk.kind == kind else content))
        return b"".join(out)

    return changed


def appended(content: bytes) -> bytes:
    return content + SECRET


PNG_PLACES: dict[str, Callable[[bytes], bytes]] = {
    "end": with_chunk(b"IEND", lambda _: SECRET[:8]),
    "end, long": with_chunk(b"IEND", appended),
    "after the compressed pixels": with_chunk(b"IDAT", appended),
    "second data": before(b"\0\0\0\0IEND", pictures.chunk(b"IDAT", SECRET)),
    "gamma that is too long": lambda data: pictures.with_png_chunks(
        data, pictures.chunk(b"gAMA", b"\0\0\xb1\x8f" + SECRET)
    ),
    "second density": lambda data: pictures.with_png_chunks(
        data, *[pictures.chunk(b"pHYs", bytes(8) + b"\1"), pictures.chunk(b"pHYs", SECRET[:9])]
    ),
}


@pytest.mark.parametrize("place", PNG_PLACES)
@pytest.mark.parametrize("kind", ["palette", "lossless", "grey"])
def test_bytes_in_a_png_that_is_small_already_are_removed(tmp_path: Path, place: str, kind: str) -> None:
    picture = {
        "palette": pictures.graphic(64, 48),
        "lossless": pictures.photo(64, 48),
        "grey": pictures.photo(64, 48)[..., 1],
    }
    plain = optimized_twice(tmp_path, pictures.saved(np.ascontiguousarray(picture[kind]), "PNG"))
    out = cleaned(tmp_path, PNG_PLACES[place](plain), is_reported=False)
    assert len(out) <= len(plain) + 21  # the density is preserved
