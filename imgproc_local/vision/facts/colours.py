"""Names of colours: the everyday name of the nearest ISCC-NBS centroid in CIELAB.

A name such as `dark_green` is a key of the phrase tables, which have the words of each language.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

Rgb = tuple[int, int, int]
Lab = tuple[float, float, float]

# Source: Paul Centore, "sRGB Centroids for the ISCC-NBS Colour System", 2016 (the names are those of Kelly and Judd,
# NBS Special Publication 440, 1976).
# The centroids of its level-3 categories are grouped under everyday names: most of those of level 1, some of them with
# "light" or "dark", and beige and turquoise. White, the greys and black have only their slightly tinted centroids here,
# because `_neutral_name` names colours without a tint.
_CENTROIDS = {
    "pink": (
        "fd7992 f48fa0 e66980 f8c3ce e2a3ae c5808a efd1dc cbadb7 b4888d f59080 ef6366 f8c4b6 e2a698 c9807e "
        "f1d3d1 cbacac fca1e7 f483cd df6aac f5b2db de98bf c67d9d ebc8df c7a3b9 dd2388 b83773 ab4b74 b2879b "
        "945c73"
    ),
    "red": "d51c3c bf344b b14955 985d62 e83b1b af3318",
    "dark_red": "87122d 5c0625 742434 481127 8b1c0e 610f12",
    "orange": "fd7e5d db5d3b cd6952 f7760b fd943f ea8127 c26012 fbaf82 de8d5c f6a600 f0a121 d08511 fcc27c e7a75d",
    "brown": (
        "a2402b b97565 ac7a73 7d423b 9e7f7a 6c4d4b b26633 8a4416 ad7c63 724a38 997f75 674f48 c38639 9e671d "
        "673f0b c49a74 886648 7e695d b08f42 a99066 997736 705420"
    ),
    "dark_brown": "53383e 461d1e 43292a 571a07 442112 3e2c28 50341a 4d3d33 3f2c10",
    "beige": "cbafa7 eec6a6 b49b8d efd7b2 c8b18b e6dcab beb584 d7d7c1",
    "yellow": "ffbe50 f1bf15 f7ce50 d9ae2f b88f16 f4d284 d2af63 ebdd21 e9dc55 c4b827 e9dd8a",
    "olive": "a29812 c0b55e 9e953c 8b7d2e 64591a 352e0a 5d553f 35301c 495b22 545947",
    "light_green": "a7dc26 c3df69 cedb9f 87d989 c5edc4 9cc69c a6e2ca",
    "green": "82a12b 486c0e 8b9a5f 3fd740 39964a 176a1e 669069 23eaa5 49d0a3 158a66 6fac95 337762",
    "dark_green": "2c5506 232f00 20340b 054208 2f5d3a 10361a 00543d 164e3d 0c2e24 00443f 154b4d 0a2d2e",
    "turquoise": "13fcd5 35d7ce 0d8f82 98e1e0 5fabab 297a7b",
    "light_blue": "2dbce2 94d6ef 65a8c3 99c6f9 73a4dc c2d2ec 91a2bb b7c0f8 8991cb c5c9f0 8e92b7",
    "blue": "0085a1 1385af 2a7691 1b5cd7 419ded 276cbd 34689e 54687f 4436d1 8088e2 5359b5 4d4e87 494d71",
    "dark_blue": "134a60 0b2c3b 113074 173459 323f4e 2a286f 222248",
    "purple": (
        "7931d3 987fdc 61419c 3c1668 c9baf8 9b8cca 5c4985 34254d d0c6ef 9a90b5 584e72 b935d5 ce8ce3 9352a8 "
        "652277 460a55 e4b9f3 bc93cc 875e96 563762 371b41 e0cbeb ad97b3 7b667e 513f51 d429b9 a74994 761a6a "
        "4f094a bd80ae 965888 5f3458 3f183c ad89a5 86627e 881055 54063c 6e294c 431432"
    ),
    "white": "efdde5 eedfda e0e2e5 e1e1f1 ebdfef",
    "light_grey": "c7b6bd c6b9b1 c7d9d6 babec1 b7b8c6 c3b7c6",
    "grey": "928186 928281 8e856f 8f877f 979a85 94a6a3 61716e 848888 838793 8f8490",
    "dark_grey": "5d4e53 605251 58514a 2f3326 394746 545858 50545f 5c525e",
    "black": "332127 30262b 2b211e 23211c 1f2a2a 212626 1e2531 24272e 2f2231 2b2630",
}

NAMES = tuple(_CENTROIDS)
"""All colour names."""

FAMILIES = {
    "dark_red": "red",
    "dark_brown": "brown",
    "beige": "brown",
    "olive": "green",
    "light_green": "green",
    "dark_green": "green",
    "light_blue": "blue",
    "dark_blue": "blue",
    "light_grey": "grey",
    "dark_grey": "grey",
}
"""The family of each shade. A name that is not a key is itself the name of a family."""

NEUTRAL_CHROMA = 5.0
"""CIELAB chroma below which a colour is named white, grey or black by its lightness alone."""


def colour_name(rgb: Rgb) -> str:
    """The name of `rgb`, an 8-bit sRGB colour; one of `NAMES`."""
    lightness, a, b = lab(rgb)
    if a * a + b * b < NEUTRAL_CHROMA**2:
        return _neutral_name(lightness)
    distances = (((lightness - c[0]) ** 2 + (a - c[1]) ** 2 + (b - c[2]) ** 2, name) for c, name in _centroids())
    return min(distances)[1]


def colour_shares(counts: Iterable[tuple[int, Rgb]]) -> dict[str, float]:
    """The share of the pixels (0 to 1) by colour name, largest first. `counts` are pairs (number of pixels, colour)."""
    shares: dict[str, float] = {}
    pairs = list(counts)
    total = sum(count for count, _ in pairs)
    for count, rgb in pairs:
        name = colour_name(rgb)
        shares[name] = shares.get(name, 0.0) + count / total
    return dict(sorted(shares.items(), key=lambda share: -share[1]))


def _neutral_name(lightness: float) -> str:
    """The name of a colour without hue, by its CIELAB lightness (0 to 100).

    Source: ISCC-NBS neutral limits at Munsell values 2.5, 4.5, 6.5 and 8.5; L* is about ten times the value.
    """
    for limit, name in ((25, "black"), (45, "dark_grey"), (65, "grey"), (85, "light_grey")):
        if lightness < limit:
            return name
    return "white"


@cache
def _centroids() -> tuple[tuple[Lab, str], ...]:
    """Pairs of a centroid in CIELAB and its name."""
    return tuple(
        (lab((int(code[:2], 16), int(code[2:4], 16), int(code[4:], 16))), name)
        for name, codes in _CENTROIDS.items()
        for code in codes.split()
    )


def lab(rgb: Rgb) -> Lab:
    """The CIELAB values of an 8-bit sRGB colour. Source: IEC 61966-2-1 (sRGB, D65) and CIE 15 (L*a*b*)."""
    r, g, b = (channel / 255 for channel in rgb)
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (r, g, b))
    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089
    fx, fy, fz = (t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)
