"""A substitute for the process that reads text in pictures: the first byte of the pixels says what it does.

It is started as `python -m tests.support.ocr_double MODELS WORK PARENT`; with a folder MODELS named "broken", it ends.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import msgspec

from imgproc_local.domain.image import Pixels
from imgproc_local.system.piped_child import Requests
from imgproc_local.vision.ocr.child import Answer, Ready
from imgproc_local.vision.ocr.lines import ReadLine

GROWS_TO_BYTES = 200_000_000
READS, CRASHES, HANGS, GROWS, BABBLES = range(5)
COMMAND = (sys.executable, "-m", "tests.support.ocr_double")
LINE = ReadLine("Road closed", 0.99, aspect=6, height_share=0.1, area_share=0.2, edge_share=0.9)


def picture(order: int) -> Pixels:
    return Pixels(1, 1, bytes((order, 0, 0)))


def main() -> None:
    requests = Requests()
    if Path(sys.argv[1]).name == "broken":
        sys.exit("the networks can't be loaded")
    requests.start_reading()
    requests.answer(msgspec.msgpack.encode(Ready()))
    while True:
        order = msgspec.msgpack.decode(requests.next(), type=Pixels).rgb[0]
        if order == CRASHES:
            os.abort()
        if order == HANGS:
            time.sleep(60)
        if order == GROWS:
            held = b"x" * GROWS_TO_BYTES
            time.sleep(60)
            del held
        answer = b"?" if order == BABBLES else msgspec.msgpack.encode(Answer((LINE,), 300))
        requests.answer(answer)


if __name__ == "__main__":
    main()
