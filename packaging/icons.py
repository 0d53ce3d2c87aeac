"""Renders the icon in all sizes that operating systems need, from one SVG: `python packaging/icons.py FOLDER`.

Writes `imgproc-local-SIZE.png`, `imgproc-local.ico` (Windows) and `imgproc-local.icns` (macOS) to FOLDER. Needs pyvips
and Pillow.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

DRAWING = Path(__file__).resolve().parents[1] / "imgproc_local" / "web" / "static" / "icon.svg"
DRAWING_PX = 32
SIZES_PX = (16, 24, 32, 48, 64, 128, 256, 512)
ICO_SIZES_PX = (16, 24, 32, 48, 256)
ICNS_SIZES_PX = (32, 64, 128, 256, 512, 1024)


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


def write(folder: Path) -> None:
    """Write all files to the folder. Each size in an .ico and .icns is rendered on its own, not scaled."""
    from PIL import Image

    for size_px in SIZES_PX:
        (folder / f"imgproc-local-{size_px}.png").write_bytes(png(size_px))
    for name, sizes in (("imgproc-local.ico", ICO_SIZES_PX), ("imgproc-local.icns", ICNS_SIZES_PX)):
        *smaller, largest = (Image.open(io.BytesIO(png(size_px))) for size_px in sizes)
        largest.save(folder / name, sizes=[(size_px, size_px) for size_px in sizes], append_images=smaller)


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    write(Path(sys.argv[1]))
