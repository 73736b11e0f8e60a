"""The OpenAPI document, built from the declarations of the routes and from the parts that all routes share."""

import inspect
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from knowhub.web.auth import API_KEY_HEADER, is_open
from knowhub.web.error_responses import get_title
from knowhub.web.openapi_examples import make_example, make_problem_example
from knowhub.web.request_guard import NDJSON
from knowhub.web.route import EditCall, Route, Routes, TextAnswer, WriteCall
from knowhub.web.schemas.parts import Problem

_PROBLEM_TEXTS = {
    400: "The body is not JSON.",
    401: "The server asks for API keys, and the request has no valid one.",
    403: "The caller may not do this, or the Host or Origin is foreign.",
    404: "It does not exist, or the caller may not see it.",
    408: "The body did not arrive in time.",
    409: "The present state does not allow it. For a wrong version, `current_version` names the present one.",
    413: "Larger than a documented limit.",
    415: "The content type is not accepted here.",
    422: "A field is wrong; `errors` names it.",
    431: "The head of the request is larger than a documented limit.",
    429: "Too many requests from this caller; `Retry-After` says how many seconds to wait.",
    503: "The server cannot do this now, is answering as many requests as it may, or holds as many bytes of them.",
    507: "The disk is full.",
}
_SCHEMES = {
    "key": {"type": "apiKey", "in": "header", "name": API_KEY_HEADER, "description": "An API key, or the root key."},
    "bearer": {"type": "http", "scheme": "bearer", "description": "The same key, as a bearer token."},
}
_RETRY_HEADER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
    "description": "A retry with the same key and body gets the first answer again, for 24 hours.",
}
_IF_MATCH_HEADER = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "pattern": r'^(\*|(W/)?"[0-9]{1,15}")$'},
    "description": "The version that you read, in quotes. Another version of the row is 409.",
}
_PATH_PARAMETERS = {
    "alias": "An alias of the keyword, in any spelling.",
    "event": "The event, as the host names it, such as `SessionStart`; case and hyphens do not matter.",
    "event_id": "The id of an outbox event.",
    "host": "`claude`, `codex` or `cursor`.",
    "key_id": "The id of an API key, not its text.",
    "keyword_id": "The id of a keyword; `root` is the root of the tree.",
    "knowledge_id": "The id of a knowledge record.",
    "operation_id": "The id of an operation, or of a group of operations.",
    "resource_id": "The id of a resource, which may hold slashes.",
    "ts": "The time stamp of a snapshot, as the list shows it.",
}
_QUERY_PARAMETERS = {
    "actor": "Only operations of this principal, such as `user:li`.",
    "content_type": "Only resources of this content type.",
    "cursor": "`next_cursor` of the page before.",
    "depth": "How many levels below the node to answer.",
    "layout": "`jsonl` for JSON lines, `workspace` for an archive of folders by owner.",
    "level": "L0 is the abstract, L1 the overview, L2 the whole content.",
    "limit": "At most so many results.",
    "min_score": "Only records with at least this score.",
    "op": "Only operations of this kind, such as `save_knowledge`.",
    "owner": "Only rows of this owner, such as `agent:crawler`.",
    "q": "The question, in words.",
    "scopes": "Only rows with one of these scopes, separated by commas.",
    "size": "How many results a page has.",
    "top_k": "At most so many results, the best first.",
    "types": "Only records of one of these types, separated by commas.",
    "uri": "The `ctx://` URI of a memory.",
}
_HEADERS = {
    "X-Request-ID": "The id of the request, as it was sent or new.",
    "X-Operation-Id": "The operation that this write made, if it made one.",
    "ETag": "The version of the row, in quotes.",
    "Location": "The path of the row.",
    "Retry-After": "Seconds to wait before the next try.",
}
_TEXT = {"type": "string"}
# Generators of clients send and answer it as it is.
_FILE = {"type": "string", "format": "binary"}

_COMPONENT = "#/components/schemas/{model}"
_ERRORS = (401, 403, 429, 431, 503)
_ERRORS_OF_BODIES = (400, 408, 413, 415, 422)
_ERRORS_OF_WRITES = (409, 507)


class _ModelSchemas(GenerateJsonSchema):
    """Describes models so that generators of clients make types: of pydantic's `anyOf` they often make an empty one."""

    def union_schema(self, schema: core_schema.UnionSchema) -> JsonSchemaValue:
        # A value fits one of them only: they differ in their kind.
        described = super().union_schema(schema)
        if "anyOf" in described:
            described["oneOf"] = described.pop("anyOf")
        return described

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        described = super().nullable_schema(schema)
        inner = described.get("anyOf", [{}])[0]
        if "type" not in inner or "enum" in inner:
            return described
        return {**inner, "type": [inner["type"], "null"]}


def install(app: FastAPI, groups: Sequence[Routes]) -> None:
    """Let `app` build its document of these routes, once."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _build(app, groups)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign] # -- FastAPI documents this way to extend it


def list_errors(route: Route) -> set[int]:
    """Return the statuses of the errors that a route can answer."""
    statuses = {*_ERRORS, *route.options.get("errors", ())}
    if route.keywords_in_path:
        # A name may be that of several keywords.
        statuses.add(409)
    if _is_write(route):
        statuses.update(_ERRORS_OF_WRITES)
    if route.method != "GET":
        statuses.update(_ERRORS_OF_BODIES)
    elif route.call is not None:
        statuses.add(HTTPStatus.UNPROCESSABLE_ENTITY)
    if route.param_convertors:
        statuses.add(HTTPStatus.NOT_FOUND)
    if is_open(route.path):
        statuses.remove(HTTPStatus.UNAUTHORIZED)
    return statuses


def _is_write(route: Route) -> bool:
    """Return whether a route may write."""
    return route.method != "GET" and not route.options.get("is_read_only", False)


def list_headers(route: Route, status: int) -> Sequence[str]:
    """List the headers of a successful answer, beside those of all answers.

    They follow from the answer's model: a write with an `operation_id` names it in a header too, a row with a `version`
    has it as `ETag`, and a route that creates such a row says where it is.
    """
    options = route.options.get("headers", {})
    if status in options:
        return options[status]
    answer = route.answers[status]
    fields = {} if isinstance(answer, TextAnswer) else answer.model.model_fields
    has_version = "version" in fields and fields["version"].annotation is int
    return [
        *(["X-Operation-Id"] if "operation_id" in fields and _is_write(route) else []),
        *(["ETag"] if has_version else []),
        *(["Location"] if has_version and HTTPStatus.CREATED in route.answers else []),
    ]


def _build(app: FastAPI, groups: Sequence[Routes]) -> dict[str, Any]:
    routes = [route for group in groups for route in group]
    schemas = _describe_models(routes)
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path_format, {})[route.method.lower()] = _describe_route(route, schemas)
    schemes: list[dict[str, list[str]]] = [{name: []} for name in _SCHEMES]
    is_key_required = app.state.settings.auth != "none"
    return {
        "openapi": app.openapi_version,
        "info": {
            "title": app.title,
            "summary": app.summary,
            "description": app.description,
            "version": app.version,
        },
        "servers": [{"url": "/", "description": "This server."}],
        "tags": [{"name": group.tag, "description": group.description} for group in groups if group.description],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": _SCHEMES},
        "security": schemes if is_key_required else [{}, *schemes],
    }


def _describe_models(routes: Sequence[Route]) -> dict[str, Any]:
    models: dict[type[BaseModel], None] = {Problem: None}
    for route in routes:
        if route.body is not None and route.options.get("examples"):
            models[route.body] = None
        for answer in route.answers.values():
            if not isinstance(answer, TextAnswer):
                models[answer.model] = None
    _, schema = models_json_schema(
        [(model, "validation") for model in models], ref_template=_COMPONENT, schema_generator=_ModelSchemas
    )
    described: dict[str, Any] = schema["$defs"]
    return described


def _describe_route(route: Route, schemas: Mapping[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "tags": [route.options["tag"]],
        "summary": route.options["summary"],
        "description": inspect.getdoc(route.endpoint),
        "operationId": route.name,
        "responses": {str(status): _describe_problem(status) for status in sorted(list_errors(route))},
    }
    for status in route.answers:
        operation["responses"][str(status)] = _describe_answer(route, status, schemas)
    if parameters := _describe_parameters(route):
        operation["parameters"] = parameters
    if examples := route.options.get("examples"):
        operation["requestBody"] = _describe_body(route, examples)
    if is_open(route.path):
        operation["security"] = []
    return operation


def _describe_parameters(route: Route) -> list[dict[str, Any]]:
    in_path = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _TEXT,
            "description": _PATH_PARAMETERS.get(name, f"The {name.replace('_', ' ')}."),
        }
        for name in route.param_convertors
    ]
    call = route.call or object
    headers = [_RETRY_HEADER] if issubclass(call, WriteCall) else []
    if issubclass(call, EditCall):
        headers.append(_IF_MATCH_HEADER)
    if route.query is None or route.call is None:
        return [*in_path, *headers]
    schema = route.query.model_json_schema()
    required = schema.get("required", ())
    in_query = []
    for name, described in schema["properties"].items():
        field = _inline_enums(described, schema.get("$defs", {}))
        description = field.pop("description", None) or _QUERY_PARAMETERS[name]
        field.pop("title", None)
        in_query.append(
            {"name": name, "in": "query", "required": name in required, "schema": field, "description": description}
        )
    return [*in_path, *sorted(in_query, key=lambda parameter: not parameter["required"]), *headers]


def _describe_body(route: Route, examples: Mapping[str, Any]) -> dict[str, Any]:
    cases = {name: {"value": value} for name, value in examples.items()}
    if route.body is None:
        # One type only: of several, a generated client sends the last, whatever the file is.
        schema = {**_FILE, "description": "A file as it is; JSON lines have an object a line."}
        return {"content": {NDJSON[0]: {"schema": schema, "examples": cases}}, "required": True}
    content = {"application/json": {"schema": _refer_to(route.body), "examples": cases}}
    return {"content": content, "required": not route.options.get("is_body_optional", False)}


def _describe_answer(route: Route, status: int, schemas: Mapping[str, Any]) -> dict[str, Any]:
    answer = route.answers[status]
    headers = _describe_headers(status, ["X-Request-ID", *list_headers(route, status)])
    if isinstance(answer, TextAnswer):
        content: dict[str, Any] = {
            media_type: {"schema": _FILE if answer.is_file else _TEXT} for media_type in answer.media_types
        }
        return {"description": answer.description, "headers": headers, "content": content}
    schema = _refer_to(answer.model)
    content = {"application/json": {"schema": schema, "example": make_example(schema, schemas)}}
    return {"description": answer.description, "headers": headers, "content": content}


def _describe_problem(status: int) -> dict[str, Any]:
    text = _PROBLEM_TEXTS[status]
    example = make_problem_example(status, get_title(status), text)
    content = {"application/problem+json": {"schema": _refer_to(Problem), "example": example}}
    return {"description": text, "headers": _describe_headers(status, ["X-Request-ID"]), "content": content}


def _describe_headers(status: int, names: Sequence[str]) -> dict[str, Any]:
    if status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
        names = [*names, "Retry-After"]
    return {name: {"description": _HEADERS[name], "schema": _TEXT} for name in names}


def _refer_to(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _COMPONENT.format(model=model.__name__)}


def _inline_enums(field: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Replace references by the enumerations that they name, and drop null: a parameter has neither."""
    if "$ref" in field:
        rest = {name: value for name, value in field.items() if name != "$ref"}
        return {**definitions[field["$ref"].rpartition("/")[2]], **rest}
    kinds = [kind for kind in field.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        rest = {name: value for name, value in field.items() if name not in ("anyOf", "default")}
        return _inline_enums({**kinds[0], **rest}, definitions)
    if "items" in field:
        return {**field, "items": _inline_enums(field["items"], definitions)}
    return dict(field)
