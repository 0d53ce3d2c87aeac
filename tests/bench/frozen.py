"""Measures size, start and memory of a frozen program, against the same program run from source.

`python -m tests.bench.frozen [BINARY] [--rounds 5]`. Linux only. Without BINARY, of the source alone.

Both are measured alternately for several rounds, and the medians are compared, so that other load on the machine
affects both. For a cold start the caches of the kernel are dropped first, which needs root.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.bench.load import MIB, photograph, print_table, verdict
from tests.faults.server_process import SOURCE, ServerProcess, make_key, serving
from tests.support.processes import memory_bytes, reset_peak
from tests.support.service import Service

UPLOADS, UPLOAD_MIB = 8, 24
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
MAX_ONE_FOLDER_MB, MAX_ONE_FILE_MB = 75, 35
"""Limits for the size of the frozen program, in one folder and in one file."""
LIMITS = {
    "warm start to the first response, s": 0.6,
    "cold start to the first response, s": 1.5,
    "idle memory, MB": 60.0,
    f"growth while {UPLOADS} uploads of {UPLOAD_MIB} MiB arrive, MB": 64.0,
}
"""Limits for the medians of the source and of a program in one folder. Those of one in one file are not limited."""
Program = tuple[str | Path, ...]


def size_bytes(binary: Path) -> int:
    """The size of the one-file program, or that of the folder of the one-folder program."""
    if not (binary.parent / "_internal").is_dir():
        return binary.stat().st_size
    files = (path for path in binary.parent.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files)


def start_seconds(folder: Path, program: Program) -> float:
    """Seconds from the start of the process to its first response, to within 50 ms."""
    began_at = time.perf_counter()
    with serving(folder, program=program):
        return time.perf_counter() - began_at


def growth_bytes(server: ServerProcess, service: Service) -> int:
    """How much memory the server needs at most for large uploads at once, which are refused for their language."""
    files = {"image": ("a.jpg", photograph(320, 240, 1) + bytes(UPLOAD_MIB * MIB))}
    reset_peak(server.pid)
    before = server.rss_bytes()
    with ThreadPoolExecutor(UPLOADS) as pool:
        send = partial(service.client.post, "/images/analyze", files=files, data={"languages": "xx"})
        answers = [sent.result() for sent in [pool.submit(send) for _ in range(UPLOADS)]]
    assert {answer.status_code for answer in answers} == {422}, answers[0].text
    return memory_bytes(server.pid, "VmHWM") - before


def measure(program: Program, place: Path) -> dict[str, float]:
    """The values of one start after another, and of one server."""
    folder = place / "data"
    key = make_key(folder)
    values = {"warm start to the first response, s": start_seconds(folder, program)}
    if os.access(DROP_CACHES, os.W_OK):
        os.sync()
        DROP_CACHES.write_text("3")
        values["cold start to the first response, s"] = start_seconds(folder, program)
    with serving(folder, program=program) as server, Service(server.wait_ready(), key) as service:
        time.sleep(1)
        values["idle memory, MB"] = server.rss_bytes() / 1e6
        values[f"growth while {UPLOADS} uploads of {UPLOAD_MIB} MiB arrive, MB"] = growth_bytes(server, service) / 1e6
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    programs: list[Program] = [SOURCE]
    rows, is_limited = [], True
    if arguments.binary:
        binary = arguments.binary.resolve()
        programs.append((binary,))
        is_limited = (binary.parent / "_internal").is_dir()
        size_mb = size_bytes(binary) / 1e6
        rows.append(
            ("size, MB", f"{size_mb:.1f}", verdict(size_mb, MAX_ONE_FOLDER_MB if is_limited else MAX_ONE_FILE_MB, ""))
        )
    values: dict[str, list[list[float]]] = defaultdict(lambda: [[] for _ in programs])
    with tempfile.TemporaryDirectory() as name:
        for number in range(arguments.rounds):
            for which, program in enumerate(programs):
                for value_name, value in measure(program, Path(name, f"{number}-{which}")).items():
                    values[value_name][which].append(value)
    for value_name, (source, *frozen) in values.items():
        measured = (frozen or [source])[0]
        median, ratio = statistics.median(measured), statistics.median(measured) / statistics.median(source)
        text = f"{median:.3f} ({min(measured):.3f} to {max(measured):.3f}), {ratio:.3f} of source"
        limit = verdict(median, LIMITS[value_name], "") if is_limited else ""
        rows.append((value_name, text, limit))
    print_table(f"{arguments.binary or 'The source'}, median (minimum to maximum)", rows)


if __name__ == "__main__":
    main()
