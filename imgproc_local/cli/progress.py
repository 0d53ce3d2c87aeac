"""One line on the terminal that tells how far a command is, redrawn in place."""

from __future__ import annotations

import shutil
import time
from typing import IO

from imgproc_local.domain.job import Job, StageName, StageState

BAR_CHARS = 10
REDRAWN_S = 0.1
TOLD_S = 15.0
"""Between two lines where no terminal looks on."""


class Line:
    """What was written last on a terminal's current line, replaced by what is written next."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._drawn = 0

    def draw(self, text: str) -> None:
        text = text[: shutil.get_terminal_size().columns - 1]
        self._stream.write("\r" + text.ljust(self._drawn))
        self._stream.flush()
        self._drawn = len(text)

    def clear(self) -> None:
        """Remove the line, so that other text can follow."""
        if self._drawn:
            self._stream.write("\r" + " " * self._drawn + "\r")
            self._stream.flush()
            self._drawn = 0


class Transfer:
    """Tells how many bytes of a long work are done: on a terminal in place, elsewhere in a line now and then."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._line = Line(stream) if stream.isatty() else None
        self._next = 0.0 if self._line else time.monotonic() + TOLD_S

    def __call__(self, what: str, done_bytes: int, total_bytes: int) -> None:
        now = time.monotonic()
        if now < self._next and (self._line is None or done_bytes < total_bytes):
            return
        from imgproc_local.cli.output import printable, size_text

        share = done_bytes / total_bytes if total_bytes else 1.0
        told = f"{printable(what)}: {size_text(done_bytes)} of {size_text(total_bytes)}, {share:.0%}"
        if self._line is None:
            self._stream.write(told + "\n")
            self._next = now + TOLD_S
        else:
            self._line.draw(f"{_bar(int(BAR_CHARS * share))} {told}")
            self._next = now + REDRAWN_S

    def clear(self) -> None:
        if self._line is not None:
            self._line.clear()


class Progress:
    """Counts the finished stages of `pictures` pictures; silent where no terminal looks on."""

    def __init__(self, pictures: int, stream: IO[str]) -> None:
        self._total = pictures
        self._line = Line(stream) if stream.isatty() else None
        self._done = dict.fromkeys(StageName, 0)

    def moved(self, before: Job, now: Job) -> None:
        """Take notice of the stages that ended between two states of a job."""
        for old, new in zip(before.stages, now.stages, strict=True):
            if _ended(new.state) and not _ended(old.state):
                self._done[new.name] += 1
        self._draw()

    def dropped(self) -> None:
        """One picture less: it never became a job."""
        self._total -= 1
        self._draw()

    def clear(self) -> None:
        """Remove the line, so that other text can follow."""
        if self._line is not None:
            self._line.clear()

    def _draw(self) -> None:
        if self._line is None:
            return
        done = self._done.items()
        self._line.draw("  ".join(f"{stage.value} {self._bar(count)} {count}/{self._total}" for stage, count in done))

    def _bar(self, done: int) -> str:
        return _bar(BAR_CHARS * done // self._total if self._total else BAR_CHARS)


def _bar(filled: int) -> str:
    return "[" + "#" * filled + "." * (BAR_CHARS - filled) + "]"


def _ended(state: StageState) -> bool:
    return state in (StageState.DONE, StageState.FAILED)
