"""The progress of `process`: bars per stage on a terminal, with messages printed above them; elsewhere plain lines."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from imgproc_local.batch.records import Record
from imgproc_local.cli.output import duration_text, size_text
from imgproc_local.cli.progress import REPORT_S, log_above
from imgproc_local.domain.job import Job, StageName, StageState

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

REDRAWS_PER_SECOND = 5


class StageProgress:
    """Counts the finished stages and pictures of a run, and shows them on `stream` while `shown` is active."""

    def __init__(self, stages: Sequence[StageName], stream: IO[str]) -> None:
        self._stages = tuple(stages)
        self._stream = stream
        self._pictures = 0
        self._finished = 0
        self._saved_bytes = 0
        self._done = dict.fromkeys(self._stages, 0)
        self._begun_s = self._reported_s = time.monotonic()
        self._bars: Progress | None = None
        self._tasks: dict[StageName | None, TaskID] = {}

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Inside the block, show the progress and print log messages above it."""
        if not self._stream.isatty():
            yield
            return
        bars = self._bars = _bars(self._stream)
        self._tasks = {stage: bars.add_task(stage.value, total=None, note="") for stage in self._stages}
        self._tasks[None] = bars.add_task("pictures", total=None, note="")
        try:
            with bars, log_above(self.print):
                yield
        finally:
            self._bars = None

    def expect(self, pictures: int) -> None:
        """Add `pictures` to the number to process."""
        self._pictures += pictures
        self._update()

    def job_changed(self, before: Job, after: Job) -> None:
        """Count the stages that have ended in `after` but not in `before`, two states of one job."""
        for old, new in zip(before.stages, after.stages, strict=True):
            if _ended(new.state) and not _ended(old.state):
                self._done[new.name] += 1
        self._update()

    def job_submitted(self, job: Job) -> None:
        """Count the stages of a job that have already ended, because an earlier run queued it."""
        for stage in job.stages:
            self._done[stage.name] += _ended(stage.state)
        self._update()

    def picture_finished(self, record: Record | None, original_bytes: int) -> None:
        """Count a picture and what its optimized file saves."""
        self._finished += 1
        if record is not None and record.optimized is not None:
            self._saved_bytes += original_bytes - record.optimized.size_bytes
        self._update()

    def print(self, message: str) -> None:
        """Print a message, above the bars if they are shown."""
        if self._bars is not None:
            self._bars.console.print(message, markup=False, highlight=False, soft_wrap=True)
        else:
            self._stream.write(message + "\n")
            self._stream.flush()

    def _update(self) -> None:
        bars = self._bars
        if bars is None:
            self._report()
            return
        for stage, task in self._tasks.items():
            if stage is None:
                note = f"{size_text(self._saved_bytes)} saved" if self._saved_bytes > 0 else ""
                bars.update(task, completed=self._finished, total=self._pictures, note=note)
            else:
                # a failed or interrupted picture counts in every bar, also in those of stages it did not reach
                bars.update(task, completed=max(self._done[stage], self._finished), total=self._pictures)

    def _report(self) -> None:
        now = time.monotonic()
        if now < self._reported_s + REPORT_S or self._stream.isatty():
            return
        self._reported_s = now
        left = ""
        if self._finished:
            left_s = (now - self._begun_s) / self._finished * (self._pictures - self._finished)
            left = f", about {duration_text(left_s)} left"
        self.print(
            f"{self._finished:,} of {self._pictures:,} pictures, {size_text(max(0, self._saved_bytes))} saved{left}."
        )


def _bars(stream: IO[str]) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description:9}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=Console(file=stream),
        refresh_per_second=REDRAWS_PER_SECOND,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def _ended(state: StageState) -> bool:
    return state in (StageState.DONE, StageState.FAILED)
