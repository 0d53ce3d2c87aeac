"""Which model describes, whether it works here, and how well it does in each language: as people are told it."""

from __future__ import annotations

from msgspec import Struct

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.llm.cpu import processor_problem
from imgproc_local.vision.llm.selftest import NOT_INSTALLED, known_problem, llama_is_installed, proved
from imgproc_local.vision.models.store import NO_MODEL, Models


class InUse(Struct, frozen=True):
    """`model` is None where none is in use. With a `problem` it does not describe: the facts are told instead.

    `grades` are shares from 0 to 1 per language code, of those languages that were checked.
    """

    model: str | None
    problem: str | None = None
    proved: bool = False
    grades: dict[str, float] = {}


def in_use(models: Models, setting: str) -> InUse:
    """Reads files only; `setting` is the setting `model`."""
    try:
        name = setting or models.chosen()
    except ModelUnusable as error:
        return InUse("unknown", error.message)
    if name in ("", NO_MODEL):
        return InUse(None)
    try:
        model = models.model(name)
    except ModelUnusable as error:
        return InUse(name, error.message)
    if not llama_is_installed():
        return InUse(name, NOT_INSTALLED)
    if problem := processor_problem():
        return InUse(name, problem)
    return InUse(name, known_problem(model), proved(model), models.grades(name))
