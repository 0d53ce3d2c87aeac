"""Mutations of files that know of chunks, lengths, checksums and tables, so that readers get past their first check."""

from __future__ import annotations

import random
import struct
import zlib

MAX_BYTES = 256 * 1024
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
INTERESTING = (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 1023, 4096, 32767, 32768, 65535, 65536)
LARGE = (0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFF0, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
TOKENS = (
    b"\xff\xdd\0\4\0\1", b"http://ns.adobe.com/xmp/extension/\0", b"ICC_PROFILE\0", b"MPF\0", b"\x1c\2\x50\0\4",
    b"\x1c\2\x78\xff\xff", b"MM\0*\0\0\0\x08", b"iCCP", b"PLTE", b"tRNS", b"Raw profile type 8bim\0\0", b"VP8L",
    b"ALPH", b"!\xf9\4\0\1\0\0\0", b"iloc", b"idat", b"co64", b"uuid", b"auxC", b"irot", b"imir", b"grid",
    b"<!DOCTYPE x>", b"&#0;", b"xml:lang=\"x-default\"", b"xmlns:a=\"b\"", b"<![CDATA[", b"-->", b"?" * 40, b"N 1.5 ",
    b"a@b.c ", b"1.23456, 2.34567 ", b"S/N AB-1 ", b"\xe3\x81\x82", b"\xef\xbf\xbd", b"filename*=utf-8''a%2fb",
)  # fmt: skip
"""Signatures, names of parts and fragments of text that no seed or few seeds have, in all formats."""


def mutated(data: bytes, source: random.Random, others: tuple[bytes, ...] = ()) -> bytes:
    """The data with one to eight changes, checksums of PNG chunks and sizes of RIFF files corrected mostly."""
    out = bytearray(data)
    for _ in range(source.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        source.choice(_CHANGES)(out, source, others)
        del out[MAX_BYTES:]
    if source.random() < 0.9:
        _correct(out)
    return bytes(out)


def _position(out: bytearray, source: random.Random) -> int:
    """A place in the data, often in its first part, where headers are."""
    end = len(out)
    return source.randrange(min(end, 512) if source.random() < 0.4 else end) if end else 0


def _byte(out: bytearray, source: random.Random, _: tuple[bytes, ...]) -> None:
    if out:
        at = _position(out, source)
        out[at] = source.choice((0, 0xFF, 0x7F, 0x80, out[at] ^ 1 << source.randrange(8), source.randrange(256)))


def _integer(out: bytearray, source: random.Random, _: tuple[bytes, ...]) -> None:
    """Overwrites an integer of one to eight bytes by an interesting one, or by one near to it."""
    size = source.choice((1, 2, 2, 4, 4, 8))
    at = _position(out, source)
    order = source.choice(("big", "little"))
    old = int.from_bytes(out[at : at + size], order)
    near = (old + source.randrange(-4, 5), old * 2, len(out), len(out) - at)
    value = source.choice((source.choice(INTERESTING), source.choice(LARGE), source.choice(near)))
    out[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, order)


def _token(out: bytearray, source: random.Random, _: tuple[bytes, ...]) -> None:
    token, at = source.choice(TOKENS), _position(out, source)
    out[at : at + (len(token) if source.random() < 0.5 else 0)] = token


def _remove(out: bytearray, source: random.Random, _: tuple[bytes, ...]) -> None:
    at = _position(out, source)
    del out[at : at + source.choice((1, 2, 4, 8, 64, 1024, len(out)))]


def _repeat(out: bytearray, source: random.Random, _: tuple[bytes, ...]) -> None:
    """Repeats a run of bytes, up to thousands of times."""
    at = _position(out, source)
    run = out[at : at + source.choice((1, 2, 4, 8, 12, 16, 32, 100, 1000))]
    out[at:at] = run * min(source.choice((1, 2, 3, 10, 100, 1000, 10_000)), MAX_BYTES // max(1, len(run)))


def _copy(out: bytearray, source: random.Random, others: tuple[bytes, ...]) -> None:
    """Inserts a run of another input, or of this one."""
    other = source.choice(others) if others else bytes(out)
    start, at = source.randrange(len(other) + 1), _position(out, source)
    run = other[start : start + source.choice((2, 4, 8, 16, 64, 512, 4096))]
    out[at : at + (len(run) if source.random() < 0.5 else 0)] = run


def _part(out: bytearray, source: random.Random, _: tuple[bytes, ...]) -> None:
    """Repeats, removes or moves a whole part: a chunk, box, segment or block that begins with its length or name."""
    at = _position(out, source)
    for offset in range(at, min(at + 2048, len(out) - 8)):
        length = struct.unpack_from(">I", out, offset)[0]
        if 8 <= length <= len(out) - offset and bytes(out[offset + 4 : offset + 8]).isalpha():
            part = bytes(out[offset : offset + min(len(out) - offset, length + source.choice((0, 12)))])
            out[offset : offset + source.choice((0, len(part)))] = part * source.choice((0, 1, 2, 50))
            return


_CHANGES = (_byte, _byte, _byte, _integer, _integer, _integer, _token, _remove, _repeat, _copy, _copy, _copy, _part)


def _correct(out: bytearray) -> None:
    """Corrects what a decoder checks first."""
    if out[:8] == PNG_SIGNATURE:
        at = 8
        while at + 12 <= len(out):
            (length,) = struct.unpack_from(">I", out, at)
            end = at + 8 + length
            if end + 4 > len(out):
                return
            struct.pack_into(">I", out, end, zlib.crc32(out[at + 4 : end]))
            at = end + 4
    elif out[:4] == b"RIFF" and len(out) >= 12:
        struct.pack_into("<I", out, 4, len(out) - 8)
