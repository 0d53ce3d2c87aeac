"""Installs, imports and tests models on a thread of the service, one at a time.

An installation that was cancelled or broken off leaves what it has downloaded in the models folder; the next one of the
same model resumes it, also after a restart of the service (`vision/models/fetch.py`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from imgproc_local.domain.errors import CheckStop, ModelUnusable, ServiceError, ServiceStopping, StageCancelled
from imgproc_local.vision.models.catalogue import Entry
from imgproc_local.vision.models.model import VisionModel
from imgproc_local.vision.models.store import ModelStore

log = logging.getLogger(__name__)

CLOSE_WAIT_S = 2.0
"""How long `close` waits for the thread. It may run on while a connection does not respond, but it is a daemon and does
not keep the process alive."""
MAX_FAILURES = 100
"""The number of names whose last failure is remembered."""

Kind = Literal["install", "import", "test"]
STEPS: dict[str, Literal["downloading", "verifying", "copying"]] = {
    "downloading": "downloading",
    "verifying": "verifying",
    "copying": "copying",
}
TestModel = Callable[[VisionModel, CheckStop], None]
"""Tests a model on this machine. Raises: ModelUnusable, if it does not work; what its second argument raises."""


class TaskProgress(Struct, frozen=True):
    """What is done now. `done_bytes` of `total_bytes` are of one file; `total_bytes` is 0 while it is unknown.

    `is_cancelled` is true from a cancellation until the task has ended.
    """

    kind: Kind
    name: str
    step: Literal["starting", "downloading", "verifying", "copying", "testing"] = "starting"
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
        return replace(task.progress, is_cancelled=task.stop_requested.is_set()) if task else None

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
        self._start("install", name, lambda task: pull_model(self._models, name, entry, task.tests, task.report))

    def install_text_reader(self) -> None:
        """Download and install the networks that read text in pictures. Raises: as `install`."""
        from imgproc_local.vision.ocr import download, model_files

        model_files.require_not_installed(self._models)
        self._start("install", model_files.NAME, lambda task: download.pull(self._models, task.report))

    def import_(self, paths: Sequence[Path], name: str | None, catalogue: dict[str, Entry]) -> None:
        """Install a model, or the networks that read text, from files on this machine. Raises: as `install`.

        `name` is None for the name in the model's manifest or in the catalogue.
        """
        from imgproc_local.vision.models.install import ImportOptions, import_model
        from imgproc_local.vision.ocr import model_files

        def work(task: _Task) -> None:
            if model_files.is_source(paths):
                model_files.import_networks(self._models, paths[0], task.report)
            else:
                import_model(self._models, paths, ImportOptions(name=name), catalogue, task.tests, task.report)

        self._start("import", name or paths[0].name, work)

    def test_and_select(self, name: str) -> None:
        """Test an installed model and, if it works, use it from the next picture on. Raises: as `install`."""
        model = self._models.model(name)

        def work(task: _Task) -> None:
            task.tests(model)
            self._models.select(name)

        self._start("test", name, work)

    def cancel(self, name: str) -> bool:
        """Cancel the task if it has this name, and return whether it has. What it has downloaded is preserved."""
        task = self._task
        if task is None or task.progress.name != name:
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

    def _start(self, kind: Kind, name: str, work: Callable[[_Task], object]) -> None:
        with self._lock:
            if self._closed:
                raise ServiceStopping
            if self._task is not None:
                raise ModelUnusable(
                    "One model at a time can be installed or tested: wait until"
                    f" {self._task.progress.name} is done, or cancel it."
                )
            self._failures.pop(name, None)
            self._task = task = _Task(TaskProgress(kind, name), self._test)
            task.thread = threading.Thread(target=self._run, args=(task, work), name="model-task", daemon=True)
            task.thread.start()

    def _run(self, task: _Task, work: Callable[[_Task], object]) -> None:
        kind, name = task.progress.kind, task.progress.name
        failure = None
        try:
            work(task)
        except StageCancelled:
            log.info("Models: %s of %s was cancelled.", kind, name)
        except ServiceError as error:
            failure = error.message
        except Exception as error:  # a failure of any kind must be shown, and must not end the service
            log.exception("Models: %s of %s failed with an unexpected error", kind, name)
            failure = f"It failed with an unexpected error ({type(error).__name__}); see the log."
        if failure is not None:
            log.warning("Models: %s of %s failed: %s", kind, name, failure)
            self._failures[name] = failure
            while len(self._failures) > MAX_FAILURES:
                self._failures.pop(next(iter(self._failures)), None)
        with self._lock:
            self._task = None


class _Task:
    """The task whose state is `progress`. `test` tests a model."""

    thread: threading.Thread

    def __init__(self, progress: TaskProgress, test: TestModel) -> None:
        self.progress = progress
        self.stop_requested = threading.Event()
        self._test = test

    def check_stop(self) -> None:
        """Raises: StageCancelled, after `cancel` and when the service is stopping."""
        if self.stop_requested.is_set():
            raise StageCancelled("The task was cancelled.")

    def tests(self, model: VisionModel) -> None:
        """Test `model`. Raises: ModelUnusable; as `check_stop`."""
        self.progress = replace(self.progress, step="testing")
        self._test(model, self.check_stop)

    def report(self, step: str, done_bytes: int, total_bytes: int) -> None:
        """Record the progress of one file. `step` is a verb and the name of the file. Raises: as `check_stop`."""
        self.check_stop()
        verb = STEPS[step.partition(" ")[0]]
        self.progress = replace(self.progress, step=verb, done_bytes=done_bytes, total_bytes=total_bytes)
