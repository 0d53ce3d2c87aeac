"""ICC profiles: which of them are plain sRGB and can be removed.

Source: ICC.1:2022 sections 7 and 10; IEC 61966-2-1 (sRGB).
"""

from __future__ import annotations

import struct

from imgproc_local.codecs.metadata.bounds import MAX_ICC_TAGS

_SRGB_COLORANTS = {
    b"rXYZ": (0.4361, 0.2225, 0.0139),
    b"gXYZ": (0.3851, 0.7169, 0.0971),
    b"bXYZ": (0.1431, 0.0606, 0.7139),
}
"""sRGB's primaries adapted to D50 with the Bradford transform. Source: IEC 61966-2-1."""

WIDE_FROM = 1.15
"""A gamut is wide if its area is more than this multiple of sRGB's. Adobe RGB and Display P3 have 1.3."""

_COLORANT_TOLERANCE = 0.004
_CURVE_TOLERANCE = 0.004
_CURVE_SAMPLES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0)


def colour_space(profile: bytes) -> str:
    """The colour space signature: `RGB`, `GRAY`, `CMYK`, `Lab` …; "" if the bytes are no profile."""
    return profile[16:20].decode("ascii", "replace").strip() if profile[36:40] == b"acsp" else ""


def kept_profile(profile: bytes | None) -> bytes | None:
    """The profile; None if it can be removed because it is missing, is no ICC profile, or is sRGB."""
    if not profile or not colour_space(profile) or is_srgb(profile):
        return None
    return profile


def is_srgb(profile: bytes) -> bool:
    """Whether the profile's primaries and tone curves are sRGB's, whatever its name."""
    tags = _tags(profile)
    # lookup tables, if present, take precedence over primaries and curves
    if colour_space(profile) != "RGB" or b"A2B0" in tags:
        return False
    for tag, expected in _SRGB_COLORANTS.items():
        raw = tags.get(tag, b"")
        if raw[:4] != b"XYZ " or len(raw) < 20:
            return False
        found = [number / 65536 for number in struct.unpack(">3i", raw[8:20])]
        if any(abs(got - want) > _COLORANT_TOLERANCE for got, want in zip(found, expected, strict=True)):
            return False
    return all(_is_srgb_curve(tags.get(tag, b"")) for tag in (b"rTRC", b"gTRC", b"bTRC"))


def is_wide(profile: bytes) -> bool:
    """Whether an RGB profile's gamut is clearly larger than sRGB's; False if it has only lookup tables."""
    tags = _tags(profile)
    corners, srgb_corners = [], []
    for tag, xyz in _SRGB_COLORANTS.items():
        raw = tags.get(tag, b"")
        if raw[:4] != b"XYZ " or len(raw) < 20:
            return False
        corners.append(_chromaticity(*struct.unpack(">3i", raw[8:20])))
        srgb_corners.append(_chromaticity(*xyz))
    return _area(*corners) > WIDE_FROM * _area(*srgb_corners)


def _chromaticity(x: float, y: float, z: float) -> tuple[float, float]:
    return (x / (x + y + z), y / (x + y + z)) if x + y + z else (0.0, 0.0)


def _area(one: tuple[float, float], other: tuple[float, float], third: tuple[float, float]) -> float:
    return abs((other[0] - one[0]) * (third[1] - one[1]) - (third[0] - one[0]) * (other[1] - one[1])) / 2


_READ_TAGS = frozenset((b"A2B0", b"rTRC", b"gTRC", b"bTRC", *_SRGB_COLORANTS))
"""The tags that are read. Others are skipped: all entries of a tag table may refer to the same bytes."""


def _tags(profile: bytes) -> dict[bytes, bytes]:
    if len(profile) < 132 or not colour_space(profile):
        return {}
    (count,) = struct.unpack(">I", profile[128:132])
    found: dict[bytes, bytes] = {}
    for number in range(min(count, MAX_ICC_TAGS)):
        entry = profile[132 + 12 * number : 144 + 12 * number]
        if len(entry) == 12:
            tag, offset, size = struct.unpack(">4sII", entry)
            if tag in _READ_TAGS:
                found[tag] = profile[offset : offset + size]
    return found


def _is_srgb_curve(raw: bytes) -> bool:
    try:
        return all(abs(_curve(raw, x) - _srgb_to_linear(x)) <= _CURVE_TOLERANCE for x in _CURVE_SAMPLES)
    except (struct.error, ValueError, ZeroDivisionError, OverflowError):
        return False


def _srgb_to_linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else float(((value + 0.055) / 1.055) ** 2.4)


def _curve(raw: bytes, x: float) -> float:
    if raw[:4] == b"curv":
        (count,) = struct.unpack(">I", raw[8:12])
        if count < 2:
            raise ValueError("a pure power function is not sRGB's curve")
        if 12 + 2 * count > len(raw):
            raise ValueError("a curve that is cut off")
        position = x * (count - 1)
        below = min(int(position), count - 2)
        part = position - below
        one, next_one = struct.unpack_from(">2H", raw, 12 + 2 * below)
        return float(one * (1 - part) + next_one * part) / 65535
    if raw[:4] == b"para" and raw[8:10] in (b"\0\3", b"\0\4"):
        # type 4 has two more numbers than type 3: the offsets of both parts
        stored = raw[12:40] if raw[9] == 4 else raw[12:32] + bytes(8)
        g, a, b, c, d, e, f = (number / 65536 for number in struct.unpack(">7i", stored))
        if x < d:
            return float(c * x + f)
        if a * x + b < 0:
            raise ValueError("a power of a negative number")
        return float((a * x + b) ** g + e)
    raise ValueError("neither a sampled nor a parametric curve")
