"""The models of this machine: the installed ones, those in other programs, and those of the catalogue.

The functions read files and ask the programs; they load no model and open no connection to other machines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import ModelUnusable, how_to_install
from imgproc_local.vision.llm.bindings import NOT_INSTALLED
from imgproc_local.vision.llm.selftest import known_problem, llama_is_installed, passed_self_test
from imgproc_local.vision.loopback.programs import PROGRAMS
from imgproc_local.vision.loopback.server import ModelServer
from imgproc_local.vision.models.catalogue import Entry
from imgproc_local.vision.models.model import LOOPBACK_PROGRAMS, LoopbackModel, Manifest, VisionModel, loopback_model
from imgproc_local.vision.models.store import NO_MODEL, ModelStore
from imgproc_local.vision.ocr import model_files

INSTALLED, UNTESTED, UNUSABLE, DAMAGED = "installed", "installed, not tested yet", "does not work here", "damaged"
"""The states of installed models."""
CAN_BE_PULLED, READS_TEXT = "can be pulled", "reads text in pictures"
EXTRA_MISSING = "The libraries that read text in pictures are not installed. " + how_to_install("ocr")


class ModelRow(Struct, frozen=True, kw_only=True):
    """One model, as `models list --json` prints it."""

    name: str
    state: str
    in_use: bool = False
    problem: str | None = None
    size_bytes: int = 0
    memory_mb: int = 0
    licence: str = ""
    languages: str = ""
    image_tokens: int | None = None


class ModelStatus(Struct, frozen=True):
    """The model in use and its test results.

    `model` is its name, None if no model is selected. If there is a `problem`, pictures are described without the
    model.
    """

    model: str | None
    problem: str | None = None
    passed_self_test: bool = False


def model_status(
    models: ModelStore, setting: str, loopback_problem: Callable[[LoopbackModel], str | None]
) -> ModelStatus:
    """The status of the model that the setting `model` (`setting`) names, or else the one selected with `models use`.

    The status is read from files; no model is loaded. For a model in another program, `loopback_problem` asks that
    program.
    """
    try:
        name = setting or models.selected()
    except ModelUnusable as error:
        return ModelStatus("unknown", error.message)
    if name in ("", NO_MODEL):
        return ModelStatus(None)
    if (other := loopback_model(name)) is not None:
        problem = loopback_problem(other)
        return ModelStatus(name, problem, problem is None)
    try:
        model = models.model(name)
    except ModelUnusable as error:
        return ModelStatus(name, error.message)
    if not llama_is_installed():
        return ModelStatus(name, NOT_INSTALLED)
    return ModelStatus(name, known_problem(model), passed_self_test(model))


def installed_models(models: ModelStore, setting: str) -> list[ModelRow]:
    """The installed models. `setting` is the setting `model`. Raises: ModelUnusable where the folder can't be read."""
    in_use = setting or models.selected()
    rows = []
    for name in models.names():
        try:
            manifest, model = models.manifest(name), models.model(name)
        except ModelUnusable as error:
            rows.append(ModelRow(name=name, state=DAMAGED, in_use=name == in_use, problem=error.message))
        else:
            rows.append(_row(name, manifest, _state(model), in_use=name == in_use))
    return rows


def pullable_models(catalogue: Mapping[str, Entry], installed: Sequence[ModelRow]) -> list[ModelRow]:
    """The models of the catalogue that are not installed."""
    names = {row.name for row in installed}
    return [_row(name, entry, CAN_BE_PULLED) for name, entry in catalogue.items() if name not in names]


def models_in_programs(server_of: Callable[[str], ModelServer]) -> list[ModelRow]:
    """The models in Ollama, LM Studio and llama-server, except those that can't see pictures or run in the cloud.

    The programs are asked at the same time, for at most a few seconds. `server_of` returns the server of a program. A
    program that does not answer has no rows.
    """
    with ThreadPoolExecutor(len(LOOPBACK_PROGRAMS)) as pool:
        return [row for rows in pool.map(partial(_program_rows, server_of), LOOPBACK_PROGRAMS) for row in rows]


def with_the_one_in_use(
    rows: Sequence[ModelRow],
    models: ModelStore,
    setting: str,
    problem_of: Callable[[LoopbackModel], str | None],
) -> list[ModelRow]:
    """`rows` of models in other programs, the one in use first, even if no program offers it.

    `setting` is the setting `model`. `problem_of` asks the program of the model in use why it can't be used now.
    """
    try:
        in_use = loopback_model(setting or models.selected())
    except ModelUnusable:  # the models folder can't be read, which is reported for the installed models
        in_use = None
    if in_use is None:
        return list(rows)
    problem = problem_of(in_use)
    state = UNUSABLE if problem else state_in_program(in_use.program)
    row = next((row for row in rows if row.name == in_use.name), ModelRow(name=in_use.name, state=state))
    used = msgspec.structs.replace(row, state=state, in_use=True, problem=problem)
    return [used, *(row for row in rows if row.name != in_use.name)]


def text_reader_rows(models: ModelStore) -> list[ModelRow]:
    """The row of `ocr`, the networks that read text in pictures; none in a frozen program, which can't use them."""
    if is_frozen():
        return []
    state, problem = CAN_BE_PULLED, None
    if model_files.installed_folder(models.folder):
        has_runtime = model_files.runtime_is_installed()
        state = READS_TEXT if has_runtime else INSTALLED
        problem = None if has_runtime else EXTRA_MISSING
    return [
        ModelRow(
            name=model_files.NAME,
            state=state,
            problem=problem,
            size_bytes=model_files.SIZE_BYTES,
            memory_mb=model_files.MEMORY_MB,
            licence=model_files.LICENCE,
            languages=f"text: {model_files.SCRIPTS}",
        )
    ]


def is_frozen() -> bool:
    """Whether this is a program made by PyInstaller, which can't read text in pictures."""
    return bool(getattr(sys, "frozen", False))


def state_in_program(program: str) -> str:
    """The state of a model that a program offers, such as "in Ollama"."""
    return f"in {PROGRAMS[program].title}"


def _program_rows(server_of: Callable[[str], ModelServer], program: str) -> list[ModelRow]:
    try:
        offered = server_of(program).models()
    except ModelUnusable:
        return []
    return [
        ModelRow(name=f"{program}:{model.name}", state=state_in_program(program), size_bytes=model.size_bytes)
        for model in offered
        if model.can_see is not False and not model.in_cloud
    ]


def _state(model: VisionModel) -> str:
    if passed_self_test(model):
        return INSTALLED
    return UNUSABLE if known_problem(model) else UNTESTED


def _row(name: str, about: Manifest | Entry, state: str, *, in_use: bool = False) -> ModelRow:
    return ModelRow(
        name=name,
        state=state,
        in_use=in_use,
        size_bytes=about.size_bytes,
        memory_mb=about.memory_mb,
        licence=about.licence,
        languages=about.languages,
        image_tokens=about.chat.image_tokens,
    )
