"""The page's endpoints for models: list, install, import, use and remove.

An installation runs in the background of the service, one at a time; `GET /local/models` has its progress.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import unquote

from litestar import Request, delete, post
from litestar.exceptions import ClientException
from litestar.params import FromPath
from msgspec import Meta, Struct

from imgproc_local.api.requests import read_json
from imgproc_local.compose import Services, model_store, models_in_programs
from imgproc_local.config import Config
from imgproc_local.domain.errors import DataFolderBusy, InvalidRequest, ModelUnusable, NotFound
from imgproc_local.storage.sessions import PageSession
from imgproc_local.system.audit import audit
from imgproc_local.system.files import is_on_network
from imgproc_local.vision.management.tasks import TaskProgress
from imgproc_local.vision.models import catalogue
from imgproc_local.vision.models.model import loopback_model
from imgproc_local.vision.models.store import NO_MODEL
from imgproc_local.vision.ocr import model_files
from imgproc_local.web.guard import get
from imgproc_local.web.model_list import Models, read_models

if TYPE_CHECKING:
    from imgproc_local.vision.management.listing import ModelRow

T = TypeVar("T")

PROGRAMS_TTL_S = 15.0
"""How long the answer of other programs on this machine is reused, so that the page can poll the progress."""
MAX_PATHS = 4
"""The maximum number of paths of one import; a model has two files."""
AIR_GAPPED = (
    "air_gapped is true: nothing is downloaded. Run `imgproc-local models pull NAME --to DIR` on a connected machine,"
    " copy DIR to this machine, and import it here."
)


class ModelsBody(Struct, frozen=True):
    data: Models


class Accepted(Struct, frozen=True):
    """`task` is what runs now in the background, None without one. A request that took effect at once started none."""

    task: TaskProgress | None


class TaskBody(Struct, frozen=True):
    data: Accepted


class ImportRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Absolute paths on the machine of the service: two GGUF files, or a folder with them.

    `name` is None for the name in the model's manifest or in the catalogue.
    """

    paths: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=4096)]], Meta(min_length=1, max_length=MAX_PATHS)
    ]
    name: Annotated[str, Meta(max_length=64)] | None = None


@get("/local/models")
async def list_models(request: Request[Any, Any, Any]) -> ModelsBody:
    offered = await _offered_models(request)
    return ModelsBody(await asyncio.to_thread(read_models, _services(request), offered))


@post("/local/models/import", status_code=202)
async def import_model(request: Request[Any, Any, Any]) -> TaskBody:
    """Install a model from files on this machine, in the background."""
    services = _services(request)
    expected = "a JSON object with paths (a list of 1 to 4 absolute paths) and optionally name (text)"
    requested = await read_json(request, ImportRequest, expected)
    paths = await asyncio.to_thread(_checked_paths, requested.paths)
    name = (requested.name or "").strip() or None
    if name is not None:
        _check_name(name)
    known = catalogue.read_catalogue()
    await _as_conflict(lambda: services.models.import_(paths, name, known))
    _audit(request, "model.import", name)
    return _task_body(request)


@post("/local/models/{name:str}/install", status_code=202)
async def install(request: Request[Any, Any, Any], name: FromPath[str]) -> TaskBody:
    """Download a model of the catalogue, test it and install it, in the background."""
    await _as_conflict(lambda: _install(_services(request), name))
    _audit(request, "model.install", name)
    return _task_body(request)


@post("/local/models/{name:str}/cancel", status_code=202)
async def cancel(request: Request[Any, Any, Any], name: FromPath[str]) -> TaskBody:
    """End the task of this name. What it has downloaded is preserved, and the next installation resumes it."""
    if not _services(request).models.cancel(unquote(name)):
        raise NotFound(f"{name[:80]!r} is not being installed, imported or tested.")
    return _task_body(request)


@post("/local/models/{name:str}/use", status_code=202)
async def use(request: Request[Any, Any, Any], name: FromPath[str]) -> TaskBody:
    """Use this model from the next picture on; "none" uses no model.

    A model that has not passed its test on this machine is tested first, in the background. The name is decoded a
    second time: that of a model in another program may have slashes, which the page encodes twice.
    """
    services, name = _services(request), unquote(name)
    if services.config.model:
        raise ClientException(
            f"The setting model is {services.config.model!r} and decides which model is used. Remove the setting and"
            " start the service again, or change it there.",
            status_code=409,
        )
    await _as_conflict(lambda: _select(services, name))
    _forget_offered(request)
    _audit(request, "model.use", name)
    return _task_body(request)


@delete("/local/models/{name:str}")
async def remove(request: Request[Any, Any, Any], name: FromPath[str]) -> None:
    """Delete an installed model from the disk. The model in use is not deleted."""
    services = _services(request)
    await _as_conflict(lambda: _remove(services, name))
    _audit(request, "model.remove", name)


def _checked_paths(texts: Sequence[str]) -> list[Path]:
    """Raises: InvalidRequest, for a path that is not absolute, is on the network, or names nothing that can be read."""
    paths = []
    problems = []
    for text in texts:
        try:
            # file managers copy paths with quotes
            path = Path(text.strip().strip("\"'")).expanduser()
            if is_on_network(path):
                problems.append(
                    f"Expected a file or folder on a drive of this machine, received {text[:200]!r}. Copy it to the"
                    " machine on which the service runs."
                )
                continue
            # opening a pipe or a device could block for ever
            is_there = path.is_absolute() and (path.is_file() or path.is_dir())
        except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: ~ without a home folder
            problems.append(f"{text[:200]!r} can't be read ({getattr(error, 'strerror', None) or error}).")
            continue
        if not path.is_absolute():
            problems.append(f"Expected a complete path such as /home/anna/model.gguf, received {text[:200]!r}.")
        elif not is_there:
            problems.append(f"There is no file or folder {text[:200]!r} on the machine on which the service runs.")
        paths.append(path)
    if problems:
        raise InvalidRequest({"paths": problems})
    return paths


def _check_name(name: str) -> None:
    """Raises: InvalidRequest, where no model can have this name."""
    try:
        catalogue.check_name(name)
    except ValueError as error:
        raise InvalidRequest({"name": [f"The model can't have this name: {error}."]}) from error


def _install(services: Services, name: str) -> None:
    from imgproc_local.vision.management.listing import is_frozen

    known = catalogue.read_catalogue()
    if services.config.air_gapped:
        raise ModelUnusable(AIR_GAPPED)
    if name == model_files.NAME and not is_frozen():
        services.models.install_text_reader()
    elif name in known:
        services.models.install(name, known[name])
    else:
        raise NotFound(f"The catalogue has no model {name[:80]!r}. Available: {', '.join(known)}.")


def _select(services: Services, name: str) -> None:
    from imgproc_local.vision.llm.selftest import llama_is_installed, passed_self_test

    store = model_store(services.config)
    if name == NO_MODEL or loopback_model(name):
        store.select(name)
        return
    model = store.model(name)
    if llama_is_installed() and not passed_self_test(model):
        services.models.test_and_select(name)
        return
    store.select(name)


def _remove(services: Services, name: str) -> None:
    store = model_store(services.config)
    task = services.models.progress
    if task is not None and task.name == name:
        raise ModelUnusable(f"{name} is being installed or tested. Wait until that has ended, or cancel it.")
    if name == model_files.NAME:
        model_files.remove(store)
        return
    if name == (services.config.model or store.selected()):
        raise ModelUnusable(f"{name} is in use. Use another model, or none, and then remove it.")
    store.remove(name)


async def _as_conflict(work: Callable[[], T]) -> T:
    """Run `work` on a thread. Raises: ClientException (409), for a model that can't be used or a busy folder."""
    try:
        return await asyncio.to_thread(work)
    except (ModelUnusable, DataFolderBusy) as error:
        raise ClientException(error.message, status_code=409) from error


def _task_body(request: Request[Any, Any, Any]) -> TaskBody:
    return TaskBody(Accepted(_services(request).models.progress))


def _services(request: Request[Any, Any, Any]) -> Services:
    services: Services = request.app.state.services
    return services


async def _offered_models(request: Request[Any, Any, Any]) -> Sequence[ModelRow]:
    """The models of other programs on this machine, asked at most every `PROGRAMS_TTL_S`."""
    state = request.app.state
    asked_s, rows = state.get("offered_models", (0.0, ()))
    if not asked_s or time.monotonic() - asked_s > PROGRAMS_TTL_S:
        config: Config = _services(request).config
        rows = await asyncio.to_thread(models_in_programs, config)
        state["offered_models"] = time.monotonic(), rows
    return list(rows)


def _forget_offered(request: Request[Any, Any, Any]) -> None:
    request.app.state["offered_models"] = 0.0, ()


def _audit(request: Request[Any, Any, Any], event: str, name: str | None) -> None:
    session: PageSession = request.scope["user"]
    audit(event, model=name, session=session.id)


HANDLERS = [list_models, import_model, install, cancel, use, remove]
