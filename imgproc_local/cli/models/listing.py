"""The rows of `models list`: the installed models, those in other programs on this machine, and those of the catalogue
that can be pulled.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imgproc_local.config import Config
    from imgproc_local.vision.models.catalogue import Entry
    from imgproc_local.vision.models.manifest import Manifest
    from imgproc_local.vision.models.model import VisionModel
    from imgproc_local.vision.models.store import ModelStore

MAX_CODES_LISTED = 6
"""With more languages of the same grade, their number is shown instead of their codes."""


class ModelRow(Struct, frozen=True, kw_only=True):
    """One model, as `models list --json` prints it. `grades` are shares from 0 to 1 by language code."""

    name: str
    state: str
    in_use: bool = False
    problem: str | None = None
    size_bytes: int = 0
    memory_mb: int = 0
    licence: str = ""
    languages: str = ""
    image_tokens: int | None = None
    grades: dict[str, float] = {}


def installed_models(models: ModelStore, setting: str) -> list[ModelRow]:
    """The installed models. `setting` is the setting `model`. Raises: ModelUnusable where the folder can't be read."""
    from imgproc_local.domain.errors import ModelUnusable

    in_use = setting or models.selected()
    rows = []
    for name in models.names():
        try:
            manifest, state = models.manifest(name), _state(models.model(name))
        except ModelUnusable as error:
            rows.append(ModelRow(name=name, state="damaged", in_use=name == in_use, problem=error.message))
        else:
            rows.append(_row(name, manifest, state, in_use=name == in_use, grades=models.grades(name)))
    return rows


def pullable_models(catalogue: Mapping[str, Entry], installed: list[ModelRow]) -> list[ModelRow]:
    """The models of the catalogue that are not installed."""
    names = {row.name for row in installed}
    return [_row(name, entry, "can be pulled") for name, entry in catalogue.items() if name not in names]


def loopback_models(config: Config) -> list[ModelRow]:
    """The models in Ollama, LM Studio and llama-server that can see pictures, and the model in use among them.

    The programs are asked at the same time, for at most a few seconds. One that does not answer has no rows; in
    air-gapped mode none is asked.
    """
    from imgproc_local.compose import loopback_problem, model_store
    from imgproc_local.domain.errors import ModelUnusable
    from imgproc_local.vision.models.model import LOOPBACK_PROGRAMS, loopback_model

    models = model_store(config)
    try:
        in_use = loopback_model(config.model or models.selected())
    except ModelUnusable:  # the models folder can't be read, which is reported for the installed models
        in_use = None
    rows = []
    if not config.air_gapped:
        with ThreadPoolExecutor(len(LOOPBACK_PROGRAMS)) as pool:
            rows = [row for found in pool.map(partial(_program_rows, config), LOOPBACK_PROGRAMS) for row in found]
    rows = [msgspec.structs.replace(row, grades=models.grades(row.name)) for row in rows]
    if in_use is None:
        return rows
    problem = loopback_problem(config, in_use) or models.loopback_problem(in_use.name)
    state = "does not work here" if problem else _state_in(in_use.program)
    row = next((row for row in rows if row.name == in_use.name), ModelRow(name=in_use.name, state=state))
    used = msgspec.structs.replace(row, state=state, in_use=True, problem=problem, grades=models.grades(row.name))
    return [used, *(row for row in rows if row.name != in_use.name)]


def _program_rows(config: Config, program: str) -> list[ModelRow]:
    from imgproc_local.compose import model_server
    from imgproc_local.domain.errors import ModelUnusable

    try:
        offered = model_server(config, program).models()
    except ModelUnusable:
        return []
    return [
        ModelRow(name=f"{program}:{model.name}", state=_state_in(program), size_bytes=model.size_bytes)
        for model in offered
        if model.can_see is not False and not model.in_cloud
    ]


def _state_in(program: str) -> str:
    from imgproc_local.vision.loopback.programs import PROGRAMS

    return f"in {PROGRAMS[program].title}"


def table_lines(rows: list[ModelRow]) -> list[str]:
    """The rows as aligned lines for people, below a heading."""
    from imgproc_local.cli.output import printable, size_text, table

    cells = [("NAME", "STATE", "SIZE", "MEMORY", "LICENCE", "LANGUAGES", "GRADES")]
    cells += [
        (
            printable(row.name),
            f"{row.state}, in use" if row.in_use else row.state,
            size_text(row.size_bytes) if row.size_bytes else "",
            size_text(row.memory_mb * 1_000_000) if row.memory_mb else "",
            printable(row.licence),
            printable(row.languages),
            _grades_text(row.grades),
        )
        for row in rows
    ]
    return table(cells, right_aligned=(2, 3))


def _state(model: VisionModel) -> str:
    from imgproc_local.vision.llm.selftest import known_problem, passed_self_test

    if passed_self_test(model):
        return "installed"
    return "does not work here" if known_problem(model) else "installed, not tested yet"


def _row(
    name: str, about: Manifest | Entry, state: str, *, in_use: bool = False, grades: dict[str, float] | None = None
) -> ModelRow:
    return ModelRow(
        name=name,
        state=state,
        in_use=in_use,
        size_bytes=about.size_bytes,
        memory_mb=about.memory_mb,
        licence=about.licence,
        languages=about.languages,
        image_tokens=about.chat.image_tokens,
        grades=grades or {},
    )


def _grades_text(shares: Mapping[str, float]) -> str:
    """The languages by grade, such as "A: de en, B: 12 languages"."""
    from imgproc_local.vision.grading.grade import format_grade

    by_letter: dict[str, list[str]] = {}
    for language, share in shares.items():
        by_letter.setdefault(format_grade(share)[0], []).append(language)
    return ", ".join(
        f"{letter}: {' '.join(codes) if len(codes) <= MAX_CODES_LISTED else f'{len(codes)} languages'}"
        for letter, codes in sorted(by_letter.items())
    )
