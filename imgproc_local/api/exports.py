"""Archives of finished files: `POST /exports`, and what the local page's downloads share with it."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from litestar import Request, Response
from litestar.types import ASGIApp, Receive, Scope, Send

from imgproc_local.api.images import content_disposition
from imgproc_local.api.openapi import file_content, json_content, post
from imgproc_local.api.requests import ULID, caller, language_problem, read_json
from imgproc_local.api.wire import ExportPreview, ExportPreviewBody
from imgproc_local.domain.errors import ExportIncomplete, InvalidRequest, NotFound
from imgproc_local.domain.export import MAX_IMAGES, ExportFields, template_problem
from imgproc_local.engine.exports import Export, ExportBroken, ExportPlan

log = logging.getLogger(__name__)

_CONTENT = file_content("application/zip") | json_content(ExportPreviewBody)


@post("/exports", "exports", _CONTENT, body=ExportFields, is_body_required=False, raises=[NotFound, ExportIncomplete])
async def export(request: Request[Any, Any, Any]) -> Response[Any]:
    """A ZIP archive of finished files, with their texts as alt.csv and alt.json (local addition).

    The archive is sent while it is made. The same request for the same data gives the same bytes. With dry_run, the
    answer is what the archive would contain, as JSON.
    """
    services, account_id = caller(request)
    fields = await read_export_fields(request)
    if fields.dry_run:
        plan = await services.exporter.plan(account_id, fields)
        images = sum(bool(planned.files) for planned in plan.images)
        names = [file.name for file in plan.files]
        counted = ExportPreview(images, len(names), plan.stored_bytes, names[:5], plan.needs_text, plan.missing)
        return Response(ExportPreviewBody(counted), status_code=200)
    return ArchiveResponse(await services.exporter.open(account_id, fields))


HANDLERS = [export]


async def read_export_fields(request: Request[Any, Any, Any]) -> ExportFields:
    """The body of a request. Raises: InvalidRequest, UploadTooLarge, UploadTimedOut, ServiceStopping."""
    expected = "a JSON object with the fields of an export, its variants of best, optimized, converted and original"
    # `MAX_IMAGES` identifiers need 290 kB
    fields = await read_json(request, ExportFields, expected, max_bytes=1024 * 1024, without_body=ExportFields())
    errors: dict[str, list[str]] = {}
    images = fields.images or ()
    if fields.images is not None and not 1 <= len(images) <= MAX_IMAGES:
        errors["images"] = [f"images must be 1 to {MAX_IMAGES} identifiers; received {len(images)}."]
    projects = () if fields.project_id is None else (fields.project_id,)
    for name, identifiers in (("images", images), ("project_id", projects)):
        wrong = next((each for each in identifiers if not re.fullmatch(ULID, each)), None)
        if wrong is not None:
            errors[name] = [f"{name} must be a ULID of 26 characters; received {wrong[:40]!r}."]
    if fields.images is not None and fields.project_id is not None:
        errors["project_id"] = ["project_id can't be sent beside images."]
    errors |= language_problem("language", fields.language)
    if (problem := template_problem(fields.name_template)) is not None:
        errors["name_template"] = [problem]
    if errors:
        raise InvalidRequest(errors)
    return fields


def archive_stem(plan: ExportPlan) -> str:
    """The name of the archive without extension: that of its project, if all its images are of one."""
    projects = {planned.job.project_name for planned in plan.images}
    return projects.pop() if len(projects) == 1 else "images"


class ArchiveResponse(Response[None]):
    """Sends an archive while it is made, and closes `export` afterwards. If the archive is broken off, the connection
    is closed, so that no client takes what it received for complete.
    """

    def __init__(self, export: Export) -> None:
        name = content_disposition(archive_stem(export.plan), ".zip")
        headers = {"Content-Disposition": name, "Accept-Ranges": "none", "Cache-Control": "no-store"}
        super().__init__(None, headers=headers, media_type="application/zip", status_code=200)
        self._export = export

    def to_asgi_response(  # type: ignore[override] # Litestar calls it like every ASGI application
        self, *_: Any, headers: Mapping[str, str] | None = None, **__: Any
    ) -> ASGIApp:
        named = {**(headers or {}), **self.headers, "Content-Type": "application/zip"}
        encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in named.items()]
        return partial(self._send_archive, encoded)

    async def _send_archive(self, headers: list[tuple[bytes, bytes]], _: Scope, receive: Receive, send: Send) -> None:
        async def send_piece(piece: bytes) -> None:
            await send({"type": "http.response.body", "body": piece, "more_body": True})

        watch = asyncio.create_task(_stop_on_disconnect(self._export, receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._export.write(send_piece)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except ExportBroken as broken:
            # the server closes the connection, because the message that ends the body is not sent
            log.warning("An export was broken off. %s", broken)
        finally:
            watch.cancel()
            await self._export.close()


async def _stop_on_disconnect(export: Export, receive: Receive) -> None:
    """Break the archive off when its connection is closed: by the client, or because the service stops."""
    while (await receive())["type"] != "http.disconnect":
        pass
    export.stop()
