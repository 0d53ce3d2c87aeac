"""`process` on many small pictures, as scripts use it: what it costs and prints, `xargs -P`, and kills in place.

`python -m tests.ordeals.command_line [--pictures 2000] [--kills 20] [--seed N] [--program BINARY]`

Prints CPU time, memory and lines of output of a first and a second run. `xargs -P 4` with another output folder makes
results of every picture. Three runs in place leave the same bytes as one. A run in place that is killed at random
moments leaves of each picture the whole original or the whole result.
"""

from __future__ import annotations

import random
import resource
import subprocess
import tempfile
import time
from pathlib import Path

from imgproc_local.cli.discovery import read_manifest
from tests.faults.server_process import clean_environment
from tests.ordeals.batch import make_tree
from tests.ordeals.options import options_of

UPTIME_S = 6.0
"""The longest time from the start of the command to its kill."""


def measured(what: str, command: tuple[object, ...], folder: Path, stdin: bytes | None = None) -> None:
    """Run a command that must succeed, apart from the two broken pictures, and print what it costs."""
    before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    arguments, environment = [str(each) for each in command], clean_environment()
    result = subprocess.run(arguments, cwd=folder, input=stdin, capture_output=True, env=environment, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert result.returncode in (0, 1, 123), result.stderr[-2000:]
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = [stream.count(b"\n") for stream in (result.stdout, result.stderr)]
    print(
        f"{what}: {time.monotonic() - began_s:.1f} s, {cpu_s:.1f} CPU s, largest process so far"
        f" {after.ru_maxrss // 1024} MB, {lines[0]} lines on stdout, {lines[1]} on stderr",
        flush=True,
    )


def content(root: Path) -> dict[Path, bytes]:
    return {file.relative_to(root): file.read_bytes() for file in root.rglob("*.jpg")}


def kill_in_place(folder: Path, command: tuple[object, ...], kills: int, rng: random.Random) -> None:
    """Kill the command on `pictures` at random moments. `expected` has what an undisturbed run makes of them.

    Raises: AssertionError, if a picture is neither the original nor the result.
    """
    originals, expected, replaced = content(folder / "pictures"), content(folder / "expected"), []
    for _ in range(kills):
        with subprocess.Popen([str(each) for each in command], cwd=folder, env=clean_environment()) as process:
            time.sleep(rng.uniform(0, UPTIME_S))
            process.kill()
        between = content(folder / "pictures")
        assert between.keys() == originals.keys()
        damaged = [file for file, data in between.items() if data not in (originals[file], expected[file])]
        assert not damaged, damaged
        replaced.append(sum(data != originals[file] for file, data in between.items()))
    left = len([*(folder / "pictures").rglob(".imgproc*")])
    print(f"{kills} kills, every picture whole; replaced after each: {replaced}; {left} temporary files left")


def main() -> None:
    options = options_of(__doc__, pictures=2000, kills=20)
    print(f"--pictures {options.pictures} --kills {options.kills} --seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="command-line-") as work:
        folder, process = Path(work), (*options.program, "process")
        make_tree(folder / "pictures", options.pictures)
        files = b"".join(bytes(file) + b"\0" for file in sorted((folder / "pictures").rglob("*.jpg")))
        measured("first run", (*process, "pictures", "--out", "out"), folder)
        measured("second run", (*process, "pictures", "--out", "out"), folder)
        measured("second run, list", (*process, "--files-from", "-", "--out", "out"), folder, files)
        count = str(max(1, options.pictures // 20))
        measured("xargs -P 4", ("xargs", "-0", "-n", count, "-P", "4", *process, "--out", "out-xargs"), folder, files)
        records = read_manifest(folder / "out-xargs")
        names = [path for record in records.values() for path in record.paths]
        assert sum(len(record.paths) == 2 for record in records.values()) == options.pictures
        assert len(names) == len(set(names)) == len([*(folder / "out-xargs").rglob("[!.]*.*")])
        make_tree(folder / "expected", options.pictures)
        in_place, runs = ("--in-place", "--quiet"), []
        for number in ("first", "second", "third"):
            measured(f"{number} run in place", (*process, "expected", *in_place), folder)
            runs.append(content(folder / "expected"))
        assert runs[0] == runs[1] == runs[2]
        kill_in_place(folder, (*process, "pictures", *in_place), options.kills, random.Random(options.seed))


if __name__ == "__main__":
    main()
