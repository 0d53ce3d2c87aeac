"""ICC profiles: which of them are plain sRGB and can be removed, and what remains of the others.

A profile that is preserved is written anew from what colour conversion needs. Texts, measurements, serial numbers of
displays, private tags of programs, and bytes that belong to no tag are left out.

Source: ICC.1:2022 sections 7, 9 and 10; ICC.1:2001-04 sections 6.1 and 6.5.17; IEC 61966-2-1 (sRGB).
"""

from __future__ import annotations

import io
import struct
from itertools import product

from imgproc_local.codecs.metadata.blocks import MAX_BLOCK_BYTES

_SRGB_COLORANTS = {
    b"rXYZ": (0.4361, 0.2225, 0.0139),
    b"gXYZ": (0.3851, 0.7169, 0.0971),
    b"bXYZ": (0.1431, 0.0606, 0.7139),
}
"""sRGB's primaries adapted to D50 with the Bradford transform. Source: IEC 61966-2-1."""

WIDE_FROM = 1.15
"""A gamut is wide if its area is more than this multiple of sRGB's. Adobe RGB and Display P3 have 1.3."""

_WRITTEN_TAGS = b"""
wtpt chad cicp rXYZ gXYZ bXYZ rTRC gTRC bTRC kTRC A2B0 A2B1 A2B2 B2A0 B2A1 B2A2 gamt
D2B0 D2B1 D2B2 D2B3 B2D0 B2D1 B2D2 B2D3 desc cprt
""".split()
"""The tags that are written, in this order, if a profile has them: what LittleCMS reads to convert colours, `cicp` for
browsers, and the description and copyright notice that every profile must have.
"""
_DESCRIPTIVE_TAGS = frozenset(b"desc cprt dscm dmnd dmdd vued view meas tech lumi bkpt chrm".split())
"""Tags in profiles of many vendors. What is left out of them is private only if a text in it is."""
_MAX_DESCRIPTION_BYTES = 1024
"""How much of each descriptive tag is searched for private data."""

_TEXTS = {
    b"desc": b"desc\0\0\0\0\0\0\0\4ICC\0" + bytes(78),
    b"text": b"text\0\0\0\0ICC\0",
    b"mluc": b"mluc" + struct.pack(">4xII4sII", 1, 12, b"enUS", 6, 28) + "ICC".encode("utf-16-be"),
}
"""The text "ICC" in each type of text. It replaces every description and copyright."""
_UNREADABLE = bytes(8)
"""Replaces the data of a damaged tag, so that programs that ignored the profile because of it continue to ignore it."""
_LENGTHS = {b"XYZ ": 20, b"sf32": 44, b"cicp": 12}
"""The length of data of the types whose length is fixed in the tags that are written."""
_PARAMETERS = {0: 1, 1: 3, 2: 4, 3: 5, 4: 7}
"""The number of parameters of each type of parametric curve."""
_D50, _DATE = struct.pack(">3I", 0xF6D6, 0x10000, 0xD32D), struct.pack(">6H", 2000, 1, 1, 0, 0, 0)
"""The illuminant of every profile, and the date that is written into each."""
_MAX_TAGS = 100
"""Source: LittleCMS refuses more. The largest profiles have fewer than 40."""
_HEADER_BYTES = 132
"""The header and the number of tags."""


def colour_space(profile: bytes) -> str:
    """The colour space signature: `RGB`, `GRAY`, `CMYK`, `Lab` …; "" if the bytes are no profile."""
    is_profile = len(profile) >= _HEADER_BYTES and profile[36:40] == b"acsp"
    return profile[16:20].decode("ascii", "replace").strip() if is_profile else ""


def kept_profile(profile: bytes | None) -> bytes | None:
    """The profile written anew; None if it can be removed because it is missing, is no ICC profile, or is sRGB."""
    return None if profile and _is_srgb(profile) else rewritten(profile)


def rewritten(profile: bytes | None) -> bytes | None:
    """The profile with only what colour conversion needs; None if it is no ICC profile.

    Of the header remain the version, the class, both colour spaces and the rendering intent. A profile that was written
    here remains the same.
    """
    if not profile or not colour_space(profile):
        return None
    table = _table(profile)
    tags = [tag for tag in _WRITTEN_TAGS if tag in table]
    entries, body = b"", b""
    offsets: dict[bytes, int] = {}
    for tag in tags:
        data = _data(profile, *table[tag])
        if data not in offsets:
            # tags may refer to overlapping parts of the profile
            data = data if len(body) + len(data) <= MAX_BLOCK_BYTES else _UNREADABLE
            offsets[data] = _HEADER_BYTES + 12 * len(tags) + len(body)
            body += data + bytes(-len(data) % 4)
        entries += struct.pack(">4sII", tag, offsets[data], len(data))
    size = _HEADER_BYTES + len(entries) + len(body)
    fields = profile[8:10], profile[12:24], _DATE, b"acsp", profile[67:68], _D50, len(tags)
    return struct.pack(">I4x2s2x12s12s4s27xs12s48xI", size, *fields) + entries + body


def rewritten_in_place(profile: bytes) -> bytes:
    """The profile as `rewritten`, filled with zeros to its length; its length and zeros if it is no ICC profile."""
    new = rewritten(profile) or bytes(4)
    return (struct.pack(">I", len(profile)) + new[4:].ljust(len(profile), b"\0"))[: len(profile)]


def left_out(profile: bytes) -> tuple[bytes, bytes]:
    """What `rewritten` leaves out, except the header: the descriptive tags, and all else among zeros."""
    table = _table(profile)
    descriptions, rest = b"", bytearray(profile)
    for tag, (offset, size) in table.items():
        owned = len(_data(profile, offset, size)) if tag in _WRITTEN_TAGS else 0
        if tag in _DESCRIPTIVE_TAGS:
            owned = size
            descriptions += profile[offset : offset + min(size, _MAX_DESCRIPTION_BYTES)]
        owned += -owned % 4  # some programs fill the gap to the next tag with other bytes than zeros
        rest[offset : offset + owned] = bytes(owned)
    return descriptions, bytes(rest[_HEADER_BYTES + 12 * len(table) :])


def _is_srgb(profile: bytes) -> bool:
    """Whether a profile, whatever its name, shows all colours as sRGB does, within one of 255 levels."""
    from PIL import Image, ImageChops, ImageCms

    if colour_space(profile) != "RGB" or b"A2B0" in _table(profile):  # no table is exactly sRGB
        return False
    levels = range(0, 256, 15)
    colours = Image.frombytes(
        "RGB", (18**2, 18), bytes(band for colour in product(levels, repeat=3) for band in colour)
    )
    try:
        stored, srgb = ImageCms.getOpenProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB")
        shown = ImageCms.profileToProfile(colours, stored, srgb, ImageCms.Intent.RELATIVE_COLORIMETRIC)
    except (OSError, ImageCms.PyCMSError):
        return False
    assert shown is not None, "None is for pictures that are changed in place"
    return max(ImageChops.difference(colours, shown).tobytes()) <= 1


def is_wide(profile: bytes) -> bool:
    """Whether an RGB profile's gamut is clearly larger than sRGB's; False if it has only lookup tables."""
    corners = [_chromaticity(*xyz) for xyz in _colorants(profile)]
    srgb_corners = [_chromaticity(*xyz) for xyz in _SRGB_COLORANTS.values()]
    return bool(corners) and _area(*corners) > WIDE_FROM * _area(*srgb_corners)


def _colorants(profile: bytes) -> list[tuple[float, float, float]]:
    """The primaries of an RGB profile; none if it lacks one of them."""
    table = _table(profile)
    found = [_data(profile, *table.get(tag, (0, 0))) for tag in _SRGB_COLORANTS]
    numbers = [struct.unpack(">3i", raw[8:20]) for raw in found if raw[:4] == b"XYZ "]
    return [(x / 65536, y / 65536, z / 65536) for x, y, z in numbers] if len(numbers) == len(found) else []


def _chromaticity(x: float, y: float, z: float) -> tuple[float, float]:
    return (x / (x + y + z), y / (x + y + z)) if x + y + z else (0.0, 0.0)


def _area(one: tuple[float, float], other: tuple[float, float], third: tuple[float, float]) -> float:
    return abs((other[0] - one[0]) * (third[1] - one[1]) - (third[0] - one[0]) * (other[1] - one[1])) / 2


def _table(profile: bytes) -> dict[bytes, tuple[int, int]]:
    """The offset and size of each tag, the first of its name. One that exceeds the profile counts as absent, and so do
    all if they are more than `_MAX_TAGS`.
    """
    end, count = struct.unpack_from(">I124xI", profile) if colour_space(profile) else (0, 0)
    count = min(count, (len(profile) - _HEADER_BYTES) // 12) if count <= _MAX_TAGS else 0
    entries = list(struct.iter_unpack(">4sII", profile[_HEADER_BYTES:][: 12 * count]))
    end = min(end, len(profile))
    return {tag: (offset, size) for tag, offset, size in reversed(entries) if offset and 0 < size <= end - offset}


def _data(profile: bytes, offset: int, size: int) -> bytes:
    """A tag's data, as long as its type says, a text replaced; `_UNREADABLE` if it is cut off or of an unknown type.

    Tags of the types `mAB `, `mBA ` and `mpet`, which consist of parts that may lie anywhere in them, are copied whole.
    """
    kind, head = profile[offset : offset + 4], profile[offset + 8 : offset + 52].ljust(44, b"\0")
    inputs, outputs, side = head[:3]
    match kind:
        case b"desc" | b"text" | b"mluc":
            return _TEXTS[kind][: max(size, 8)]
        case b"curv":
            length = 12 + 2 * int.from_bytes(head[:4], "big")
        case b"para":
            length = 12 + 4 * _PARAMETERS.get(int.from_bytes(head[:2], "big"), len(profile))
        case b"mft1":
            length = 48 + 256 * (inputs + outputs) + side**inputs * outputs
        case b"mft2":
            rows, out_rows = struct.unpack(">HH", head[40:])
            length = 52 + 2 * (inputs * rows + side**inputs * outputs + outputs * out_rows)
        case b"mAB " | b"mBA " | b"mpet":
            length = size
        case _:
            length = _LENGTHS.get(kind, len(profile) + 1)
    data = profile[offset + 8 : offset + length]
    return kind + bytes(4) + data if size >= 8 and len(data) == length - 8 else _UNREADABLE
