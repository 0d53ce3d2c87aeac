"""A child process of this program that receives requests and returns answers as frames over pipes, and the memory that
processes hold.

A frame is its length as a 32-bit number, least significant byte first, and that many bytes. The child runs in a process
group of its own: Ctrl+C in a terminal does not reach it, and `kill` also ends the processes that it started, except on
Windows. psutil is imported by the functions that need it: on Linux the service does not load it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import imgproc_local

_LENGTH = struct.Struct("<I")
_MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""A longer answer breaks the protocol. The longest of a worker, the pixels of a picture for OCR, has 12 MiB."""
_CREATION_FLAGS = 0
"""How Windows starts the child: not reached by Ctrl+C, without a console window, with a lower priority."""
if sys.platform == "win32":
    _CREATION_FLAGS = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    _CREATION_FLAGS |= subprocess.BELOW_NORMAL_PRIORITY_CLASS


def program(*arguments: str) -> list[str]:
    """The command line that starts this program with `arguments`, from source or frozen."""
    if getattr(sys, "frozen", False):
        return [sys.executable, *arguments]
    return [sys.executable, "-m", "imgproc_local", *arguments]


class ChildEnded(Exception):
    """The child ended or broke the protocol. `status` is its exit status, negative for the signal that ended it."""

    def __init__(self, status: int, last_error_line: str) -> None:
        super().__init__(status, last_error_line)
        self.status = status
        self.last_error_line = last_error_line

    def __str__(self) -> str:
        return f"{self.cause}. {self.last_error_line}"

    @property
    def cause(self) -> str:
        """The signal or the exit status, in words."""
        if self.status >= 0:
            return f"exit status {self.status}"
        with contextlib.suppress(ValueError):
            return signal.Signals(-self.status).name
        return f"signal {-self.status}"


class PipedChild:
    """The parent's side. One thread at a time may use it; `kill` may be called from any thread."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Raises: OSError, where the process can't be started."""
        self._process = subprocess.Popen(  # noqa: S603 - the callers start this program itself
            command,
            # `python -m` puts the working directory first on sys.path, so it must be the one that holds this package
            cwd=Path(imgproc_local.__file__).parents[1],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=None if sys.platform == "win32" else 0,
            creationflags=_CREATION_FLAGS,
        )
        self.pid = self._process.pid
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._errors = b""
        self._lock = threading.Lock()
        name = f"imgproc-child-{self.pid}"
        self._error_reader = threading.Thread(target=self._read_errors, name=name, daemon=True)
        try:
            threading.Thread(target=self._read_answers, name=name, daemon=True).start()
            self._error_reader.start()
        except RuntimeError as error:  # the system starts no more threads
            self.kill()
            raise OSError(errno.EAGAIN, str(error)) from error

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        with self._lock:
            return self._process.poll() is not None

    def send(self, frame: bytes) -> None:
        """Send one frame. Raises: ChildEnded."""
        assert self._process.stdin is not None
        try:
            _write_frame(self._process.stdin.fileno(), frame)
        except OSError:
            raise self._end() from None

    def receive(self, timeout_s: float) -> bytes | None:
        """The next frame, None if there is none within the timeout. Raises: ChildEnded."""
        try:
            frame = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if frame is None:
            raise self._end()
        return frame

    def kill(self) -> None:
        """Kill the process and (except on Windows) all that it started, and wait for its end."""
        with self._lock:
            if os.name == "posix":
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def end(self, wait_s: float) -> None:
        """Close the pipe, which ends the process, and kill what is left of it and its children after `wait_s`."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(wait_s)
        self.kill()

    def _end(self) -> ChildEnded:
        """Wait for the end of the child, kill it if it is late, and return the error to raise."""
        with self._lock, contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)  # its own status is wanted, not that of the kill
        self.kill()
        self._error_reader.join(1.0)  # it may not have read yet what the process wrote last
        lines = self._errors.decode("utf-8", "replace").splitlines()
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return ChildEnded(self._process.returncode, last)

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            while (frame := _read_frame(stream, _MAX_ANSWER_BYTES)) is not None:
                self._answers.put(frame)
        self._answers.put(None)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            while data := stream.read1(4096):  # type: ignore[attr-defined] # a BufferedReader
                self._errors = (self._errors + data)[-4096:]  # the last ones are kept


class Requests:
    """The child's side: the requests of the parent, which come until the parent closes its pipe or ends.

    Create it before libraries are loaded: what they print to standard output goes to standard error from then on.
    """

    def __init__(self) -> None:
        self._requests, self._answers = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(2, 1)
        os.close(null)
        if sys.platform == "win32":
            import msvcrt

            for descriptor in (self._requests, self._answers):
                msvcrt.setmode(descriptor, os.O_BINARY)
        self._received: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def start_reading(self, at_end: Callable[[], None] = lambda: os._exit(0)) -> None:
        """Start the thread that reads. It calls `at_end` after the last request; by default, the process ends at once.

        Call it after `sandbox.restrict_to`, which restricts only the calling thread and threads started later.
        """
        threading.Thread(target=self._read, args=(at_end,), name="imgproc-requests", daemon=True).start()

    def next(self) -> bytes:
        return self._received.get()

    def answer(self, frame: bytes) -> None:
        _write_frame(self._answers, frame)

    def _read(self, at_end: Callable[[], None]) -> None:
        with os.fdopen(self._requests, "rb") as stream:
            # the parent is trusted: 2**32 is no limit, because a length has 32 bits
            while (frame := _read_frame(stream, 2**32)) is not None:
                self._received.put(frame)
        at_end()


def _write_frame(descriptor: int, frame: bytes) -> None:
    data = memoryview(_LENGTH.pack(len(frame)) + frame)
    while data:
        data = data[os.write(descriptor, data) :]


def _read_frame(stream: IO[bytes], max_bytes: int) -> bytes | None:
    """The next frame; None at the end of the stream, and for a frame over `max_bytes`."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size or (length := _LENGTH.unpack(head)[0]) > max_bytes:
        return None
    frame = stream.read(length)
    return frame if len(frame) == length else None


# ---- memory ----


def resident_bytes(pid: int) -> int:
    """Physical memory of the process; 0 if it is unknown.

    On Linux without mapped files: libraries and the picture itself, whose memory the kernel can take back at any time
    because the files hold the same. psutil does not report them apart from shared memory, which counts.
    """
    if sys.platform == "linux":
        fields = _status(pid)
        return fields.get("VmRSS", 0) - fields.get("RssFile", 0)
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def peak_resident_bytes() -> int:
    """The most physical memory of this process since its start or `reset_peak`; 0 on other systems than Linux.

    There, no limit of memory makes a library fail, so nobody has to know how near the limit it was.
    """
    return _status("self").get("VmHWM", 0) if sys.platform == "linux" else 0


def reset_peak() -> None:
    """Let `peak_resident_bytes` count from now on, except in containers that do not allow that."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError), open("/proc/self/clear_refs", "wb", buffering=0) as file:  # noqa: PTH123
            file.write(b"5")


def usable_memory_bytes() -> int:
    """The memory of the machine, or the limit of the container if that is lower."""
    if sys.platform == "win32":
        import psutil

        return int(psutil.virtual_memory().total)
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    # of control groups version 2, then version 1; without a limit, the text is not a number. Source: cgroups(7)
    for file in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(Path("/sys/fs/cgroup", file).read_text(encoding="ascii")))
    return min(limits)


def _status(pid: int | str) -> dict[str, int]:
    """The fields of the process's status about memory, in bytes; empty where there is no such process.

    Source: proc_pid_status(5).
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    sizes = (line.split() for line in lines if line.startswith(("Vm", "Rss")))  # not `Name`, which the process chooses
    return {name.rstrip(":"): int(kilobytes) * 1024 for name, kilobytes, _ in sizes}
