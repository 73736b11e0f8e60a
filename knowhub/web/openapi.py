"""The OpenAPI document: what every route says of itself, and the parts that all of them share."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from knowhub.web.auth import API_KEY_HEADER, is_open
from knowhub.web.schemas.examples import BODIES
from knowhub.web.schemas.parts import Problem

TAGS = [
    {"name": "knowledge", "description": "Experience records: what an agent learnt, with its evidence."},
    {"name": "keywords", "description": "The keyword tree: names, exact in microseconds, and a model where they miss."},
    {"name": "infos", "description": "What hangs on the tree: texts, each linked to any number of keywords."},
    {"name": "resources", "description": "Code, credentials, cookies and other texts, part of them sealed."},
    {"name": "memories", "description": "Sessions word for word, and what is remembered of them, in layers."},
    {"name": "operations", "description": "The log as history: who did what, and undo of each of it."},
    {"name": "keys", "description": "Who may call: API keys, their holders and their roles."},
    {"name": "upkeep", "description": "Indexes, long work, health and metrics."},
]

_PROBLEM_TEXTS = {
    400: "The body is not JSON.",
    401: "Where keys are asked for: the request brings none that opens anything.",
    403: "The caller may not do this, or the Host or Origin is foreign.",
    404: "There is no such thing, or the caller may not see it.",
    408: "The body did not arrive in time.",
    409: "The state does not allow it; on a version, `current_version` names the one that stands.",
    413: "Over a documented limit.",
    415: "Another content type is wanted.",
    422: "A field is wrong; `errors` names it.",
    429: "The caller has asked more often than it may; `Retry-After` says for how long.",
    503: "The server cannot do this now, or answers as many requests as it may.",
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
    "description": "A retry with the same key and body answers the first answer again, for 24 hours.",
}
_IF_MATCH_HEADER = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "pattern": r'^(\*|(W/)?"[0-9]{1,15}")$'},
    "description": "The version that you read, in quotes; 409 when it has moved on.",
}

_COMPONENT = "#/components/schemas/{model}"
_OPTIONAL_BODIES = ("undo", "reorganize", "link", "slim", "retry", "distill")
_BODY_MODELS: dict[str, type[BaseModel]] = {}

RETRY: dict[str, Any] = {"parameters": [_RETRY_HEADER]}
IF_MATCH: dict[str, Any] = {"parameters": [_RETRY_HEADER, _IF_MATCH_HEADER]}


def parameters(model: type[BaseModel], *, headers: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Describe a query model, and the headers of RETRY or IF_MATCH beside it, for `openapi_extra`."""
    schema = model.model_json_schema()
    described = [
        {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "schema": _inlined(field, schema.get("$defs", {})),
        }
        for name, field in schema["properties"].items()
    ]
    return {"parameters": [*described, *(headers or {}).get("parameters", ())]}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the errors that a route can answer with; 401, 403, 429 and 503 are every route's."""
    return {
        status: {
            "description": _PROBLEM_TEXTS[status],
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in (401, 403, 429, 503, *statuses)
    }


def answers(status: int, model: type[BaseModel], description: str = "") -> dict[int | str, dict[str, Any]]:
    """Describe a good answer."""
    return {status: {"model": model, "description": description or "Done."}}


def content(status: int, description: str, *media_types: str) -> dict[int | str, dict[str, Any]]:
    """Describe a good answer that is not JSON."""
    return {status: {"description": description, "content": {media_type: {} for media_type in media_types}}}


def examples(name: str, model: type[BaseModel] | None = None) -> dict[str, Any]:
    """Describe a route's body: its model, and the examples of that name, each of which a test executes."""
    content_type, cases = BODIES[name]
    content: dict[str, Any] = {"examples": cases, "schema": {"type": "string", "description": "A JSON object a line."}}
    if model is not None:
        _BODY_MODELS[model.__name__] = model
        content["schema"] = {"$ref": _COMPONENT.format(model=model.__name__)}
    return {"requestBody": {"content": {content_type: content}, "required": name not in _OPTIONAL_BODIES}}


WRITES = problems(400, 408, 409, 413, 415, 422, 507)


def install(app: FastAPI) -> None:
    """Have `app` build its document once, with what FastAPI cannot know."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            built = get_openapi(
                title=app.title,
                version=app.version,
                summary=app.summary,
                description=app.description,
                routes=app.routes,
                tags=TAGS,
                servers=[{"url": "/", "description": "This hub."}],
            )
            schemas = built.setdefault("components", {}).setdefault("schemas", {})
            schemas.pop("HTTPValidationError", None)
            schemas.pop("ValidationError", None)
            models: list[type[BaseModel]] = [Problem, *_BODY_MODELS.values()]
            for model in models:
                schema = model.model_json_schema(ref_template=_COMPONENT)
                schemas |= schema.pop("$defs", {})
                schemas[model.__name__] = schema
            _secure(built, is_asking=app.state.settings.auth != "none")
            app.openapi_schema = built
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign] # FastAPI's own way to extend the document


def _secure(document: dict[str, Any], *, is_asking: bool) -> None:
    """Describe how keys are sent, and, where they are asked for, what is open without one."""
    document["components"]["securitySchemes"] = _SCHEMES
    if is_asking:
        document["security"] = [{name: []} for name in _SCHEMES]
    for path, methods in document["paths"].items():
        if is_open(path):
            for described in methods.values():
                described["responses"].pop("401", None)
                if is_asking:
                    described["security"] = []


def _inlined(field: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Put enumerations where they are referred to, and drop null: a parameter has neither components nor null."""
    if "$ref" in field:
        rest = {name: value for name, value in field.items() if name != "$ref"}
        return {**definitions[field["$ref"].rpartition("/")[2]], **rest}
    kinds = [kind for kind in field.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        rest = {name: value for name, value in field.items() if name not in ("anyOf", "default")}
        return _inlined({**kinds[0], **rest}, definitions)
    if "items" in field:
        return {**field, "items": _inlined(field["items"], definitions)}
    return field
