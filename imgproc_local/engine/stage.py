"""What a stage is: a plain blocking function of frozen `Work` that returns its result."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from imgproc_local.domain.errors import StageCancelled, StageTimedOut
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.job import StageName
from imgproc_local.domain.result import StageResult

CODECS_LANE = "codecs"
VISION_LANE = "vision"


class StopSignal:
    """Tells a running stage to give up: threads can't be cancelled, so it asks between its steps."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._deadline_s = time.monotonic() + timeout_s
        self._cancelled = threading.Event()

    def restart(self) -> None:
        """Let the time run from now on."""
        self._deadline_s = time.monotonic() + self._timeout_s

    def cancel(self) -> None:
        self._cancelled.set()

    def check(self) -> None:
        """Return at once while the work is wanted.

        Raises:
            StageCancelled: the job was deleted or the service is stopping.
            StageTimedOut: the deadline has passed.
        """
        if self._cancelled.is_set():
            raise StageCancelled("Cancelled.")
        if time.monotonic() > self._deadline_s:
            raise StageTimedOut(f"Not finished within {self._timeout_s:g} seconds, the time that one stage may take.")


class Work(Struct, frozen=True):
    """One stage of one job. `original` is the uploaded file, only to be read."""

    original: Path
    info: ImageInfo
    languages: tuple[str, ...]
    convert_to: Format
    original_filename: str
    project_name: str
    stop: StopSignal


class Stage(Protocol):
    """Runs on a thread of its lane; raises `StageFailed` or `BadImage` with a message for people."""

    @property
    def name(self) -> StageName: ...

    @property
    def lane(self) -> str: ...

    def run(self, work: Work) -> StageResult: ...
