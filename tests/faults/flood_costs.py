"""CPU time and memory that reading, cleaning and rewriting each hostile file takes.

`python -m tests.faults.flood_costs [NAME…]` prints a table; the files are those of `tests/faults/floods.py`.
"""

from __future__ import annotations

import faulthandler
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec import json as msgspec_json

from imgproc_local.codecs.convert import convert_file
from imgproc_local.codecs.embedded import read_embedded
from imgproc_local.codecs.optimize import optimize_file
from imgproc_local.codecs.picture.probe import probe
from imgproc_local.domain.errors import ServiceError
from imgproc_local.domain.image import Format
from imgproc_local.vision.text.embedded_text import collect_texts
from tests.faults.floods import FLOODS

MAX_PIXELS = 100_000_000
MAX_SECONDS_IN_ALL = 500


class Cost(Struct, frozen=True):
    """What one operation on one file took. `outcome` is "done", or the message of the refusal."""

    file: str
    operation: str
    outcome: str
    cpu_s: float
    peak_bytes: int


def never_stop() -> None:
    """The stage goes on."""


def operations(path: Path) -> dict[str, Callable[[], Any]]:
    """The operations on a file, each with its own probe."""
    return {
        "probe": lambda: probe(path, MAX_PIXELS),
        "describe": lambda: collect_texts(read_embedded(path, probe(path, MAX_PIXELS)), path.name),
        "optimize": lambda: optimize_file(path, probe(path, MAX_PIXELS), never_stop),
        "WebP": lambda: convert_file(path, probe(path, MAX_PIXELS), Format.WEBP, never_stop),
        "AVIF": lambda: convert_file(path, probe(path, MAX_PIXELS), Format.AVIF, never_stop),
    }


def memory_bytes(field: str) -> int:
    """`VmRSS` or `VmHWM` of this process. Source: proc_pid_status(5)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.partition(f"{field}:")[2].split()[0])


def costs(name: str, folder: Path) -> list[Cost]:
    """What each operation on the file of this name takes. Any error that is not for the user is raised."""
    path = folder / name
    path.write_bytes(FLOODS[name]())
    found = []
    for operation, run in operations(path).items():
        Path("/proc/self/clear_refs").write_text("5")
        before, started_s = memory_bytes("VmRSS"), time.process_time()
        try:
            run()
            outcome = "done"
        except ServiceError as error:
            outcome = error.message
        peak = max(0, memory_bytes("VmHWM") - before)
        found.append(Cost(name, operation, outcome, time.process_time() - started_s, peak))
        print(msgspec_json.encode(found[-1]).decode(), flush=True)
    path.unlink()
    return found


def main() -> None:
    faulthandler.dump_traceback_later(MAX_SECONDS_IN_ALL, exit=True)
    names = sys.argv[1:] or list(FLOODS)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            costs(name, Path(folder))


if __name__ == "__main__":
    main()
