"""Installing and testing models on a thread of the service, one at a time.

An installation that was cancelled or broken off leaves what it has downloaded in the models folder; the next one of the
same model resumes it, also after a restart.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from imgproc_local.domain.errors import CheckStop, ModelUnusable, ServiceError, ServiceStopping, StageCancelled
from imgproc_local.vision.models.install import catalogue_entry, pull
from imgproc_local.vision.models.model import VisionModel
from imgproc_local.vision.models.store import OCR, ModelStore

log = logging.getLogger(__name__)

_Kind = Literal["install", "test"]
_TestModel = Callable[[VisionModel, CheckStop], None]
"""Tests a model on this machine. Raises: ModelUnusable, if it does not work; what its second argument raises."""


class TaskProgress(Struct, frozen=True):
    """What is done now. `done_bytes` of `total_bytes` are of one file; `total_bytes` is 0 while it is unknown.

    `step` is "starting", "downloading", "verifying" or "testing". `is_cancelled` is true from a cancellation
    until the task has ended.
    """

    kind: _Kind
    name: str
    step: str = "starting"
    done_bytes: int = 0
    total_bytes: int = 0
    is_cancelled: bool = False


class ModelTasks:
    """The task that runs and the failures of earlier ones. All methods may be called from any thread.

    `models` is the models folder; `test` tests a model before it is installed or selected. `progress` is that of the
    task that runs now, None without one. `failures` says why the last task of a model failed, by name, without those
    that were started again or cancelled.
    """

    def __init__(self, models: ModelStore, test: _TestModel) -> None:
        self._models = models
        self._test = test
        self._lock = threading.Lock()
        self._thread = threading.Thread()
        self._stop_requested = threading.Event()
        self._closed = False
        self.progress: TaskProgress | None = None
        self.failures: dict[str, str] = {}

    def install(self, name: str) -> None:
        """Download, test and install a model of the catalogue, or the networks that read text.

        Raises: ModelUnusable, if it can't start, such as because another task runs; ServiceStopping, after `close`.
        """
        if name != OCR:
            catalogue_entry(name)
        self._models.require_not_installed(name)
        self._start("install", name, lambda: pull(self._models, name, self._tests, self._report))

    def test_and_select(self, name: str) -> None:
        """Test an installed model and, if it works, use it from the next picture on. Raises: as `install`."""
        model = self._models.model(name)

        def work() -> None:
            self._tests(model)
            self._models.select(name)

        self._start("test", name, work)

    def cancel(self, name: str) -> bool:
        """Cancel the task if it has this name, and return whether it has. What it has downloaded is preserved."""
        with self._lock:
            if self.progress is None or self.progress.name != name:
                return False
            self._stop_requested.set()
            self.progress = replace(self.progress, is_cancelled=True)
            return True

    def close(self) -> None:
        """Cancel the task that runs, and start no more: the service is stopping."""
        with self._lock:
            self._closed = True
            self._stop_requested.set()
            is_running = self.progress is not None
        if is_running:
            # it may run on while a connection does not respond, but a daemon does not keep the process alive
            self._thread.join(2.0)

    def _start(self, kind: _Kind, name: str, work: Callable[[], object]) -> None:
        with self._lock:
            if self._closed:
                raise ServiceStopping
            if self.progress is not None:
                raise ModelUnusable(
                    "One model at a time can be installed or tested: wait until"
                    f" {self.progress.name} is done, or cancel it."
                )
            self.failures.pop(name, None)
            self._stop_requested.clear()
            self.progress = TaskProgress(kind, name)
            self._thread = threading.Thread(target=self._run, args=(kind, name, work), name="model-task", daemon=True)
            self._thread.start()

    def _run(self, kind: _Kind, name: str, work: Callable[[], object]) -> None:
        try:
            work()
        except StageCancelled:
            log.info("Models: %s of %s was cancelled.", kind, name)
        except ServiceError as error:
            log.warning("Models: %s of %s failed: %s", kind, name, error.message)
            self.failures[name] = error.message
        except Exception as error:  # a failure of any kind must be shown, and must not end the service
            log.exception("Models: %s of %s failed with an unexpected error", kind, name)
            self.failures[name] = f"It failed with an unexpected error ({type(error).__name__}); see the log."
        with self._lock:
            self.progress = None

    def _check_stop(self) -> None:
        """Raises: StageCancelled, after `cancel` and when the service is stopping."""
        if self._stop_requested.is_set():
            raise StageCancelled("The task was cancelled.")

    def _tests(self, model: VisionModel) -> None:
        self._update(step="testing")
        self._test(model, self._check_stop)

    def _report(self, step: str, done_bytes: int, total_bytes: int) -> None:
        """The `Progress` of the task: a step is a verb and the name of a file. Raises: as `_check_stop`."""
        self._check_stop()
        self._update(step=step.partition(" ")[0], done_bytes=done_bytes, total_bytes=total_bytes)

    def _update(self, **changes: object) -> None:
        with self._lock:
            if self.progress is not None:
                self.progress = replace(self.progress, **changes)
