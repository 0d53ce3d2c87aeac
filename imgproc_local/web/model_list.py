"""The answer of `GET /local/models`: every model with what a choice between them needs."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from imgproc_local.compose import Services, model_store, used_and_offered_models
from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.system.memory import usable_memory_bytes
from imgproc_local.vision.management.tasks import TaskProgress
from imgproc_local.vision.models import catalogue
from imgproc_local.vision.models.catalogue import Entry
from imgproc_local.vision.models.files import file_size, partial_path
from imgproc_local.vision.models.model import loopback_model
from imgproc_local.vision.models.store import ModelStore
from imgproc_local.vision.ocr import model_files

if TYPE_CHECKING:
    from imgproc_local.vision.management.listing import ModelRow

SHARE_FOR_MODEL = 0.7
"""The share of the memory that a model may need. The rest is for pictures in progress and other programs."""
State = Literal[
    "available",
    "paused",
    "failed",
    "installing",
    "testing",
    "installed",
    "untested",
    "unusable",
    "damaged",
    "in-program",
]


class Model(Struct, frozen=True, kw_only=True):
    """A model. `kind` is "text-reader" for the networks that read text in pictures, which work beside any model.

    `program` is the name of the program that has the model, None for this one. `memory_bytes` is 0 if it is unknown;
    `fits_memory` is None then. `recommended` marks the first model of the catalogue that fits. `downloaded_bytes` are
    those of an installation that was not finished.
    """

    name: str
    kind: Literal["vision", "text-reader"]
    state: State
    in_use: bool
    problem: str | None
    program: str | None
    size_bytes: int
    memory_bytes: int
    fits_memory: bool | None
    recommended: bool
    downloaded_bytes: int
    licence: str
    languages: str


class Models(Struct, frozen=True):
    """`task` is the task that runs; `failures` says by name why the last task of a model failed.

    `runtime_problem` says why no model can run in this program; `folder_problem`, why the models folder can't be read.
    `fixed_by_setting` is the model that the setting `model` names, which `use` can't change; "" without one.
    """

    models: list[Model]
    task: TaskProgress | None
    failures: dict[str, str]
    memory_bytes: int
    free_bytes: int
    models_folder: str
    air_gapped: bool
    fixed_by_setting: str
    runtime_problem: str | None
    folder_problem: str | None


def read_models(services: Services, offered: Sequence[ModelRow]) -> Models:
    """The models of this program and `offered`, those of other programs. Reads files, and asks the program in use."""
    from imgproc_local.vision.llm.bindings import NOT_INSTALLED
    from imgproc_local.vision.llm.selftest import llama_is_installed
    from imgproc_local.vision.management.listing import (
        INSTALLED,
        installed_models,
        pullable_models,
        text_reader_rows,
    )

    config = services.config
    # read before the lists: the page stops polling at an answer without a task, so the lists in that answer must be
    # newer than the end of the task
    task, failures = services.models.progress, services.models.failures
    known = catalogue.read_catalogue()
    store = model_store(config)
    installed: list[ModelRow] = []
    folder_problem = None
    try:
        installed = installed_models(store, config.model)
    except ModelUnusable as error:
        folder_problem = error.message
    runtime_problem = None if llama_is_installed() else NOT_INSTALLED
    usable = usable_memory_bytes()
    fitting = [name for name, entry in known.items() if _fits(entry.memory_mb * 1_000_000, usable)]

    def model(row: ModelRow, program: str | None = None) -> Model:
        entry = known.get(row.name)
        is_text_reader = row.name == model_files.NAME
        state = _state(row)
        downloaded_bytes = _downloaded_bytes(store, entry) if state == "available" else 0
        problem = row.problem
        if state == "available" and downloaded_bytes:
            state = "paused"
        if row.name in failures and row.state != INSTALLED:
            problem = failures[row.name]
            state = "failed" if state in ("available", "paused") else "unusable"
        if task is not None and task.name == row.name:
            state, problem = ("testing" if task.kind == "test" else "installing"), None
        return Model(
            name=row.name,
            kind="text-reader" if is_text_reader else "vision",
            state=state,
            in_use=row.in_use,
            problem=problem,
            program=program,
            size_bytes=row.size_bytes,
            memory_bytes=row.memory_mb * 1_000_000,
            fits_memory=_fits(row.memory_mb * 1_000_000, usable),
            recommended=runtime_problem is None and row.name in fitting[:1],
            downloaded_bytes=downloaded_bytes,
            licence=row.licence,
            languages=row.languages,
        )

    in_programs = [model(row, _program_title(row.name)) for row in used_and_offered_models(config, offered)]
    own = [*installed, *pullable_models(known, installed), *text_reader_rows(store)]
    return Models(
        models=[*map(model, own), *in_programs],
        task=task,
        failures=failures,
        memory_bytes=usable,
        free_bytes=_free_bytes(config.models_folder),
        models_folder=str(config.models_folder),
        air_gapped=config.air_gapped,
        fixed_by_setting=config.model,
        runtime_problem=runtime_problem,
        folder_problem=folder_problem,
    )


def _state(row: ModelRow) -> State:
    from imgproc_local.vision.management import listing

    states: dict[str, State] = {
        listing.CAN_BE_PULLED: "available",
        listing.INSTALLED: "installed",
        listing.READS_TEXT: "installed",
        listing.UNTESTED: "untested",
        listing.UNUSABLE: "unusable",
        listing.DAMAGED: "damaged",
    }
    return states.get(row.state, "in-program")


def _fits(needed_bytes: int, usable_bytes: int) -> bool | None:
    """Whether a model fits this machine's memory; None if its need or the memory is unknown."""
    return needed_bytes <= usable_bytes * SHARE_FOR_MODEL if needed_bytes and usable_bytes else None


def _downloaded_bytes(store: ModelStore, entry: Entry | None) -> int:
    """The bytes that an unfinished installation has downloaded; 0 for files without a SHA-256 in the catalogue."""
    if entry is None:
        return 0
    names = [file.sha256 for file in (entry.text, entry.mmproj) if file.sha256]
    return sum(file_size(partial_path(store.partial_folder, name)) for name in names)


def _free_bytes(folder: Path) -> int:
    """The free space of the disk that holds `folder`, which need not exist yet; 0 if it can't be read."""
    existing = next((path for path in (folder, *folder.parents) if path.exists()), None)
    try:
        return shutil.disk_usage(existing).free if existing else 0
    except OSError:
        return 0


def _program_title(name: str) -> str | None:
    from imgproc_local.vision.loopback.programs import PROGRAMS

    model = loopback_model(name)
    return PROGRAMS[model.program].title if model else None
