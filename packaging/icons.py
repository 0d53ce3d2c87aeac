"""Renders the icon in all sizes that operating systems need, from one SVG: `python packaging/icons.py FOLDER`.

Writes `imgproc-local-SIZE.png`, `imgproc-local.ico` (Windows) and `imgproc-local.icns` (macOS) to FOLDER. Needs pyvips.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

DRAWING = Path(__file__).resolve().parents[1] / "imgproc_local" / "web" / "static" / "icon.svg"
DRAWING_PX = 32
SIZES_PX = (16, 24, 32, 48, 64, 128, 256, 512)
ICO_SIZES_PX = (16, 24, 32, 48, 256)
ICNS_TYPES = {b"icp4": 16, b"icp5": 32, b"ic07": 128, b"ic08": 256, b"ic09": 512}


def png(size_px: int) -> bytes:
    """The icon as a square PNG of `size_px` × `size_px`."""
    import pyvips

    # the codecs block SVG in their process, because uploads are untrusted; this drawing is the project's own
    pyvips.operation_block_set("VipsForeignLoadSvg", False)
    try:
        drawing = pyvips.Image.svgload(str(DRAWING), scale=size_px / DRAWING_PX)
        encoded: bytes = drawing.pngsave_buffer(strip=True, compression=9)
    finally:
        pyvips.operation_block_set("VipsForeignLoadSvg", True)
    return encoded


def ico() -> bytes:
    """A Windows icon: a header, an entry of 16 bytes per image, then the PNGs. A width of 256 is written as 0."""
    images = [(size_px, png(size_px)) for size_px in ICO_SIZES_PX]
    offset = 6 + 16 * len(images)
    entries = b""
    for size_px, image in images:
        entries += struct.pack("<BBBBHHII", size_px % 256, size_px % 256, 0, 0, 1, 32, len(image), offset)
        offset += len(image)
    return struct.pack("<HHH", 0, 1, len(images)) + entries + b"".join(image for _, image in images)


def icns() -> bytes:
    """A macOS icon: a header with type and length, then for each PNG a header with type and length, and the PNG."""
    images = [(kind, png(size_px)) for kind, size_px in ICNS_TYPES.items()]
    parts = b"".join(struct.pack(">4sI", kind, 8 + len(image)) + image for kind, image in images)
    return struct.pack(">4sI", b"icns", 8 + len(parts)) + parts


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for size_px in SIZES_PX:
        (folder / f"imgproc-local-{size_px}.png").write_bytes(png(size_px))
    (folder / "imgproc-local.ico").write_bytes(ico())
    (folder / "imgproc-local.icns").write_bytes(icns())


if __name__ == "__main__":
    main()
