"""Compares CMYK JPEGs as this program converts them with screenshots of Chromium.

`python -m tests.bench.cmyk_in_browser [--chromium /usr/bin/chromium] [JPEG …]`

Without arguments it draws its own pictures without a profile: with an Adobe marker, without one, and as YCCK. The exit
status is 1 if any sample of a picture without a profile differs by more than 2 of 255. For pictures with a profile the
differences are only printed, because the rendering intents differ (libvips: perceptual, Chromium: relative
colorimetric).
"""

from __future__ import annotations

import argparse
import io
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyvips
from PIL import Image

from imgproc_local.codecs.picture.decode import to_srgb

MAX_ERROR = 2
TIMEOUT_S = 120
MARGIN_PX = 200
"""Added to the height of Chromium's window, because in headless mode the frame takes part of that height."""


def drawn_pictures() -> dict[str, bytes]:
    x, y = np.meshgrid(np.linspace(0, 255, 320), np.linspace(0, 255, 240))
    inks = np.stack([x, y, 255 - x, (x + y) / 4], axis=2).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(inks, "CMYK").save(out, "JPEG", quality=97, subsampling=0)
    adobe = out.getvalue()
    at = adobe.index(b"\xff\xee")
    (length,) = struct.unpack(">H", adobe[at + 2 : at + 4])
    transform = adobe.index(b"Adobe") + 11
    return {
        "Adobe marker": adobe,
        "no Adobe marker": adobe[:at] + adobe[at + 2 + length :],
        "YCCK": adobe[:transform] + b"\2" + adobe[transform + 1 :],
    }


def screenshot(chromium: str, data: bytes, folder: Path) -> np.ndarray:
    """The RGB samples, H×W×3, that Chromium displays for a JPEG."""
    (folder / "picture.jpg").write_bytes(data)
    width, height = Image.open(io.BytesIO(data)).size
    (folder / "page.html").write_text("<body style='margin:0'><img src='picture.jpg' style='display:block'>")
    command = [
        chromium,
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
        *("--disable-background-networking", "--disable-sync", "--force-color-profile=srgb"),
        f"--window-size={width},{height + MARGIN_PX}",
        f"--user-data-dir={folder / 'profile'}",
        f"--screenshot={folder / 'shown.png'}",
        (folder / "page.html").as_uri(),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_S)
    return np.asarray(Image.open(folder / "shown.png").convert("RGB"))[:height, :width].astype(int)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chromium", default="chromium")
    parser.add_argument("files", nargs="*", type=Path)
    arguments = parser.parse_args()
    sources = {path.name: path.read_bytes() for path in arguments.files} or drawn_pictures()
    failed = False
    for name, data in sources.items():
        with tempfile.TemporaryDirectory() as folder:
            shown = screenshot(arguments.chromium, data, Path(folder))
        image = pyvips.Image.jpegload_buffer(data)
        tagged = bool(image.get_typeof("icc-profile-data"))
        error = np.abs(to_srgb(image).numpy().astype(int) - shown)
        failed |= not tagged and error.max() > MAX_ERROR
        print(
            f"{name:40} {'profile' if tagged else 'no profile':10} mean {error.mean():5.2f}"
            f"  99 % {np.percentile(error, 99):3.0f}  worst {error.max():3}"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
