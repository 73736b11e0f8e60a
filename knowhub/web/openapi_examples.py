"""Examples of answers in the OpenAPI document: a field's own example, else a value that fits its name and type."""

from collections.abc import Mapping
from typing import Any

from knowhub.web.schemas.keyword_answers import KEYWORD_ID

# A list in a list in a list is empty: a subtree holds subtrees.
_MAX_DEPTH = 4
_MOMENT = "2026-11-22T09:30:00.000Z"
_OPERATION = "00000000-002a-8f7b-a334-0b287c9f51ba"
_MEMORY = "ctx://default/users/li/memories/preferences/editor"

_TEXTS: Mapping[str, str] = {
    "abstract": "Prefers dark mode in every editor.",
    "actor": "user:li",
    "account": "default",
    "agent_id": "crawler",
    "body": "print('hello')",
    "category": "preferences",
    "collection": "knowledge",
    "content": "Follow the next link of the Link header; never count pages.",
    "content_excerpt": "I prefer dark mode in every editor.",
    "content_type": "text/plain",
    "context_type": "memory",
    "created_by": "user:li",
    "description": "Ways to find rows fast.",
    "detail": "no record with id 'knowledge-20261122-a1c8'",
    "diff": "-old text\n+new text",
    "event_id": "evt-1",
    "id": "knowledge-20261122-a1c8",
    "info_id": "0d0f3a52-4f0c-4a52-ac3e-1c7a52b5d0ab",
    "job_id": "job-9f05",
    "key": "kh_3f1c_example",
    "knowledge_id": "knowledge-20261122-a1c8",
    "keyword_id": KEYWORD_ID,
    "match_reason": "words: editor",
    "message": "must not be blank",
    "message_id": "m1",
    "name": "索引",
    "next_cursor": "b3BhcXVl",
    "op": "save_knowledge",
    "operation_id": _OPERATION,
    "overview": "Editor and colour preferences.",
    "owner": "user:li",
    "parent_id": "root",
    "parent_uri": "ctx://default/users/li/memories/preferences",
    "path": "/api/knowledge",
    "principal": "user:li",
    "query": "editor",
    "reason": "the names say the same",
    "role": "writer",
    "session_id": "session-7",
    "source": "knowledge",
    "submitted_by": "user:li",
    "target_uri": "ctx://default/users/li/memories/profile",
    "task": "List all issues of a GitHub repository",
    "text": "Prefers dark mode.",
    "title": "Log in with Selenium",
    "token": "suoyin",
    "trace_id": "trace-1",
    "ts": "20261122T093000Z",
    "type": "tool",
    "undo_of": _OPERATION,
    "uri": _MEMORY,
    "user_id": "li",
    "version": "0.1.0",
    "visibility": "private",
}
_ITEMS: Mapping[str, str] = {
    "aliases": "btree",
    "categories": "preferences",
    "degraded": "embedder",
    "message_ids": "m1",
    "operation_ids": _OPERATION,
    "project_ids": "atlas",
    "resource_ids": "code/selenium/login",
    "scopes": "user:owner",
    "subjects": "knowledge-20261122-a1c8",
    "types": "tool",
    "undone": _OPERATION,
    "urls": "https://example.com/docs",
}
_MOMENTS = ("_at", "valid_from", "valid_to", "timestamp", "since")


def make_example(schema: Mapping[str, Any], schemas: Mapping[str, Any], name: str = "", depth: int = 0) -> Any:  # noqa: ANN401 -- any JSON
    """Return a value that fits a schema of the document. `schemas` are its components, `name` is the field's."""
    reference = schema.get("$ref")
    if reference is not None:
        return make_example(schemas[reference.rpartition("/")[2]], schemas, name, depth)
    for given in ("const", "example"):
        if given in schema:
            return schema[given]
    if chosen := schema.get("examples") or schema.get("enum"):
        return chosen[0]
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return make_example(choices[0], schemas, name, depth)
    return _make_example_of_type(schema, schemas, name, depth)


def make_problem_example(status: int, title: str, detail: str) -> dict[str, Any]:
    """Return the body of an error with this status."""
    errors = {"errors": [{"field": "task", "message": "must not be blank"}]} if status == 422 else {}  # noqa: PLR2004 -- a status
    kind = title.lower().replace(" ", "-")
    return {
        "type": f"urn:knowhub:problem:{kind}",
        "title": title,
        "status": status,
        "detail": detail,
        "instance": "/api/knowledge",
        **errors,
    }


def _make_example_of_type(schema: Mapping[str, Any], schemas: Mapping[str, Any], name: str, depth: int) -> Any:  # noqa: ANN401 -- any JSON
    kind = schema.get("type", "null")
    if isinstance(kind, list):
        # A type, or null.
        kind = kind[0]
    if kind == "object":
        fields = schema.get("properties", {})
        return {name: make_example(field, schemas, name, depth + 1) for name, field in fields.items()}
    if kind == "array":
        if depth >= _MAX_DEPTH:
            return []
        item = _ITEMS.get(name)
        return [item if item is not None else make_example(schema.get("items", {}), schemas, "", depth + 1)]
    if kind == "string":
        return _MOMENT if name.endswith(_MOMENTS) else _TEXTS.get(name, name or "text")
    return {"integer": max(int(schema.get("minimum", 1)), 1), "number": 0.5, "boolean": False}.get(kind)
