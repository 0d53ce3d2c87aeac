"""Prints which files of the package one picture passes, and how often its metadata is parsed.

    python -m tests.walk

(a) by POST /images/process, in the process of the service until the 202; (b) by a JPEG through `process`, in all its
processes; (c) how often the metadata of (b) is parsed. A file is passed if one of its functions is called, other than
while modules are imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = str(ROOT / "imgproc_local") + os.sep
PARSER = "codecs/metadata/record.py", "read_record"
"""The function that parses the metadata of a file."""
BOUNDS = {"a": 14, "b": 45, "c": 1}
SITE = "from tests.walk import Trace\nimport os\nTrace(os.open({log!r}, os.O_WRONLY | os.O_APPEND)).start()\n"
"""The `sitecustomize` of traced processes. The log is opened before the sandbox refuses that."""


class Trace:
    """Writes each file whose functions are called, and each call of the parser, as a line to the open file `log`."""

    def __init__(self, log: int) -> None:
        self._log = log
        self._seen: set[CodeType] = set()
        self.is_on = True

    def start(self) -> None:
        threading.setprofile(self._called)
        sys.setprofile(self._called)

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not self.is_on or not code.co_filename.startswith(PACKAGE):
            return
        name = code.co_filename.removeprefix(PACKAGE)
        is_parser = (name, code.co_name) == PARSER
        if (code in self._seen and not is_parser) or _is_importing(frame):
            return
        self._seen.add(code)
        os.write(self._log, f"{name}\n{'parsed' if is_parser else name}\n".encode())


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module or the body of a class is being executed, other than the one that was started."""
    while frame is not None:
        if not frame.f_code.co_flags & 1 and frame.f_globals.get("__name__") != "__main__":
            return True
        frame = frame.f_back
    return False


def post(folder: Path) -> list[str]:
    """The lines of the log of one POST. No stage is started, because the lanes do not run."""
    from imgproc_local.engine.runner import Runner
    from tests.support import pictures
    from tests.support.service import running

    log = folder / "post.log"
    trace = Trace(os.open(log, os.O_WRONLY | os.O_CREAT))
    trace.is_on = False
    trace.start()
    Runner.start = lambda self: None  # type: ignore[method-assign]
    with running(folder / "data") as service:
        trace.is_on = True
        service.dispatch("process", pictures.jpeg())
        trace.is_on = False
    return log.read_text().splitlines()


def process(folder: Path) -> list[str]:
    """The lines of the log of `process` with one JPEG."""
    from tests.support import pictures

    log = folder / "process.log"
    log.touch()
    (folder / "sitecustomize.py").write_text(SITE.format(log=str(log)))
    (folder / "a.jpg").write_bytes(pictures.jpeg())
    command = [sys.executable, "-m", "imgproc_local", "process", str(folder / "a.jpg"), "--out", str(folder / "out")]
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "IMGPROC_DATA_DIR": str(folder / "data")}
    subprocess.run(command, check=True, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    return log.read_text().splitlines()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        walks = {"a": post(Path(folder)), "b": process(Path(folder))}
    for name, lines in walks.items():
        files = sorted(set(lines) - {"parsed"})
        print(f"({name}) {len(files)} files, bound {BOUNDS[name]}:", *files, sep="\n    ")
    print(f"(c) metadata parsed {walks['b'].count('parsed')} times, bound {BOUNDS['c']}")


if __name__ == "__main__":
    main()
