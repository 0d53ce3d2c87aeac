"""Every operation on a flood, a file with deep, long, numerous or repeating parts, takes little time and memory."""

from __future__ import annotations

import faulthandler
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from imgproc_local.codecs.files import convert_file, optimize_file
from imgproc_local.codecs.metadata.record import embedded
from imgproc_local.codecs.picture.source import Picture
from imgproc_local.domain.errors import ServiceError
from imgproc_local.domain.image import Format
from imgproc_local.vision.facts.texts import collect_texts
from tests.codecs.pictures import never_stop
from tests.faults.floods import FLOODS, SLOW_TO_ENCODE
from tests.support.processes import memory_bytes, reset_peak
from tests.support.reading import picture

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

MAX_PIXELS = 100_000_000
MAX_CPU_S = 2.0
MAX_MEMORY_BYTES = 128 * 1024 * 1024
TIMEOUT_S = 300
FILES = sorted(FLOODS.keys() - SLOW_TO_ENCODE)
OPERATIONS: dict[str, Callable[[Path, Picture], Any]] = {
    "read": lambda path, picture: None,
    "describe": lambda path, picture: collect_texts(embedded(picture.record), path.name),
    "optimize": lambda path, picture: optimize_file(path, picture, never_stop),
    "WebP": lambda path, picture: convert_file(path, picture, Format.WEBP, never_stop),
    "AVIF": lambda path, picture: convert_file(path, picture, Format.AVIF, never_stop),
}
"""What is done after the file was read."""
WITH_METADATA = [
    name for name in FILES if name.startswith(("xmp", "exif", "iptc", "icc")) and name != "xmp-in-16000-extents.avif"
]
"""The floods of metadata whose picture can be decoded. That of the AVIF can't: its `iloc` entry has a wrong offset."""


class Cost(Struct, frozen=True):
    """What one operation on one file took. `outcome` is "done", or the message of the refusal."""

    outcome: str
    cpu_s: float
    peak_bytes: int


Costs = dict[tuple[str, str], Cost]


def measure() -> Costs:
    """What each operation on each file takes. Any error that is not for the user is raised."""
    faulthandler.dump_traceback_later(TIMEOUT_S, exit=True)
    costs = {}
    with tempfile.TemporaryDirectory() as folder:
        for file in FILES:
            path = Path(folder, file)
            path.write_bytes(FLOODS[file]())
            for name, operation in OPERATIONS.items():
                reset_peak("self")
                before, began_s, outcome = memory_bytes("self", "VmRSS"), time.process_time(), "done"
                try:
                    operation(path, picture(path, MAX_PIXELS))
                except ServiceError as error:
                    outcome = error.message
                peak = memory_bytes("self", "VmHWM") - before
                costs[file, name] = Cost(outcome, time.process_time() - began_s, peak)
            path.unlink()
    return costs


@pytest.fixture(scope="module")
def costs() -> Costs:
    """Every operation on every file, in one process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(measure).result()


@pytest.mark.parametrize("file", FILES)
def test_every_operation_on_a_flood_takes_little_time_and_memory(costs: Costs, file: str) -> None:
    for operation in OPERATIONS:
        cost = costs[file, operation]
        assert cost.cpu_s < MAX_CPU_S, cost
        assert cost.peak_bytes < MAX_MEMORY_BYTES, cost
        assert cost.outcome == "done" or cost.outcome.endswith("."), cost  # an error message is a sentence


@pytest.mark.parametrize("file", ["frames-24000.png", "frames-24000.gif", "frames-24000.webp", "frames-declared.png"])
def test_an_animation_with_too_many_frames_is_refused_and_the_message_has_limit_and_count(
    costs: Costs, file: str
) -> None:
    assert "at most 20,000 frames, but has " in costs[file, "read"].outcome


@pytest.mark.parametrize("file", WITH_METADATA)
def test_metadata_beyond_the_bounds_is_dropped_and_the_picture_is_not_refused(costs: Costs, file: str) -> None:
    assert {costs[file, operation].outcome for operation in OPERATIONS} == {"done"}
