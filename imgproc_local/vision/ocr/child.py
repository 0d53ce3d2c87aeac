"""The process that reads text in pictures: it receives pixels and answers with the lines of text in them.

`TextReader` starts it as `ocr-worker` of `__main__.py`. It ends with the service, or when `TextReader` ends it.
"""

from __future__ import annotations

import faulthandler
from pathlib import Path

import msgspec
from msgspec import Struct

from imgproc_local.domain.image import Pixels
from imgproc_local.system import memory, sandbox
from imgproc_local.system.piped_child import Requests
from imgproc_local.vision.ocr.lines import ReadLine
from imgproc_local.vision.ocr.model_files import DETECTOR_FILE, RECOGNISER_FILE

NICENESS = 5
"""The process runs at a lower priority than the one that answers requests."""
EXIT_AFTER_S = 120.0
"""A request that takes longer ends the process; the service gives up earlier."""


class Ready(Struct, frozen=True, array_like=True):
    """The first answer: the networks are loaded."""


class Answer(Struct, frozen=True, array_like=True):
    """The lines in one picture, in reading order.

    `peak_bytes` is the most memory that the process has held, 0 if it is unknown.
    """

    lines: tuple[ReadLine, ...]
    peak_bytes: int


def run(models_folder: str, work_folder: str, parent_pid: int) -> None:
    """Answer the requests of the parent process until that ends. Only `work_folder` can be written."""
    requests = Requests()
    sandbox.depend_on_parent(parent_pid)
    sandbox.write_no_core_dumps()
    sandbox.lower_priority(NICENESS)
    sandbox.restrict_to(Path(work_folder))
    from PIL import Image

    from imgproc_local.vision.ocr.ppocr import Networks

    networks = Networks(Path(models_folder) / DETECTOR_FILE, Path(models_folder) / RECOGNISER_FILE)
    requests.start_reading()
    requests.answer(msgspec.msgpack.encode(Ready()))
    while True:
        pixels = msgspec.msgpack.decode(requests.next(), type=Pixels)
        faulthandler.dump_traceback_later(EXIT_AFTER_S, exit=True)
        picture = Image.frombytes("RGB", (pixels.width_px, pixels.height_px), pixels.rgb)
        answer = Answer(tuple(networks.read(picture)), memory.peak_resident_bytes())
        requests.answer(msgspec.msgpack.encode(answer))
        faulthandler.cancel_dump_traceback_later()
