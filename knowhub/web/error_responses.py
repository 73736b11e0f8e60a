"""The one place that knows statuses: failures become RFC 9457 `application/problem+json`, those of MCP JSON-RPC."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from http import HTTPStatus
from math import ceil
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from knowhub.core import errors
from knowhub.web import json_rpc
from knowhub.web.parsing import MalformedJson

_KINDS: Sequence[tuple[type[errors.KnowHubError], HTTPStatus, str]] = (
    (errors.InvalidInput, HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-input"),
    (errors.NotFound, HTTPStatus.NOT_FOUND, "not-found"),
    (errors.Forbidden, HTTPStatus.FORBIDDEN, "forbidden"),
    (errors.VersionConflict, HTTPStatus.CONFLICT, "version-conflict"),
    (errors.Conflict, HTTPStatus.CONFLICT, "conflict"),
    (errors.TooLarge, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large"),
    (errors.TooManyRequests, HTTPStatus.TOO_MANY_REQUESTS, "too-many-requests"),
    (errors.StorageFull, HTTPStatus.INSUFFICIENT_STORAGE, "storage-full"),
    (errors.Unavailable, HTTPStatus.SERVICE_UNAVAILABLE, "unavailable"),
)
_TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}


def problem(
    status: int, kind: str, detail: str, path: str, extra: Mapping[str, Any] | None = None
) -> tuple[bytes, str]:
    """Return the body and media type of an error. MCP has a form of its own: its clients show no other."""
    if json_rpc.is_mcp(path):
        return orjson.dumps(json_rpc.make_refusal(status, detail, (extra or {}).get("id"))), "application/json"
    body = {
        "type": f"urn:knowhub:problem:{kind}",
        "title": title_of(status),
        "status": status,
        "detail": detail,
        # A path may hold half a surrogate pair, which is no JSON text.
        "instance": path.encode("utf-8", "replace").decode(),
        **(extra or {}),
    }
    return orjson.dumps(body, default=str), "application/problem+json"


def title_of(status: int) -> str:
    """Return the name of a status; Python 3.11 knows older names of two."""
    return _TITLES.get(status, HTTPStatus(status).phrase)


def install(app: Starlette, routes: Sequence[Route]) -> None:
    """Have `app` answer what it refuses as a problem; `routes` are all that it has.

    `RequestIdMiddleware` answers what nobody expected.
    """

    async def handle_known(request: Request, error: Exception) -> Response:
        assert isinstance(error, errors.KnowHubError)  # noqa: S101 -- Starlette's handlers are typed for any exception
        status, kind = next((status, kind) for cls, status, kind in _KINDS if isinstance(error, cls))
        extra = dict(error.extra)
        if isinstance(error, errors.InvalidInput):
            extra["errors"] = [asdict(field_error) for field_error in error.errors]
        headers = {"Retry-After": str(ceil(error.retry_after_s))} if isinstance(error, errors.TooManyRequests) else None
        return _response(request, status, kind, error.detail, extra, headers)

    async def handle_malformed(request: Request, error: Exception) -> Response:
        extra = {"errors": [{"field": "body", "message": str(error)}]}
        return _response(request, 400, "malformed-json", "the body is not JSON", extra)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 -- as above
        return _answer_unrouted(routes, request, error)

    app.add_exception_handler(errors.KnowHubError, handle_known)
    app.add_exception_handler(MalformedJson, handle_malformed)
    app.add_exception_handler(HTTPException, http)


def _response(
    request: Request,
    status: int,
    kind: str,
    detail: str,
    extra: Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
) -> Response:
    body, media_type = problem(status, kind, detail, request.scope["path"], extra)
    if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.INSUFFICIENT_STORAGE, HTTPStatus.TOO_MANY_REQUESTS):
        headers = {"Retry-After": "1", **(headers or {})}
    return Response(body, status, headers, media_type)


def _answer_unrouted(routes: Sequence[Route], request: Request, error: HTTPException) -> Response:
    """Answer what no route took: there is nothing there, or not with this method."""
    status, headers, detail = error.status_code, dict(error.headers or {}), str(error.detail)
    if status == HTTPStatus.METHOD_NOT_ALLOWED and _is_unknown_verb(request):
        status, headers = HTTPStatus.NOT_FOUND, {}
    if status == HTTPStatus.NOT_FOUND:
        detail = f"there is nothing at {request.scope['path']}; see /docs"
    elif status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_list_methods(routes, request))
        detail = f"{request.method} is not one of {headers['Allow']}"
    kind = HTTPStatus(status).name.lower().replace("_", "-")
    return _response(request, status, kind, detail, {}, headers)


def _is_unknown_verb(request: Request) -> bool:
    """Return whether a POST names a verb that this server does not have, where a path with an id happens to fit.

    A verb is one word of letters; an id that KnowHub makes has digits. A verb that is missing is a missing route.
    """
    word = request.scope["path"].rpartition("/")[2].replace("_", "")
    fits_an_id = word in "".join(request.scope.get("path_params", {}).values()).replace("_", "")
    return request.method == "POST" and fits_an_id and word.isascii() and word.isalpha()


def _list_methods(routes: Sequence[Route], request: Request) -> list[str]:
    """List the methods of every route that has this path, not only of the first."""
    methods: set[str] = set()
    for route in routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods or set()
    # Files are not a route: they are read, and nothing else.
    return sorted(methods) or ["GET", "HEAD"]
