"""The models of this machine: the installed ones, those in other programs, and those of the catalogue.

Files are read and the programs asked; no model is loaded, and no connection to another machine is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from imgproc_local.domain.errors import ModelUnusable, how_to_install
from imgproc_local.system.piped_child import usable_memory_bytes
from imgproc_local.vision.llm import selftest
from imgproc_local.vision.llm.bindings import NOT_INSTALLED
from imgproc_local.vision.llm.loopback import PROGRAMS, ModelServer
from imgproc_local.vision.models import networks
from imgproc_local.vision.models.model import LoopbackModel, Manifest, ModelFile, loopback_model, read_catalogue
from imgproc_local.vision.models.store import OCR, PARTIAL_FOLDER, ModelStore, can_read_text

EXTRA_MISSING = "The libraries that read text in pictures are not installed. " + how_to_install("ocr")
State = Literal[
    "available", "paused", "failed", "installing", "testing",
    "installed", "untested", "unusable", "damaged", "in-program",
]  # fmt: skip
"""The first four are not installed. "failed", "installing" and "testing" are those of a task on the page."""


class ModelRow(Struct, frozen=True, kw_only=True):
    """A model, as `models list --json` and the page show it.

    `kind` is "text-reader" for the networks that read text in pictures, which work beside any model. `program` is the
    name of the program that has the model, None for this one. `memory_bytes` is 0 if it is unknown; `fits_memory` is
    None then. `recommended` marks the first model of the catalogue that fits. `downloaded_bytes` are those of an
    installation that was not finished. `files` are those to download of a model that is not installed.
    """

    name: str
    kind: Literal["vision", "text-reader"] = "vision"
    state: State
    in_use: bool = False
    problem: str | None = None
    program: str | None = None
    size_bytes: int = 0
    memory_bytes: int = 0
    fits_memory: bool | None = None
    recommended: bool = False
    downloaded_bytes: int = 0
    licence: str = ""
    languages: str = ""
    files: tuple[ModelFile, ...] = ()


class ModelStatus(Struct, frozen=True):
    """The model in use and its test results.

    `model` is its name, None if no model is selected. If there is a `problem`, pictures are described without the
    model.
    """

    model: str | None
    problem: str | None = None
    passed_self_test: bool = False


class ModelList:
    """The models of this machine. `setting` is the setting `model`.

    `server_of` returns the server of a program; it raises ModelUnusable in air-gapped mode.
    """

    def __init__(self, models: ModelStore, setting: str, server_of: Callable[[str], ModelServer]) -> None:
        self._models = models
        self._setting = setting
        self._server_of = server_of

    def problem_of(self, model: LoopbackModel) -> str | None:
        """Why a model in another program can't be used now, asked of that program for at most a few seconds."""
        try:
            self._server_of(model.program).require(model.name_in_program)
        except ModelUnusable as error:
            return error.message
        return None

    def status(self) -> ModelStatus:
        """The status of the model that the setting names, or else the one selected with `models use`.

        It is read from files; no model is loaded. If another program has the model, that program is asked.
        """
        try:
            name = self._models.active_name(self._setting)
        except ModelUnusable as error:
            return ModelStatus("unknown", error.message)
        if name is None:
            return ModelStatus(None)
        if (other := loopback_model(name)) is not None:
            problem = self.problem_of(other)
            return ModelStatus(name, problem, problem is None)
        row = _installed(self._models, name, name)
        # before a stored failure, which would otherwise hide what has to be done first
        if row.state != "damaged" and not selftest.llama_is_installed():
            return ModelStatus(name, NOT_INSTALLED)
        return ModelStatus(name, row.problem, row.state == "installed")

    def own(self) -> tuple[list[ModelRow], str | None]:
        """The installed models, those of the catalogue and the networks that read text; and why the folder can't be
        read.
        """
        rows, problem = [], None
        try:
            in_use = self._models.active_name(self._setting)
            rows = [_installed(self._models, name, in_use) for name in self._models.names()]
        except ModelUnusable as error:
            problem = error.message
        installed = {row.name for row in rows}
        usable = usable_memory_bytes()
        catalogue = read_catalogue()
        rows += [_available(self._models, entry) for name, entry in catalogue.items() if name not in installed]
        rows = [replace(row, fits_memory=_fits(row.memory_bytes, usable)) for row in rows]
        best = next((row.name for row in rows if row.fits_memory and row.name in catalogue), None)
        if selftest.llama_is_installed():
            rows = [replace(row, recommended=row.name == best) for row in rows]
        return rows + ([] if networks.is_frozen() else [_text_reader(self._models)]), problem

    def offered(self) -> list[ModelRow]:
        """The models in Ollama, LM Studio and llama-server, except those that can't see pictures or run in the cloud.

        The programs are asked at the same time, for at most a few seconds. One that does not answer has no rows.
        """
        with ThreadPoolExecutor(len(PROGRAMS)) as pool:
            return [row for rows in pool.map(self._program_rows, PROGRAMS) for row in rows]

    def in_programs(self, offered: Sequence[ModelRow]) -> list[ModelRow]:
        """The models `offered` by other programs, the one in use first, even if no program offers it."""
        try:
            in_use = loopback_model(self._models.active_name(self._setting) or "")
        except ModelUnusable:  # the models folder can't be read, which is reported for the installed models
            in_use = None
        if in_use is None:
            return list(offered)
        others = [row for row in offered if row.name != in_use.name]
        row = next((row for row in offered if row.name == in_use.name), _in_program(in_use))
        problem = self.problem_of(in_use)
        return [replace(row, state="unusable" if problem else row.state, in_use=True, problem=problem), *others]

    def _program_rows(self, program: str) -> list[ModelRow]:
        try:
            offered = self._server_of(program).models()
        except ModelUnusable:
            return []
        return [
            _in_program(LoopbackModel(program, model.name), model.size_bytes)
            for model in offered
            if model.can_see is not False and not model.in_cloud
        ]


def _installed(models: ModelStore, name: str, in_use: str | None) -> ModelRow:
    try:
        manifest, model = models.manifest(name), models.model(name)
    except ModelUnusable as error:
        return ModelRow(name=name, state="damaged", in_use=name == in_use, problem=error.message)
    problem = selftest.known_problem(model)
    state: State = "unusable" if problem else "installed" if selftest.passed_self_test(model) else "untested"
    return replace(_row(manifest, state), in_use=name == in_use, problem=problem)


def _available(models: ModelStore, entry: Manifest) -> ModelRow:
    """The row of a model that is not installed, with what an unfinished installation has downloaded."""
    files = (models.folder / PARTIAL_FOLDER / entry.name).glob("*.gguf")
    done = sum(file.stat().st_size for file in files if file.is_file())
    row = _row(entry, "paused" if done else "available")
    return replace(row, downloaded_bytes=done, files=entry.listed_files())


def _row(manifest: Manifest, state: State) -> ModelRow:
    return ModelRow(
        name=manifest.name,
        state=state,
        size_bytes=manifest.size_bytes,
        memory_bytes=manifest.memory_mb * 1_000_000,
        licence=manifest.licence,
        languages=manifest.languages,
    )


def _text_reader(models: ModelStore) -> ModelRow:
    """The row of `ocr`, the networks that read text in pictures."""
    is_installed = networks.installed_folder(models.folder) is not None
    return ModelRow(
        name=OCR,
        kind="text-reader",
        state="installed" if is_installed else "available",
        problem=EXTRA_MISSING if is_installed and not can_read_text() else None,
        size_bytes=networks.SIZE_BYTES,
        memory_bytes=400_000_000,  # of the worker process that reads
        licence="Apache-2.0",
        languages=f"text: {networks.SCRIPTS}",
        files=() if is_installed else (networks.WHEEL,),
    )


def _in_program(model: LoopbackModel, size_bytes: int = 0) -> ModelRow:
    title = PROGRAMS[model.program].title
    return ModelRow(name=model.name, state="in-program", program=title, size_bytes=size_bytes)


def _fits(needed_bytes: int, usable_bytes: int) -> bool | None:
    """Whether a model fits into 70 % of the memory; None if its need or the memory is unknown. The rest is for pictures
    in progress and other programs.
    """
    return needed_bytes <= usable_bytes * 0.7 if needed_bytes and usable_bytes else None
