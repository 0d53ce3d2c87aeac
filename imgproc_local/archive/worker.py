"""What a worker process of Dask runs: tasks, each of which is one picture."""

from __future__ import annotations

import atexit
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
from distributed import get_worker
from msgspec import Struct

from imgproc_local import __version__
from imgproc_local.archive.picture import PendingPicture, Row, Tools, describe_picture, process_picture
from imgproc_local.archive.stores import open_store
from imgproc_local.batch import BatchRequest
from imgproc_local.compose import model_store, open_stages, used_model_status
from imgproc_local.config import Config, load
from imgproc_local.domain.errors import SettingInvalid
from imgproc_local.engine.pipeline import StageResult
from imgproc_local.vision.models.store import NO_MODEL

_SHARED_SETTINGS = (
    "quality_target", "effort", "keep_location", "name_people", "keep_dates", "keep_camera", "keep_rating",
    "pixel_texts", "max_upload_bytes", "max_pixels", "stage_timeout_s",
)  # fmt: skip
"""The settings of the client that apply on every worker, because the results depend on them."""


class RunSpec(Struct, frozen=True):
    """What all tasks of a run have in common. `settings` are the values of `_SHARED_SETTINGS`.

    `model` is the identity of the vision model (`model_identity`), "" if the texts are made without one. A worker with
    another model refuses to describe. `program_version` is that of the client; a worker of another version refuses
    every task.
    """

    source: str
    target: str
    request: BatchRequest
    settings: dict[str, Any]
    model: str = ""
    program_version: str = __version__


def shared_settings(config: Config) -> dict[str, Any]:
    """The values of `_SHARED_SETTINGS`, in a form that Dask can send."""
    return {name: msgspec.to_builtins(getattr(config, name)) for name in _SHARED_SETTINGS}


def process(spec: RunSpec, pending: PendingPicture) -> Row:
    """Process a picture, and return its row. A process must run one task at a time: `--nthreads 1`.

    Raises: SettingInvalid; StorageFailed, if the disk or the target is full.
    """
    return process_picture(_tools(spec), pending)


def describe(spec: RunSpec, pending: PendingPicture) -> StageResult:
    """The result of the analyze stage, on a worker that has the resource `cluster.VISION`.

    Raises: SettingInvalid; StorageFailed.
    """
    tools = _tools(spec)
    own_model = model_identity(tools.config)
    if own_model != spec.model:
        raise SettingInvalid(
            f"A worker with the resource VISION has the vision model {own_model or 'none'}, and the client has"
            f" {spec.model}: expected the same files. Install that model with `imgproc-local models`, or start the"
            " worker without the resource."
        )
    return describe_picture(tools, pending.picture)


def model_identity(config: Config) -> str:
    """The name of the vision model in use and the SHA-256 of its files; "" if none can be used."""
    status = used_model_status(config)
    if status.model is None or status.problem is not None:
        return ""
    model = model_store(config).active_model(config.model)
    return f"{status.model} {getattr(model, 'digest', '')}".strip()


class _Current:
    """The tools of the run that this process works for. They are closed when a task of another run arrives."""

    spec: RunSpec | None = None
    tools: Tools
    opened = ExitStack()


@atexit.register
def _close() -> None:
    _Current.opened.close()


def _tools(spec: RunSpec) -> Tools:
    if _Current.spec == spec:
        return _Current.tools
    _Current.spec = None
    _close()
    if spec.program_version != __version__:
        raise SettingInvalid(
            f"The worker {get_worker().address} has version {__version__} of the program, and the client"
            f" {spec.program_version}. Install the same version on every machine."
        )
    with ExitStack() as opening:
        # Dask deletes its own folder if the worker is killed
        temporary = tempfile.TemporaryDirectory(prefix="imgproc-archive-", dir=get_worker().local_directory)
        folder = Path(opening.enter_context(temporary))
        config = load(spec.settings if spec.model else {**spec.settings, "model": NO_MODEL}).config
        pipeline = opening.enter_context(open_stages(config, folder))
        source, target = open_store(spec.source), open_store(spec.target)
        _Current.tools = Tools(spec.request, config, pipeline, source, target, folder)
        _Current.spec, _Current.opened = spec, opening.pop_all()
    return _Current.tools
