"""The pictures of the default account, for the `<img>` elements of the local page."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response
from litestar.params import FromPath
from litestar.response import File

from imgproc_local.api.images import Variant, file_of_image, thumbnail_of_image
from imgproc_local.compose import Services
from imgproc_local.web.guard import get, require_session


@get("/local/images/{image_id:str}/original", guards=[require_session])
async def original(request: Request[Any, Any, Any], image_id: FromPath[str]) -> File | Response[None]:
    return await _inline(request, image_id, "original")


@get("/local/images/{image_id:str}/optimized", guards=[require_session])
async def optimized(request: Request[Any, Any, Any], image_id: FromPath[str]) -> File | Response[None]:
    return await _inline(request, image_id, "optimized")


@get("/local/images/{image_id:str}/converted", guards=[require_session])
async def converted(request: Request[Any, Any, Any], image_id: FromPath[str]) -> File | Response[None]:
    return await _inline(request, image_id, "converted")


@get("/local/images/{image_id:str}/thumbnail", guards=[require_session])
async def thumbnail(request: Request[Any, Any, Any], image_id: FromPath[str]) -> Response[bytes | None]:
    services: Services = request.app.state.services
    return await thumbnail_of_image(request, image_id, await services.store.keys.account_id())


async def _inline(request: Request[Any, Any, Any], image_id: str, variant: Variant) -> File | Response[None]:
    services: Services = request.app.state.services
    account_id = await services.store.keys.account_id()
    return await file_of_image(request, image_id, account_id, variant, "inline")


HANDLERS = [original, optimized, converted, thumbnail]
