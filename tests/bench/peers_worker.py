"""The child process of one encoder, so that its CPU time and memory are measured separately.

It reads one task per line from standard input and writes one response per line to standard output, both JSON. The first
line that it writes is the version of the encoder. `tests.bench.peers` runs it: `python -m tests.bench.peers_worker
ours`, or with `pillow`, `oxipng` or `command /usr/bin/cwebp`.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Task = dict[str, Any]
Response = dict[str, Any]

MAX_PIXELS = 1_000_000_000
COMMAND_TIMEOUT_S = 300.0
_STATUS = Path("/proc/self/status")
_PILLOW: dict[str, dict[str, Any]] = {"jpeg": {"progressive": True}, "gif": {"save_all": True}}


def reset_peak() -> None:
    """Reset the kernel's count of the peak memory. Linux only: elsewhere the peak is that since the process started."""
    if _STATUS.exists():
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    if _STATUS.exists():
        return int(_STATUS.read_text().split("VmHWM:")[1].split()[0]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def cpu_s() -> float:
    """CPU seconds of this process and of its child processes that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def measured(encode: Callable[[Task], Response | None]) -> Callable[[Task], Response]:
    def run(task: Task) -> Response:
        reset_peak()
        start = cpu_s()
        extra = encode(task)
        return {"cpu_s": cpu_s() - start, "peak_bytes": peak_bytes(), **(extra or {})}

    return run


def ours() -> tuple[str, Callable[[Task], Response]]:
    import imgproc_local
    from imgproc_local.codecs.convert import convert_file
    from imgproc_local.codecs.optimize import optimize_file
    from imgproc_local.codecs.picture import probe
    from imgproc_local.codecs.picture.source import ResultOptions
    from imgproc_local.domain.image import Format

    def encode(task: Task) -> Response:
        source, options = Path(task["source"]), ResultOptions(**task["options"])
        info = probe.probe(source, MAX_PIXELS)
        name = task["format"]
        if name.startswith("to "):
            data: bytes | None = convert_file(source, info, Format(name[3:]), lambda: None, options)
        else:
            data = optimize_file(source, info, lambda: None, options)
        # None: there is no smaller file, and the service would return the original
        Path(task["result"]).write_bytes(source.read_bytes() if data is None else data)
        return {"unchanged": data is None}

    return f"imgproc-local {imgproc_local.__version__}", measured(encode)


def pillow() -> tuple[str, Callable[[Task], Response]]:
    import PIL
    from PIL import Image, ImageOps

    Image.MAX_IMAGE_PIXELS = None

    def encode(task: Task) -> None:
        with Image.open(task["source"]) as opened:
            options = _PILLOW.get(task["format"], {}) | task["options"]
            picture = opened if task["format"] == "gif" else ImageOps.exif_transpose(opened)
            if profile := opened.info.get("icc_profile"):
                options["icc_profile"] = profile
            picture.save(task["result"], task["format"], **options)

    return f"Pillow {PIL.__version__}", measured(encode)


def oxipng() -> tuple[str, Callable[[Task], Response]]:
    import importlib.metadata

    module = importlib.import_module("oxipng")

    def encode(task: Task) -> None:
        module.optimize(task["source"], task["result"], strip=module.StripChunks.safe(), **task["options"])

    return f"pyoxipng {importlib.metadata.version('pyoxipng')}", measured(encode)


def command(executable: str) -> tuple[str, Callable[[Task], Response]]:
    """Runs a program. In its arguments, `{source}` and `{result}` are files, and `{copy}` is a copy that it changes."""

    def run(task: Task) -> Response:
        wanted, result = task["options"]["arguments"], task["result"]
        if "{copy}" in wanted:
            shutil.copyfile(task["source"], result)
        files = {"{source}": task["source"], "{result}": result, "{copy}": result}
        arguments = [executable, *(files.get(each, each) for each in wanted)]
        devnull = subprocess.DEVNULL
        child = subprocess.Popen(arguments, stdin=devnull, stdout=devnull, stderr=subprocess.PIPE)
        assert child.stderr
        end = threading.Timer(COMMAND_TIMEOUT_S, child.kill)
        end.start()
        said = child.stderr.read().decode("utf-8", "replace")
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        end.cancel()
        if child.returncode:
            raise RuntimeError(f"exit status {child.returncode}: {said.strip()[-200:]}")
        # a child inherits the peak of its parent, so it is started by this small process and not by the benchmark
        peak = usage.ru_maxrss if sys.platform == "darwin" else usage.ru_maxrss * 1024
        return {"cpu_s": usage.ru_utime + usage.ru_stime, "peak_bytes": peak}

    name = Path(executable).name
    asked = subprocess.run(
        [executable, "-version" if name == "cwebp" else "--version"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return f"{name} {(asked.stdout or asked.stderr).strip().splitlines()[0].removeprefix(name).strip()}", run


def main() -> None:
    kind, *arguments = sys.argv[1:]
    openers: dict[str, Callable[..., tuple[str, Callable[[Task], Response]]]] = {
        "ours": ours,
        "pillow": pillow,
        "oxipng": oxipng,
        "command": command,
    }
    version, encode = openers[kind](*arguments)
    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        try:
            response = encode(json.loads(line))
        except Exception as error:  # sent to the benchmark, which continues with the next picture
            response = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(response), flush=True)


if __name__ == "__main__":
    main()
