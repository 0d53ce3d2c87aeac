"""The page's endpoints for the settings: read all, change those that it may change, and preview a quality.

A preview is a result with other options, made like that of a stage, but not stored. One is made at a time: a new
request takes the place of the one before.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import msgspec
from litestar import Request, Response, patch, post
from litestar.exceptions import ClientException, HTTPException
from msgspec.structs import asdict

from imgproc_local.api.requests import format_problem, read_json, services_of
from imgproc_local.config import CHANGEABLE, LIVE, Config, Settings, as_json_values
from imgproc_local.domain import errors
from imgproc_local.domain.job import MADE_BY
from imgproc_local.domain.plan import RemakeOptions
from imgproc_local.storage.accounts import audit
from imgproc_local.system.files import encodable_text
from imgproc_local.web.local import Body, get


@get("/local/settings")
async def _read_settings(request: Request[Any, Any, Any]) -> Body:
    return _shown(services_of(request).settings)


@patch("/local/settings")
async def _change_settings(request: Request[Any, Any, Any]) -> Body:
    """Write settings into the file; null removes one. All are changed, or none."""
    settings = services_of(request).settings
    expected = "a JSON object of settings by name, each with a text, a number, true, false or null"
    changes = await read_json(request, dict[str, str | int | float | bool | None], expected)
    try:
        await asyncio.to_thread(settings.change, changes)
    except errors.SettingInvalid as error:
        raise ClientException(error.message, status_code=409) from error
    for name, value in changes.items():
        audit("setting.change", setting=name, value=msgspec.json.encode(value).decode(), session=request.auth)
    return _shown(settings)


def _shown(settings: Settings) -> Body:
    """Every setting, and the file that changes are written to; null for a user without a home.

    `value` is what the file says, or what wins over it. `in_effect` differs from it until the next start, for a setting
    that `needs_restart`. The default of the data folder, which depends on the system, is null.
    """
    loaded, in_effect = settings.loaded, as_json_values(settings.config)
    defaults = as_json_values(Config(data_dir=Path())) | {"data_dir": None}
    rows = [
        asdict(row)
        | {
            "default": defaults[row.name],
            "in_effect": in_effect[row.name],
            "source": "file" if row.source == encodable_text(str(loaded.file)) else row.source,
            "changeable": row.name in CHANGEABLE and settings.fixed_by(row.name) is None,
            "needs_restart": row.name not in LIVE,
        }
        for row in loaded.shown()
    ]
    return {"data": {"file": settings.file and encodable_text(str(settings.file)), "settings": rows}}


# ---- previews ----


class _Preview(RemakeOptions, frozen=True, forbid_unknown_fields=True):
    image_id: str
    variant: Literal["optimized", "converted"]


@post("/local/preview", status_code=200)
async def _preview(request: Request[Any, Any, Any]) -> Response[bytes]:
    """The file, with its score as `X-Score` if it was measured."""
    from imgproc_local.codecs.picture.formats import FORMATS

    services = services_of(request)
    wanted = await read_json(request, _Preview, "a JSON object with image_id, variant, and the options that change")
    if problem := format_problem(wanted.format):
        raise errors.InvalidRequest(problem)
    job = await services.jobs.by_image(wanted.image_id.lower(), await services.store.keys.account_id())
    if job.original.expired:
        raise errors.OriginalRemoved("The uploaded picture was removed because of its age. Send the picture again.")
    try:
        made = await services.engine.preview(job, MADE_BY[wanted.variant], wanted.changes)
    except errors.StageCancelled:
        reason = "Another preview took the place of this one, the picture was deleted, or the service is stopping."
        raise HTTPException(reason, status_code=409) from None
    except errors.StageFailed as error:
        raise errors.BrokenImage(error.message) from error
    path = services.blobs.path(job.original.sha256) if made.path is None else Path(made.path)
    try:
        data = await asyncio.to_thread(path.read_bytes)
    finally:
        if made.path is not None:
            await asyncio.to_thread(path.unlink, missing_ok=True)
    headers = {} if made.score is None else {"X-Score": f"{made.score:.1f}"}
    return Response(data, media_type=FORMATS[made.format or job.info.format].mime, headers=headers)


HANDLERS = [_read_settings, _change_settings, _preview]
