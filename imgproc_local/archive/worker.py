"""What a worker process of Dask runs: tasks, each of which is a group of pictures.

The rows of a task are stored as one part of the manifest. Before a picture is begun, its key is written to the mark of
the task. If the worker is killed, the mark says which picture it was processing.
"""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from imgproc_local import __version__
from imgproc_local.archive.cpu_time import used_cpu_s
from imgproc_local.archive.location import open_store
from imgproc_local.archive.manifest import encode_rows, mark_key, part_key, rows_of
from imgproc_local.archive.picture import PendingPicture, Tools, describe_picture, process_picture
from imgproc_local.archive.row import FailureKind, Row
from imgproc_local.archive.store import SourceObject, Store
from imgproc_local.archive.summary import MAX_MESSAGE_CHARS
from imgproc_local.batch.request import BatchRequest
from imgproc_local.compose import model_store, open_stages, used_model_status
from imgproc_local.config import Config, load
from imgproc_local.domain.errors import SettingInvalid, StorageFailed
from imgproc_local.domain.job import StageName
from imgproc_local.engine.direct import StageResult
from imgproc_local.system.files import encodable_text
from imgproc_local.vision.models.store import NO_MODEL

SHARED_SETTINGS = (
    "quality_target",
    "effort",
    "keep_location",
    "pixel_texts",
    "max_upload_bytes",
    "max_pixels",
    "stage_timeout_s",
)
"""The settings of the client that apply on every worker, because the results depend on them."""


class RunSpec(Struct, frozen=True):
    """What all tasks of a run have in common. `settings` are the values of `SHARED_SETTINGS`.

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


class PictureSummary(Struct, frozen=True):
    """What the client receives about a picture; the rest is in the manifest.

    `key` is the `source` of its row. `reason` is the first problem of a picture that failed.
    """

    key: str
    outcome: str
    failure: FailureKind
    size_bytes: int
    optimized_bytes: int | None
    needs_text: bool
    total_s: float
    reason: str = ""


def shared_settings(config: Config) -> dict[str, Any]:
    """The values of `SHARED_SETTINGS`, in a form that Dask can send."""
    values: dict[str, Any] = msgspec.to_builtins({name: getattr(config, name) for name in SHARED_SETTINGS})
    return values


def run_task(spec: RunSpec, pictures: Sequence[PendingPicture], name: str) -> list[PictureSummary]:
    """Process pictures, store their rows as the part `name`, and return a summary of each.

    A process must run one task at a time: `--nthreads 1`. Raises: SettingInvalid; StorageFailed, if the disk or the
    target is full, or the rows of an earlier run can't be read. Then no part is stored.
    """
    tools = _tools(spec)
    target = tools.target
    earlier = _earlier_rows(target, pictures)
    rows: list[Row] = []
    for pending in pictures:
        target.replace(mark_key(name), pending.picture.key.encode("utf-8", "surrogateescape"))
        before_s = _used_cpu_s(tools)
        row = process_picture(tools, pending, earlier.get(encodable_text(pending.picture.key)))
        described_s = 0.0 if pending.described is None else pending.described.cpu_s
        rows.append(structs.replace(row, cpu_s=max(0.0, _used_cpu_s(tools) - before_s) + described_s))
    target.replace(part_key(name), encode_rows(rows))
    target.remove(mark_key(name))
    return [summary_of(row) for row in rows]


def _earlier_rows(target: Store, pictures: Sequence[PendingPicture]) -> dict[str, Row]:
    """The rows of an earlier run, by source. They are read here, so that the scheduler need not hold them."""
    sources: dict[str, set[str]] = {}
    for each in pictures:
        if each.earlier_part:
            sources.setdefault(each.earlier_part, set()).add(encodable_text(each.picture.key))
    try:
        return {row.source: row for part, names in sources.items() for row in rows_of(target.read(part), names)}
    except OSError as error:
        raise StorageFailed(f"The manifest of an earlier run can't be read ({error.strerror or error}).") from error


def describe(spec: RunSpec, pictures: Sequence[SourceObject]) -> list[StageResult]:
    """The results of the analyze stage with the vision model.

    Runs in a worker process that has the resource `cluster.VISION`. Raises: SettingInvalid; StorageFailed.
    """
    tools = _tools(spec)
    assert _Current.config is not None
    own_model = model_identity(_Current.config)
    if own_model != spec.model:
        raise SettingInvalid(
            f"A worker with the resource VISION has the vision model {own_model or 'none'}, and the client has"
            f" {spec.model}: expected the same files. Install that model with `imgproc-local models`, or start the"
            " worker without the resource."
        )
    results = []
    for picture in pictures:
        before_s = _used_cpu_s(tools)
        result = describe_picture(tools, picture)
        results.append(structs.replace(result, cpu_s=max(0.0, _used_cpu_s(tools) - before_s)))
    return results


def model_identity(config: Config) -> str:
    """The name of the vision model in use and the SHA-256 of its files; "" if none can be used."""
    status = used_model_status(config)
    if status.model is None or status.problem is not None:
        return ""
    model = model_store(config).active_model(config.model)
    return f"{status.model} {getattr(model, 'digest', '')}".strip()


def summary_of(row: Row) -> PictureSummary:
    # an optimized file of an earlier run saves nothing in this one
    is_new = row.optimize_s is not None and not any(problem.stage == StageName.OPTIMIZE for problem in row.problems)
    optimized = row.optimized.size_bytes if row.optimized is not None and is_new else None
    reason = row.problems[0].message[:MAX_MESSAGE_CHARS] if row.outcome == "failed" and row.problems else ""
    return PictureSummary(
        row.source, row.outcome, row.failure, row.size_bytes, optimized, row.needs_text, row.total_s, reason
    )


class _Current:
    """The tools of the run that this process works for. They are closed when a task of another run arrives."""

    spec: RunSpec | None = None
    config: Config | None = None
    tools: Tools | None = None
    opened = ExitStack()


@atexit.register
def _close() -> None:
    _Current.opened.close()


def _tools(spec: RunSpec) -> Tools:
    if _Current.tools is not None and _Current.spec == spec:
        return _Current.tools
    _Current.opened.close()
    _Current.tools = None
    if spec.program_version != __version__:
        raise SettingInvalid(
            f"This worker has version {__version__} of the program, and the client {spec.program_version}."
            " Install the same version on every machine."
        )
    with ExitStack() as opening:
        folder = Path(
            opening.enter_context(tempfile.TemporaryDirectory(prefix="imgproc-archive-", dir=_local_folder()))
        )
        config = load(spec.settings if spec.model else {**spec.settings, "model": NO_MODEL}).config
        direct = opening.enter_context(open_stages(config, folder))
        _Current.tools = Tools(
            spec.request,
            direct,
            open_store(spec.source),
            open_store(spec.target),
            folder / "picture",
            config.max_pixels,
            config.max_upload_bytes,
        )
        _Current.opened, _Current.spec, _Current.config = opening.pop_all(), spec, config
    return _Current.tools


def _used_cpu_s(tools: Tools) -> float:
    return used_cpu_s(tools.direct.workers.pids)


def _local_folder() -> str | None:
    """The folder for temporary files of this Dask worker, which Dask deletes if the worker is killed."""
    from distributed import get_worker

    try:
        folder: str = get_worker().local_directory
    except ValueError:
        return None
    return folder
