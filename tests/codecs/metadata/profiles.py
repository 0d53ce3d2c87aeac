"""ICC profiles of every kind, and one with a marker in every place that can hold private data."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from tests.codecs import pictures

EMAIL, SERIAL = "jane.doe@private.example", "SER7741XQ"
TAGS_WITH_MARKERS = (b"dscm", b"dmnd", b"dmdd", b"targ", b"mmod", b"meta", b"vcgt", b"prV8")
HEADER_MARKERS = {
    4: b"CmQ7",
    48: b"MnQ7",
    52: b"MdQ7",
    56: b"AttrQ7Zx",
    80: b"CrQ7",
    84: b"ProfileIdQ7Zx900",
    100: b"RsvQ7",
}
MARKERS = (
    *(f"Marker{tag.decode()}".encode() for tag in TAGS_WITH_MARKERS),
    *(b"MarkerUnowned", b"MarkerPadding", b"MarkerTrailing", b"MarkerDescription", EMAIL.encode(), SERIAL.encode()),
    *HEADER_MARKERS.values(),
)


def profile(
    tags: Mapping[bytes, bytes],
    *,
    space: bytes = b"RGB ",
    pcs: bytes = b"XYZ ",
    version: int = 2,
    kind: bytes = b"mntr",
    gap: bytes = b"",
) -> bytes:
    """A profile of these tags; equal data is stored once. `gap` follows the data of each tag."""
    table, body = struct.pack(">I", len(tags)), b""
    places: dict[bytes, int] = {}
    start = 132 + 12 * len(tags)
    for tag, data in tags.items():
        if data not in places:
            places[data] = start + len(body)
            body += data + gap
            body += bytes(-len(body) % 4)
        table += struct.pack(">4sII", tag, places[data], len(data))
    head = struct.pack(">I4xB3x4s4s4s12x4s24x4x3I", start + len(body), version, kind, space, pcs, b"acsp", *D50)
    return head.ljust(128, b"\0") + table + body


D50 = (0xF6D6, 0x10000, 0xD32D)
WHITE = b"XYZ \0\0\0\0" + struct.pack(">3I", *D50)


def xyz(x: float, y: float, z: float) -> bytes:
    return b"XYZ \0\0\0\0" + struct.pack(">3i", *(round(number * 65536) for number in (x, y, z)))


def colorants() -> dict[bytes, bytes]:
    tags = zip((b"rXYZ", b"gXYZ", b"bXYZ"), pictures.DISPLAY_P3, strict=True)
    return {b"wtpt": WHITE} | {tag: xyz(*numbers) for tag, numbers in tags}


def gamma(value: float = 2.2) -> bytes:
    return b"curv\0\0\0\0" + struct.pack(">IH", 1, round(value * 256))


def sampled(count: int = 33) -> bytes:
    samples = [round(65535 * (at / (count - 1)) ** 1.9) for at in range(count)]
    return b"curv\0\0\0\0" + struct.pack(f">I{count}H", count, *samples)


def parametric() -> bytes:
    """sRGB's curve."""
    numbers = (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)
    return b"para\0\0\0\0\0\3\0\0" + struct.pack(">5i", *(round(number * 65536) for number in numbers))


def text(words: str) -> bytes:
    return b"text\0\0\0\0" + words.encode() + b"\0"


def description(words: str) -> bytes:
    raw = words.encode() + b"\0"
    return b"desc\0\0\0\0" + struct.pack(">I", len(raw)) + raw + bytes(78)


def localized(words: str) -> bytes:
    raw = words.encode("utf-16-be")
    return b"mluc\0\0\0\0" + struct.pack(">II4sII", 1, 12, b"deDE", len(raw), 28) + raw


OLD_TEXTS = {b"desc": description("Vendor's display"), b"cprt": text("Copyright 2031 Vendor")}
NEW_TEXTS = {b"desc": localized("Vendor's display"), b"cprt": localized("Copyright 2031 Vendor")}


def table_of_lab(inputs: int, width: int) -> bytes:
    """A lookup table (`mft1` or `mft2`) from device colours to Lab with a grid of 3 points per side."""
    grid = [sum(divmod(at, 3)) * 7919 % 65536 for at in range(3**inputs * 3)]
    head = struct.pack(">BBBx9i", inputs, 3, 3, *(65536, 0, 0, 0, 65536, 0, 0, 0, 65536))
    if width == 1:
        ramp = bytes(range(256))
        return b"mft1\0\0\0\0" + head + inputs * ramp + bytes(number >> 8 for number in grid) + 3 * ramp
    ramp = struct.pack(">3H", 0, 30000, 65535)
    samples = inputs * ramp + struct.pack(f">{len(grid)}H", *grid) + 3 * ramp
    return b"mft2\0\0\0\0" + head + struct.pack(">HH", 3, 3) + samples


def stages() -> bytes:
    """A lookup table of version 4 (`mAB `) from RGB to XYZ: curves, a grid, curves, a matrix and curves."""
    curves = 3 * parametric()
    rows = zip(*pictures.DISPLAY_P3, strict=True)
    matrix = struct.pack(">12i", *(round(65536 * number) for row in rows for number in row), 0, 0, 0)
    grid = bytes((2, 2, 2)).ljust(16, b"\0") + b"\2\0\0\0"
    grid += b"".join(struct.pack(">3H", *(65535 * bit for bit in (at >> 2, at >> 1 & 1, at & 1))) for at in range(8))
    at_matrix = 32 + len(curves)
    at_grid = at_matrix + len(matrix)
    offsets = struct.pack(">5I", 32, at_matrix, 32, at_grid, 32)
    return b"mAB \0\0\0\0\3\3\0\0" + offsets + curves + matrix + grid


PROFILES = {
    "matrix, version 2": profile(OLD_TEXTS | colorants() | dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), gamma())),
    "matrix with sampled curves": profile(
        OLD_TEXTS | colorants() | {b"rTRC": sampled(), b"gTRC": sampled(64), b"bTRC": gamma(1.8), b"lumi": WHITE}
    ),
    "matrix, version 4": profile(
        NEW_TEXTS | colorants() | dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), parametric()), version=4
    ),
    "grey": profile(OLD_TEXTS | {b"wtpt": WHITE, b"kTRC": sampled()}, space=b"GRAY"),
    "tables of 8 bits": profile(OLD_TEXTS | {b"wtpt": WHITE, b"A2B0": table_of_lab(3, 1)}, pcs=b"Lab ", kind=b"scnr"),
    "CMYK": profile(
        OLD_TEXTS | {b"wtpt": WHITE} | dict.fromkeys((b"A2B0", b"A2B1", b"A2B2"), table_of_lab(4, 2)),
        space=b"CMYK",
        pcs=b"Lab ",
        kind=b"prtr",
    ),
    "tables of version 4": profile(
        NEW_TEXTS | colorants() | dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), gamma()) | {b"A2B0": stages()}, version=4
    ),
}


def planted() -> bytes:
    """A wide-gamut profile with `MARKERS` in texts, in tags that conversion does not need, and in bytes of no tag."""
    tags = {
        b"desc": description("MarkerDescription"),
        b"cprt": text(f"Copyright {EMAIL}"),
        **{tag: tag + bytes(4) + f"Marker{tag.decode()}".encode() for tag in TAGS_WITH_MARKERS},
        b"calt": text(f"serial {SERIAL}"),
        **colorants(),
        b"rTRC": gamma() + b"MarkerPadding",
    }
    tags[b"gTRC"] = tags[b"bTRC"] = tags[b"rTRC"]
    out = bytearray(profile(tags, gap=b"MarkerUnowned") + b"MarkerTrailing")
    for at, marker in HEADER_MARKERS.items():
        out[at : at + len(marker)] = marker
    struct.pack_into(">I", out, 0, len(out))
    return bytes(out)
