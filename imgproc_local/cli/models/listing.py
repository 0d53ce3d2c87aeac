"""The rows of `models list`: the installed models, and those of the catalogue that can be pulled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def table_lines(rows: list[ModelRow]) -> list[str]:
    """The rows as aligned lines for people, below a heading."""
    from imgproc_local.cli.output import printable, size_text, table

    cells = [("NAME", "STATE", "SIZE", "MEMORY", "LICENCE", "LANGUAGES", "GRADES")]
    cells += [
        (
            row.name,
            f"{row.state}, in use" if row.in_use else row.state,
            size_text(row.size_bytes),
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
