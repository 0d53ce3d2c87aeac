"""The page's endpoints for models: list, install, use and remove.

An installation runs in the background of the service, one at a time; `GET /local/models` has its progress.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import unquote

from litestar import Request, delete, post
from litestar.exceptions import ClientException
from litestar.params import FromPath
from msgspec.structs import replace

from imgproc_local.api.requests import services_of
from imgproc_local.compose import Services, model_list, model_store
from imgproc_local.domain.errors import DataFolderBusy, ModelUnusable, NotFound
from imgproc_local.storage.accounts import audit
from imgproc_local.system.piped_child import usable_memory_bytes
from imgproc_local.vision.llm.listing import ModelRow, State
from imgproc_local.vision.models.install import AIR_GAPPED
from imgproc_local.vision.models.model import loopback_model
from imgproc_local.vision.models.store import NO_MODEL
from imgproc_local.vision.models.tasks import TaskProgress
from imgproc_local.web.local import Body, get

T = TypeVar("T")


@get("/local/models")
async def _list_models(request: Request[Any, Any, Any]) -> Body:
    """Every model with what a choice between them needs. Other programs are asked at most every 15 s,
    so that the page can poll the progress of a task."""
    services, state = services_of(request), request.app.state
    asked_s, offered = state.get("offered_models", (0.0, ()))
    if not asked_s or time.monotonic() - asked_s > 15:
        offered = await asyncio.to_thread(model_list(services.config).offered)
        state["offered_models"] = time.monotonic(), offered
    return {"data": await asyncio.to_thread(_read_models, services, offered)}


@post("/local/models/{name:str}/install", status_code=202)
async def _install(request: Request[Any, Any, Any], name: FromPath[str]) -> Body:
    """Download a model of the catalogue, test it and install it, in the background."""
    services = services_of(request)
    if services.config.air_gapped:
        raise ClientException(AIR_GAPPED, status_code=409)
    await _as_conflict(lambda: services.models.install(name))
    return _changed(request, "install", name)


@post("/local/models/{name:str}/cancel", status_code=202)
async def _cancel(request: Request[Any, Any, Any], name: FromPath[str]) -> Body:
    """End the task of this name. What it has downloaded is preserved, and the next installation resumes it."""
    if not services_of(request).models.cancel(unquote(name)):
        raise NotFound(f"{name[:80]!r} is not being installed or tested.")
    return _changed(request, "cancel", name)


@post("/local/models/{name:str}/use", status_code=202)
async def _use(request: Request[Any, Any, Any], name: FromPath[str]) -> Body:
    """Use this model from the next picture on; "none" uses no model.

    A model that has not passed its test on this machine is tested first, in the background. The name is decoded a
    second time: that of a model in another program may have slashes, which the page encodes twice.
    """
    services, name = services_of(request), unquote(name)
    if services.config.model:
        raise ClientException(
            f"The setting model is {services.config.model!r} and decides which model is used. Remove the setting and"
            " start the service again, or change it there.",
            status_code=409,
        )
    await _as_conflict(lambda: _select(services, name))
    request.app.state["offered_models"] = 0.0, ()
    return _changed(request, "use", name)


@delete("/local/models/{name:str}")
async def _remove(request: Request[Any, Any, Any], name: FromPath[str]) -> None:
    """Delete an installed model from the disk. The model in use is not deleted."""
    services = services_of(request)
    await _as_conflict(lambda: _remove_unused(services, name))
    _changed(request, "remove", name)


def _read_models(services: Services, offered: Sequence[ModelRow]) -> Body:
    """All models, the task that runs, why the last task of each model failed, and what the page says of this machine.

    `runtime_problem` says why no model can run in this program; `folder_problem`, why the models folder can't be read.
    `fixed_by_setting` is the model that the setting `model` names, which `use` can't change; "" without one.
    """
    from imgproc_local.vision.llm.bindings import NOT_INSTALLED
    from imgproc_local.vision.llm.selftest import llama_is_installed

    config = services.config
    # read before the lists: the page stops polling at an answer without a task, so the lists in that answer must be
    # newer than the end of the task
    task, failures = services.models.progress, dict(services.models.failures)
    models = model_list(config)
    own, folder_problem = models.own()
    rows = [*own, *models.in_programs(offered)]
    existing = next((path for path in (config.models_folder, *config.models_folder.parents) if path.exists()), None)
    return {
        "models": [_with_task(row, task, failures) for row in rows],
        "task": task,
        "failures": failures,
        "memory_bytes": usable_memory_bytes(),
        "free_bytes": shutil.disk_usage(existing).free if existing else 0,
        "models_folder": str(config.models_folder),
        "air_gapped": config.air_gapped,
        "fixed_by_setting": config.model,
        "runtime_problem": None if llama_is_installed() else NOT_INSTALLED,
        "folder_problem": folder_problem,
    }


def _with_task(row: ModelRow, task: TaskProgress | None, failures: Mapping[str, str]) -> ModelRow:
    """`row` with the state of its task that runs, or of the last one, if that failed."""
    if task is not None and task.name == row.name:
        return replace(row, state="testing" if task.kind == "test" else "installing", problem=None)
    if row.name in failures and row.state != "installed":
        state: State = "failed" if row.state in ("available", "paused") else "unusable"
        return replace(row, state=state, problem=failures[row.name])
    return row


def _select(services: Services, name: str) -> None:
    from imgproc_local.vision.llm.selftest import llama_is_installed, passed_self_test

    store = model_store(services.config)
    other = loopback_model(name)
    if other is not None and (problem := model_list(services.config).problem_of(other)):
        raise ModelUnusable(problem)
    if other or name == NO_MODEL or not llama_is_installed() or passed_self_test(store.model(name)):
        store.select(name)
    else:
        services.models.test_and_select(name)


def _remove_unused(services: Services, name: str) -> None:
    store = model_store(services.config)
    task = services.models.progress
    if task is not None and task.name == name:
        raise ModelUnusable(f"{name} is being installed or tested. Wait until that has ended, or cancel it.")
    if name == (services.config.model or store.selected()):
        raise ModelUnusable(f"{name} is in use. Use another model, or none, and then remove it.")
    store.remove(name)


async def _as_conflict(work: Callable[[], T]) -> T:
    """Run `work` on a thread. Raises: ClientException (409), for a model that can't be used or a busy folder."""
    try:
        return await asyncio.to_thread(work)
    except (ModelUnusable, DataFolderBusy) as error:
        raise ClientException(error.message, status_code=409) from error


def _changed(request: Request[Any, Any, Any], action: str, name: str) -> Body:
    """Audit the change. Returns the task that runs now, None without one: what took effect at once started none."""
    audit(f"model.{action}", model=name, session=request.auth)
    return {"data": {"task": services_of(request).models.progress}}


HANDLERS = [_list_models, _install, _cancel, _use, _remove]
