"""One line on the terminal with a bar per stage, redrawn in place; nothing where no terminal looks on."""

from __future__ import annotations

import shutil
from typing import IO

from imgproc_local.domain.job import Job, StageName, StageState

BAR_CHARS = 10


class Progress:
    """Counts the finished stages of `pictures` pictures."""

    def __init__(self, pictures: int, stream: IO[str]) -> None:
        self._total = pictures
        self._stream = stream
        self._shown = stream.isatty()
        self._done = dict.fromkeys(StageName, 0)
        self._drawn = 0

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
        if self._drawn:
            self._stream.write("\r" + " " * self._drawn + "\r")
            self._stream.flush()
            self._drawn = 0

    def _draw(self) -> None:
        if not self._shown:
            return
        line = "  ".join(f"{stage.value} {self._bar(done)} {done}/{self._total}" for stage, done in self._done.items())
        line = line[: shutil.get_terminal_size().columns - 1]
        self._stream.write("\r" + line.ljust(self._drawn))
        self._stream.flush()
        self._drawn = len(line)

    def _bar(self, done: int) -> str:
        filled = BAR_CHARS * done // self._total if self._total else BAR_CHARS
        return "[" + "#" * filled + "." * (BAR_CHARS - filled) + "]"


def _ended(state: StageState) -> bool:
    return state in (StageState.DONE, StageState.FAILED)
