"""The one place that knows statuses: failures become RFC 9457 `application/problem+json`, those of MCP JSON-RPC."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from dataclasses import field as dataclass_field
from enum import Enum
from http import HTTPStatus
from math import ceil
from typing import Any, Final

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope, Send

from knowhub.core import errors
from knowhub.web import json_rpc
from knowhub.web.request_parsing import MalformedJson


class ProblemKind(Enum):
    """The kinds of problems: how their `type` ends, and their status."""

    MALFORMED_REQUEST = ("malformed-request", 400)
    MALFORMED_JSON = ("malformed-json", 400)
    UNAUTHORIZED = ("unauthorized", 401)
    FORBIDDEN = ("forbidden", 403)
    NOT_FOUND = ("not-found", 404)
    METHOD_NOT_ALLOWED = ("method-not-allowed", 405)
    REQUEST_TIMEOUT = ("request-timeout", 408)
    VERSION_CONFLICT = ("version-conflict", 409)
    CONFLICT = ("conflict", 409)
    TOO_LARGE = ("too-large", 413)
    UNSUPPORTED_MEDIA_TYPE = ("unsupported-media-type", 415)
    INVALID_INPUT = ("invalid-input", 422)
    TOO_MANY_REQUESTS = ("too-many-requests", 429)
    HEADERS_TOO_LARGE = ("headers-too-large", 431)
    INTERNAL_ERROR = ("internal-error", 500)
    UNAVAILABLE = ("unavailable", 503)
    STORAGE_FULL = ("storage-full", 507)

    def __init__(self, slug: str, status: int) -> None:
        self.slug = slug
        self.status = status


# The first that fits: a version conflict is a conflict too.
_KIND_OF_ERROR: Final[Sequence[tuple[type[errors.KnowHubError], ProblemKind]]] = (
    (errors.InvalidInput, ProblemKind.INVALID_INPUT),
    (errors.NotFound, ProblemKind.NOT_FOUND),
    (errors.Forbidden, ProblemKind.FORBIDDEN),
    (errors.VersionConflict, ProblemKind.VERSION_CONFLICT),
    (errors.Conflict, ProblemKind.CONFLICT),
    (errors.TooLarge, ProblemKind.TOO_LARGE),
    (errors.TooManyRequests, ProblemKind.TOO_MANY_REQUESTS),
    (errors.StorageFull, ProblemKind.STORAGE_FULL),
    (errors.Unavailable, ProblemKind.UNAVAILABLE),
)
_TRIED_AGAIN: Final = (ProblemKind.TOO_MANY_REQUESTS, ProblemKind.UNAVAILABLE, ProblemKind.STORAGE_FULL)
_RETRY_AFTER: Final = "Retry-After"
_TITLES: Final = {413: "Content Too Large", 422: "Unprocessable Content"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is refused before its route runs. `field` is what is wrong with it, where the status is 422."""

    kind: ProblemKind
    detail: str
    headers: Mapping[str, str] = dataclass_field(default_factory=dict)
    field: str = "body"


def make_problem(
    kind: ProblemKind, detail: str, path: str, extra: Mapping[str, Any] | None = None
) -> tuple[bytes, str]:
    """Return the body and media type of an error. MCP has a form of its own: its clients show no other."""
    if json_rpc.is_mcp(path):
        return orjson.dumps(json_rpc.make_refusal(kind.status, detail, (extra or {}).get("id"))), "application/json"
    body = {
        "type": f"urn:knowhub:problem:{kind.slug}",
        "title": get_title(kind.status),
        "status": kind.status,
        "detail": detail,
        # A path may hold half a surrogate pair, which is no JSON text.
        "instance": path.encode("utf-8", "replace").decode(),
        **(extra or {}),
    }
    return orjson.dumps(body, default=str), "application/problem+json"


def get_title(status: int) -> str:
    """Return the name of a status; Python 3.11 knows older names of two."""
    return _TITLES.get(status, HTTPStatus(status).phrase)


async def answer_refusal(send: Send, scope: Scope, refusal: Refusal, rpc_id: str | int | None = None) -> None:
    """Answer a request before any route sees it. `rpc_id` is the id of a request to MCP."""
    extra: dict[str, Any] = {} if rpc_id is None else {"id": rpc_id}
    if refusal.kind is ProblemKind.INVALID_INPUT:
        extra["errors"] = [{"field": refusal.field, "message": refusal.detail}]
    response = _make_response(scope["path"], refusal.kind, refusal.detail, extra, refusal.headers)
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body})


def install(app: Starlette, routes: Sequence[Route]) -> None:
    """Have `app` answer what it refuses as a problem; `routes` are all that it has.

    `RequestIdMiddleware` answers what nobody expected.
    """

    async def handle_known(request: Request, error: Exception) -> Response:
        assert isinstance(error, errors.KnowHubError)  # noqa: S101 -- Starlette's handlers are typed for any exception
        kind = next(kind for cls, kind in _KIND_OF_ERROR if isinstance(error, cls))
        extra = dict(error.extra)
        if isinstance(error, errors.InvalidInput):
            extra["errors"] = [asdict(field_error) for field_error in error.errors]
        headers = {_RETRY_AFTER: str(ceil(error.retry_after_s))} if isinstance(error, errors.TooManyRequests) else {}
        return _make_response(request.scope["path"], kind, error.detail, extra, headers)

    async def handle_malformed(request: Request, error: Exception) -> Response:
        extra = {"errors": [{"field": "body", "message": str(error)}]}
        return _make_response(request.scope["path"], ProblemKind.MALFORMED_JSON, "the body is not JSON", extra)

    async def handle_unrouted(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 -- as above
        return _answer_unrouted(routes, request, error)

    app.add_exception_handler(errors.KnowHubError, handle_known)
    app.add_exception_handler(MalformedJson, handle_malformed)
    app.add_exception_handler(HTTPException, handle_unrouted)


def _make_response(
    path: str, kind: ProblemKind, detail: str, extra: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> Response:
    body, media_type = make_problem(kind, detail, path, extra)
    retry = {_RETRY_AFTER: "1"} if kind in _TRIED_AGAIN else {}
    return Response(body, kind.status, {**retry, **(headers or {})}, media_type)


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
    kind = next(kind for kind in ProblemKind if kind.status == status)
    return _make_response(request.scope["path"], kind, detail, {}, headers)


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
