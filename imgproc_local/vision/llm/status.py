"""Which model is in use, and whether it works on this machine."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.llm.bindings import NOT_INSTALLED
from imgproc_local.vision.llm.selftest import known_problem, llama_is_installed, passed_self_test
from imgproc_local.vision.models.model import LoopbackModel, loopback_model
from imgproc_local.vision.models.store import NO_MODEL, ModelStore


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
        problem = loopback_problem(other) or models.loopback_problem(name)
        return ModelStatus(name, problem, problem is None)
    try:
        model = models.model(name)
    except ModelUnusable as error:
        return ModelStatus(name, error.message)
    if not llama_is_installed():
        return ModelStatus(name, NOT_INSTALLED)
    return ModelStatus(name, known_problem(model), passed_self_test(model))
