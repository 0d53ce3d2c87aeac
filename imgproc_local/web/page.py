"""The local page and what it needs besides the API."""

from litestar.handlers import HTTPRouteHandler

HANDLERS: list[HTTPRouteHandler] = []
