"""What routes take from a request beside its model: the hub, the retry key, the expected version."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import orjson
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from knowhub.bootstrap import Hub
from knowhub.core.errors import InvalidInput
from knowhub.core.operation import IdempotencyKey
from knowhub.core.request_context import RequestContext
from knowhub.web import auth
from knowhub.web.middleware import BODY
from knowhub.web.schemas.parts import CallerIds, CommaSeparated, DeleteBody, DeleteParams, EraseBody

# Who is calling is told by `auth`; routes find it here beside all that they take from a request.
context_of = auth.context_of

ModelT = TypeVar("ModelT", bound=BaseModel)

_MAX_KEY_CHARS = 200
_ASKER_DIGITS = 32
# No scope: each has a colon in it, or is `public`.
_EVERYTHING = "*"
# Beyond 64 bits there are 19 digits at least; orjson makes such integers floats.
_LONG_INTEGER = b"0" * 19
_DIGITS_AS_ZEROS = bytes(ord("0") if chr(byte).isascii() and chr(byte).isdigit() else ord(" ") for byte in range(256))
_ENTITY_TAG = re.compile(r'^(?:W/)?"(\d{1,15})"$')


def body(request: Request, model: type[ModelT], *, beside_query: bool = False) -> ModelT:
    """Parse the JSON body into its model; no body at all is an empty object. Raises RequestValidationError.

    FastAPI's own parsing of bodies and queries costs as much as all the rest of a request (measured, see
    docs/decisions.md), so `body` and `query` do it; `openapi.parameters` and `openapi.examples` describe the models.
    """
    raw = raw_body(request)
    if request.scope["query_string"] and not beside_query:
        raise InvalidInput.of("query", "takes no parameters here; send them as fields of the body")
    try:
        return model.model_validate(_parsed(raw) if raw else {})
    except ValidationError as problem:
        raise _invalid("body", problem) from None


def raw_body(request: Request) -> bytes:
    """Return the body as it was sent; the guard before the routes has read it within its limits."""
    raw: bytes = request.scope.get(BODY, b"")
    return raw


def query(request: Request, model: type[ModelT], *, beside_body: bool = False) -> ModelT:
    """Parse the query into its model; a list may come as several parameters of one name.

    Raises RequestValidationError, and InvalidInput for a second value where one is wanted. A body is refused where
    the route has none: who named a caller there would be taken for somebody else.
    """
    if not beside_body and raw_body(request):
        raise InvalidInput.of("body", "is not read here; send its fields as query parameters")
    raw = request.scope["query_string"]
    pairs: dict[str, str] = {}
    for name, value in _decoded(raw) if raw else ():
        if name in pairs and not _is_list(model, name):
            raise InvalidInput.of(name, "comes more than once in the query")
        pairs[name] = f"{pairs[name]},{value}" if name in pairs else value
    try:
        return model.model_validate(pairs)
    except ValidationError as problem:
        raise _invalid("query", problem) from None


def hub_of(request: Request) -> Hub:
    """Return the app's hub."""
    hub: Hub = request.app.state.hub
    return hub


def retry_key(request: Request, ctx: RequestContext) -> IdempotencyKey | None:
    """Return the request's `Idempotency-Key` with the hash of its body. Raises InvalidInput."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not 0 < len(key) <= _MAX_KEY_CHARS:
        raise InvalidInput.of("Idempotency-Key", f"must have 1 to {_MAX_KEY_CHARS} characters")
    # What is asked is body and query together; the same key for another question is an error. Whether the answer is
    # waited for is no part of it: who lost the answer to a wait may ask again for a job.
    pairs = request.scope["query_string"].split(b"&")
    asked_in_query = b"&".join(pair for pair in pairs if not pair.startswith(b"wait="))
    asked = sha256(raw_body(request) + b"\0" + asked_in_query).hexdigest()
    # Not request.url, which is put together from headers, quoted anew and without the line breaks of a path.
    return IdempotencyKey(_asker(ctx), request.method, request.scope["path"], key, asked)


def edit_of(request: Request, sent: CallerIds) -> tuple[RequestContext, int | None, IdempotencyKey | None]:
    """Return who writes, the version that they have read where they name one, and the retry key. Raises InvalidInput.

    What was `sent` is the body or the query; of these only some have a `version`.
    """
    ctx = context_of(request, sent)
    return ctx, _expected_version(request, getattr(sent, "version", None)), retry_key(request, ctx)


def deletion_of(request: Request) -> tuple[RequestContext, int | None, IdempotencyKey | None]:
    """Return who deletes, which version, and the retry key. Raises InvalidInput and RequestValidationError.

    Few clients send a body with a DELETE; who does may name the caller and the version there.
    """
    return edit_of(request, body(request, DeleteBody) if raw_body(request) else query(request, CallerIds))


@dataclass(frozen=True, slots=True)
class RowDeletion:
    """Who deletes, which version, the retry key, and whether the content is to be gone for good."""

    ctx: RequestContext
    version: int | None
    key: IdempotencyKey | None
    is_erasing: bool


def deletion_or_erasing_of(request: Request) -> RowDeletion:
    """Return what `deletion_of` does, and whether to erase, where a route can. Raises as that."""
    sent = body(request, EraseBody) if raw_body(request) else query(request, DeleteParams)
    return RowDeletion(*edit_of(request, sent), sent.erase)


async def erased(request: Request, collection: str, row_id: str, deletion: RowDeletion) -> Response:
    """Erase a row, and answer with what else holds what it said."""
    erasures = hub_of(request).erasures
    done = await erasures.erase(deletion.ctx, collection, row_id, deletion.version, deletion.key)
    told = {"erased": True, "other_rows": done.other_rows, "snapshots": done.snapshots, "pending": done.pending}
    return written(told, done.operation_id)


class JsonText(Response):
    """An answer that is JSON text already; its headers are written as they are sent, once."""

    def __init__(self, text: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.status_code = status
        self.background = None
        self.body = text
        self.raw_headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(text)),
            *((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in (headers or {}).items()),
        ]


def json_response(
    body: Any,  # noqa: ANN401 -- any JSON value
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Answer with a JSON value, written by orjson."""
    return JsonText(orjson.dumps(body), status, headers or {})


def written(
    body: Mapping[str, Any], operation_id: str | None, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer a write: its body with the operation, which stands in a header too."""
    extra = dict(headers or {})
    if operation_id is not None:
        extra["X-Operation-Id"] = operation_id
    return json_response({**body, "operation_id": operation_id}, status, extra)


def _asker(ctx: RequestContext) -> str:
    """Name who gets the first answer again: who is the same and sees the same; two users may call as one agent."""
    seen = [_EVERYTHING] if ctx.visible is None else sorted(ctx.visible)
    told = "\x1f".join([*sorted(ctx.own), "", *seen])
    return f"{ctx.actor}#{sha256(told.encode()).hexdigest()[:_ASKER_DIGITS]}"


def _expected_version(request: Request, in_body: int | None) -> int | None:
    """Return the version that `If-Match` or the body names; None when any will do. Raises InvalidInput."""
    header = request.headers.get("if-match")
    if header is None or header.strip() == "*":
        return in_body
    match = _ENTITY_TAG.match(header.strip())
    if match is None:
        raise InvalidInput.of("If-Match", 'must be a version in quotes, such as "3", or *')
    version = int(match[1])
    if in_body is not None and in_body != version:
        raise InvalidInput.of("version", "differs from If-Match; send one of them")
    return version


def _decoded(raw: bytes) -> list[tuple[str, str]]:
    """Split a query into names and values; both are UTF-8, percent-encoded or not."""
    try:
        return parse_qsl(raw.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise InvalidInput.of("query", "is not UTF-8") from None


def _is_list(model: type[BaseModel], name: str) -> bool:
    field = model.model_fields.get(name)
    return field is not None and CommaSeparated in field.metadata


def _parsed(raw: bytes) -> Any:  # noqa: ANN401 -- any JSON value
    # A search for 19 digits with a regular expression would take five times as long (1 ms for 1 MB as it is).
    if _LONG_INTEGER in raw.translate(_DIGITS_AS_ZEROS):
        return _loosely_parsed(raw)
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return _loosely_parsed(raw)


def _loosely_parsed(raw: bytes) -> Any:  # noqa: ANN401 -- any JSON value
    """Parse what is JSON but holds no text or number that could be kept, so that its field can be named."""
    try:
        # As text: of bytes, json would also take UTF-16, in which brackets hide from the depth that is allowed.
        return json.loads(raw.decode(), parse_int=_integer)
    except ValueError as problem:
        fault = {"type": "json_invalid", "loc": ("body",), "msg": str(problem), "input": {}}
        raise RequestValidationError([fault]) from None


def _integer(digits: str) -> int:
    # Beyond 64 bits it is refused, whatever it is; Python refuses to convert one of thousands of digits.
    return int(digits[:32])


def _invalid(place: str, problem: ValidationError) -> RequestValidationError:
    return RequestValidationError([{**one, "loc": (place, *one["loc"])} for one in problem.errors()])
