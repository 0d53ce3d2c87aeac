"""What a worker process does to read the text in a picture. Only there the networks and NumPy are loaded."""

from __future__ import annotations

from msgspec import Struct

from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.image import Pixels
from imgproc_local.vision.ocr.lines import ReadLine


class TextRequest(Struct, frozen=True, array_like=True):
    """The picture to read, and the folder of the networks."""

    networks_folder: str
    pixels: Pixels


def read_lines(request: TextRequest, _: CheckStop) -> tuple[ReadLine, ...]:
    """The lines of text in a picture, in reading order. Runs in a worker, which keeps the networks for the next one."""
    from PIL import Image

    from imgproc_local.vision.ocr.ppocr import loaded_networks

    pixels = request.pixels
    picture = Image.frombytes("RGB", (pixels.width_px, pixels.height_px), pixels.rgb)
    return tuple(loaded_networks(request.networks_folder).read(picture))
