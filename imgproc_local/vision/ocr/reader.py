"""Reads text in pictures in a process of its own, which is started for the first picture and ended when it is idle.

If the process crashes, takes too long or uses too much memory, only the text of one picture is not read, and the log
says so. If it can't be started, no text is read for `RETRY_S`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.image import Pixels
from imgproc_local.system.memory import resident_bytes
from imgproc_local.system.piped_child import ChildEnded, PipedChild
from imgproc_local.vision.ocr.child import Answer, Ready
from imgproc_local.vision.ocr.lines import ReadLine

log = logging.getLogger(__name__)

IDLE_S = 60.0
"""The process is ended after this long without a picture."""
START_TIMEOUT_S, READ_TIMEOUT_S = 60.0, 60.0
"""How long loading the networks may take, and how long reading one picture may take."""
MAX_MEMORY_BYTES = 500_000_000
"""The process is ended above this much memory; 300 MB are the most that was measured."""
RETRY_S = 300.0
"""How long no new attempt is made after a process could not be started."""
POLL_S = 0.05
"""How often `check_stop` is called and the time and the memory are checked, while an answer is awaited."""

T = TypeVar("T")


class _LimitExceeded(Exception):
    """The process took too long or used too much memory; the message says which."""


class TextReader:
    """Reads text in pictures. One thread at a time may call `read`; `close` may be called from any thread.

    `find_networks` is called for each picture and returns the folder of the networks; None if they are not installed.
    `work_folder` is the only folder that the process can write in. `command` starts the process, with `environment` as
    its environment variables.
    """

    def __init__(
        self,
        find_networks: Callable[[], Path | None],
        work_folder: Path,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        idle_s: float = IDLE_S,
        read_timeout_s: float = READ_TIMEOUT_S,
    ) -> None:
        self._find_networks = find_networks
        self._work_folder = work_folder
        self._command = command
        self._environment = environment
        self._idle_s = idle_s
        self._read_timeout_s = read_timeout_s
        self._lock = threading.Lock()
        self._child: PipedChild | None = None
        self._networks: Path | None = None
        self._timer: threading.Timer | None = None
        self._retry_at_s = 0.0
        self.peak_bytes = 0
        """The most memory that any of the processes has held."""

    @property
    def is_available(self) -> bool:
        """Whether the networks are installed now."""
        return self._find_networks() is not None

    @property
    def pid(self) -> int | None:
        """The ID of the running process; None if there is none."""
        child = self._child
        return None if child is None or child.has_ended else child.pid

    def read(self, pixels: Pixels, check_stop: CheckStop) -> tuple[ReadLine, ...]:
        """The lines of text in a picture, in reading order; empty if they could not be read, which is logged.

        Also empty, without a log message, if the networks are not installed, and for `RETRY_S` after the process could
        not be started. Raises: what `check_stop` raises; the process is ended then.
        """
        networks = self._find_networks()
        if networks is None or time.monotonic() < self._retry_at_s:
            return ()
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            try:
                child = self._ready_child(networks, check_stop)
                child.send(msgspec.msgpack.encode(pixels))
                answer = self._receive(child, self._read_timeout_s, Answer, check_stop)
                self.peak_bytes = max(self.peak_bytes, answer.peak_bytes)
            except (ChildEnded, _LimitExceeded, OSError, msgspec.MsgspecError) as failure:
                self._end()
                log.warning("The text in a picture was not read: %s", _reason(failure))
                return ()
            except BaseException:
                self._end()
                raise
            self._start_timer()
            return answer.lines

    def close(self) -> None:
        """End the process. The text of a picture that is being read is lost, as after a crash."""
        timer, child = self._timer, self._child
        if timer is not None:
            timer.cancel()
        if child is not None:
            child.kill()

    def _ready_child(self, networks: Path, check_stop: CheckStop) -> PipedChild:
        """The process with loaded networks. Raises: OSError, ChildEnded, _LimitExceeded; what `check_stop` raises."""
        if self._child is not None and (self._child.has_ended or self._networks != networks):
            self._end()
        if self._child is None:
            try:
                self._work_folder.mkdir(parents=True, mode=0o700, exist_ok=True)
                command = [*self._command, str(networks), str(self._work_folder), str(os.getpid())]
                self._networks, self._child = networks, PipedChild(command, self._environment)
                self._receive(self._child, START_TIMEOUT_S, Ready, check_stop)
            except (ChildEnded, _LimitExceeded, OSError):
                # not tried again at once: what is missing for one picture is missing for the next
                self._retry_at_s = time.monotonic() + RETRY_S
                raise
        return self._child

    def _receive(self, child: PipedChild, timeout_s: float, kind: type[T], check_stop: CheckStop) -> T:
        until_s = time.monotonic() + timeout_s
        while (frame := child.receive(POLL_S)) is None:
            check_stop()
            if time.monotonic() > until_s:
                raise _LimitExceeded(f"the process took longer than {timeout_s:.0f} seconds to answer.")
            if (used := resident_bytes(child.pid)) > MAX_MEMORY_BYTES:
                raise _LimitExceeded(
                    f"the process used {used / 1e6:.0f} MB; the limit is {MAX_MEMORY_BYTES / 1e6:.0f} MB."
                )
        return msgspec.msgpack.decode(frame, type=kind)

    def _end(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None

    def _start_timer(self) -> None:
        self._timer = threading.Timer(self._idle_s, self._end_if_idle)
        self._timer.daemon = True
        self._timer.start()

    def _end_if_idle(self) -> None:
        with self._lock:
            # if a picture has been read in the meantime, its timer has replaced this one
            if self._timer is threading.current_thread():
                self._end()


def _reason(failure: Exception) -> str:
    if isinstance(failure, ChildEnded):
        return f"the process ended with {failure.cause}. {failure.last_error_line}"
    return str(failure)
