"""The table of the authorisation matrix: every route, what a request to it needs, and an example request."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

import orjson

Ids: TypeAlias = Mapping[str, str]
"""Ids of the rows of a request, by their names in paths. They may belong to another account, or to no row."""


class Need(StrEnum):
    """What a caller needs to get an answer."""

    NOTHING = "nothing"
    KEY = "any key; answered is what its holder sees"
    SIGHT = "to see the row"
    WRITER = "a writer's key"
    REVEAL = "to see the row by a scope of one's own, and a writer's key"
    OWNERSHIP = "to own the row, and a writer's key"
    PRIVATE = "to own the row, which nobody else sees but who sees everything"
    PRIVATE_OWNERSHIP = "to own such a row, and a writer's key"
    OWN_SPACE = "a writer's key of whose space it is"
    OWN_SESSION = "a key of whose session it is"
    ADMIN = "an admin's key"
    ROOT = "the root key"


@dataclass(frozen=True, slots=True)
class RouteRequest:
    """A valid request to a route. `tells` names an id that is in the answer for callers who may see its row.

    `uses` are rows that the path does not name. A `body` of bytes is JSON lines. With `reader_is_told` a reader may
    send its own evidence, and gets 403 for a row that it sees. With `is_private` only the owner, and callers who see
    everything, see the row.
    """

    need: Need
    status: int = 200
    query: str = ""
    body: Callable[[Ids], Any] | None = None
    uses: tuple[str, ...] = ()
    tells: str | None = None
    reader_is_told: bool = False
    is_private: bool = False


def expect(need: Need, status: int = 200, **how: Any) -> list[RouteRequest]:  # noqa: ANN401 -- any field of a request
    """Return the single request of a route."""
    return [RouteRequest(need, status, **how)]


def make_body(**body: Any) -> Callable[[Ids], Any]:  # noqa: ANN401 -- any JSON value
    """Return a body that names no row."""
    return lambda _ids: body


def make_import_line(ids: Ids) -> bytes:
    """Return an import of one record, whose owner and scope no key names."""
    del ids
    return orjson.dumps({"content": "imported", "owner": "user:nobody", "scopes": ["team:nobodys"]}) + b"\n"


def _plan(ids: Ids) -> dict[str, Any]:
    del ids
    return {"plan": {"steps": []}}


KNOWLEDGE, KEYWORDS, INFOS, RESOURCE = "/api/knowledge", "/api/keywords", "/api/infos", "/api/resource"
_NOTE, _OTHER_NOTE = _NOTES = ("note_uri", "other_note_uri")
_KNOWLEDGE, _KEYWORD, _INFO = "knowledge_id", "keyword_id", "info_id"
_OTHER, _RESOURCE = "other_keyword_id", "resource_id"
_PLAIN_KEYWORD = {"name": "saved by the matrix", "llm_auto_place": False, "allow_duplicate": True}
CONTEXT = "/api/context"
_MEMORY, _SESSION, _EVENT = "memory_uri", "session_id", "event_id"
_SAID = {"role": "user", "content": "said by the matrix"}
_CASE = {"add_helpful_case": {"task": "matrix"}}
_SPOKEN = [{"role": "user", "content": "请以后都用中文回答我。"}]

ROWS: Final[dict[tuple[str, str], list[RouteRequest]]] = {
    ("GET", "/"): expect(Need.NOTHING, 307),
    ("GET", "/docs"): expect(Need.NOTHING),
    ("GET", "/openapi.json"): expect(Need.NOTHING),
    ("GET", "/health"): expect(Need.NOTHING),
    ("GET", "/ready"): expect(Need.NOTHING),
    ("GET", "/version"): expect(Need.NOTHING),
    ("GET", "/metrics"): expect(Need.ROOT),
    # Knowledge
    ("POST", KNOWLEDGE): expect(Need.WRITER, 201, body=make_body(content="saved by the matrix")),
    ("POST", f"{KNOWLEDGE}/batch"): expect(
        Need.WRITER, 201, body=make_body(items=[{"content": "saved by the matrix"}])
    ),
    ("POST", "/mcp"): expect(
        Need.KEY,
        body=make_body(
            jsonrpc="2.0", id=1, method="tools/call", params={"name": "recall", "arguments": {"query": "matrix"}}
        ),
        uses=(_KNOWLEDGE,),
        tells=_KNOWLEDGE,
    ),
    ("GET", f"{KNOWLEDGE}/search"): expect(Need.KEY, query="q=matrix&top_k=100", uses=(_KNOWLEDGE,), tells=_KNOWLEDGE),
    ("GET", KNOWLEDGE): expect(Need.KEY, query="limit=1000", uses=(_KNOWLEDGE,), tells=_KNOWLEDGE),
    ("GET", f"{KNOWLEDGE}/export"): expect(Need.KEY, uses=(_KNOWLEDGE,), tells=_KNOWLEDGE),
    ("GET", f"{KNOWLEDGE}/profile"): expect(Need.KEY),
    ("POST", f"{KNOWLEDGE}/import"): expect(Need.ADMIN, body=make_import_line),
    ("POST", f"{KNOWLEDGE}/batch_update"): expect(
        Need.KEY,
        body=lambda ids: {"feedback_list": [{"knowledge_id": ids[_KNOWLEDGE], "is_helpful": True}]},
        uses=(_KNOWLEDGE,),
    ),
    ("POST", f"{KNOWLEDGE}/outcome"): expect(Need.KEY, body=make_body(session_id="s", goal_id="g", is_helpful=True)),
    ("POST", f"{KNOWLEDGE}/slim"): expect(Need.WRITER, body=make_body(dry_run=True))
    + expect(Need.ROOT, 202, query="wait=false", body=make_body(dry_run=True)),
    ("POST", f"{KNOWLEDGE}/extract"): expect(Need.WRITER, body=make_body(messages=_SPOKEN, dry_run=True)),
    ("GET", f"{KNOWLEDGE}/{{knowledge_id}}"): expect(Need.SIGHT, tells=_KNOWLEDGE),
    ("PATCH", f"{KNOWLEDGE}/{{knowledge_id}}"): expect(Need.OWNERSHIP, body=make_body(content="mended", version=1)),
    ("PUT", f"{KNOWLEDGE}/{{knowledge_id}}"): expect(Need.SIGHT, body=make_body(**_CASE))
    + expect(Need.OWNERSHIP, body=make_body(update_score=4))
    + expect(Need.OWNERSHIP, body=make_body(evolve_feedback="it moved", **_CASE)),
    ("POST", f"{KNOWLEDGE}/{{knowledge_id}}/feedback"): expect(Need.SIGHT, body=make_body(**_CASE))
    + expect(Need.OWNERSHIP, body=make_body(update_score=4)),
    ("DELETE", f"{KNOWLEDGE}/{{knowledge_id}}"): expect(Need.OWNERSHIP) + expect(Need.OWNERSHIP, query="erase=true"),
    ("GET", f"{KNOWLEDGE}/{{knowledge_id}}/history"): expect(Need.SIGHT),
    ("GET", f"{KNOWLEDGE}/{{knowledge_id}}/access"): expect(Need.SIGHT, tells=_KNOWLEDGE),
    # Keywords
    ("GET", f"{KEYWORDS}/search"): expect(Need.KEY, query="q=matrix%20tree", uses=(_KEYWORD,), tells=_KEYWORD),
    ("GET", KEYWORDS): expect(Need.KEY, query="limit=1000", uses=(_KEYWORD,), tells=_KEYWORD),
    ("POST", KEYWORDS): expect(Need.WRITER, 201, body=make_body(**_PLAIN_KEYWORD)),
    ("POST", f"{KEYWORDS}/batch"): expect(Need.WRITER, 201, body=make_body(items=[{"name": "saved by the matrix"}])),
    ("GET", f"{KEYWORDS}/export"): expect(Need.KEY, uses=(_KEYWORD,), tells=_KEYWORD),
    ("POST", f"{KEYWORDS}/import"): expect(
        Need.WRITER, body=lambda _ids: b'{"kind":"keyword","name":"by the matrix"}\n'
    ),
    ("GET", f"{KEYWORDS}/missed"): expect(Need.KEY),
    # Without a model nothing is missed.
    ("POST", f"{KEYWORDS}/missed"): expect(Need.WRITER, 404, body=make_body(id="missed-none")),
    ("DELETE", f"{KEYWORDS}/missed"): expect(Need.WRITER, 404, query="id=missed-none"),
    ("GET", f"{KEYWORDS}/metrics"): expect(Need.KEY, uses=(_KEYWORD,)),
    ("POST", f"{KEYWORDS}/reorganize"): expect(Need.WRITER, body=make_body())
    + expect(Need.ROOT, 202, query="wait=false", body=make_body()),
    ("POST", f"{KEYWORDS}/reorganize/apply"): expect(Need.WRITER, body=_plan),
    ("GET", f"{KEYWORDS}/{{keyword_id}}"): expect(Need.SIGHT, tells=_KEYWORD),
    ("PATCH", f"{KEYWORDS}/{{keyword_id}}"): expect(Need.OWNERSHIP, body=make_body(description="mended")),
    ("DELETE", f"{KEYWORDS}/{{keyword_id}}"): expect(Need.OWNERSHIP),
    ("GET", f"{KEYWORDS}/{{keyword_id}}/children"): expect(Need.SIGHT),
    ("GET", f"{KEYWORDS}/{{keyword_id}}/path"): expect(Need.SIGHT, tells=_KEYWORD),
    ("GET", f"{KEYWORDS}/{{keyword_id}}/subtree"): expect(Need.SIGHT, tells=_KEYWORD),
    ("GET", f"{KEYWORDS}/{{keyword_id}}/infos"): expect(Need.SIGHT, uses=(_INFO,), tells=_INFO),
    ("POST", f"{KEYWORDS}/{{keyword_id}}/move"): expect(
        Need.OWNERSHIP, body=lambda ids: {"new_parent_id": ids[_OTHER]}, uses=(_OTHER,)
    ),
    ("POST", f"{KEYWORDS}/{{keyword_id}}/merge"): expect(
        Need.OWNERSHIP, body=lambda ids: {"into": ids[_OTHER]}, uses=(_OTHER,)
    ),
    ("POST", f"{KEYWORDS}/{{keyword_id}}/aliases"): expect(
        Need.OWNERSHIP, body=make_body(alias="another of the matrix")
    ),
    ("DELETE", f"{KEYWORDS}/{{keyword_id}}/aliases/{{alias}}"): expect(Need.OWNERSHIP),
    # Infos
    ("POST", INFOS): expect(Need.WRITER, 201, body=make_body(content="saved by the matrix")),
    ("POST", f"{INFOS}/batch"): expect(Need.WRITER, 201, body=make_body(items=[{"content": "saved by the matrix"}])),
    ("GET", INFOS): expect(Need.KEY, query="limit=1000", uses=(_INFO,), tells=_INFO),
    ("GET", f"{INFOS}/{{info_id}}"): expect(Need.SIGHT, tells=_INFO),
    ("PATCH", f"{INFOS}/{{info_id}}"): expect(Need.OWNERSHIP, body=make_body(content="mended")),
    ("DELETE", f"{INFOS}/{{info_id}}"): expect(Need.OWNERSHIP) + expect(Need.OWNERSHIP, query="erase=true"),
    ("GET", f"{INFOS}/{{info_id}}/keywords"): expect(Need.SIGHT, tells=_KEYWORD, uses=(_KEYWORD,)),
    ("PUT", f"{INFOS}/{{info_id}}/keywords/{{keyword_id}}"): expect(Need.OWNERSHIP, body=make_body(relation="EXAMPLE")),
    ("DELETE", f"{INFOS}/{{info_id}}/keywords/{{keyword_id}}"): expect(Need.OWNERSHIP),
    # Resources
    ("POST", RESOURCE): expect(Need.WRITER, 201, body=lambda ids: {"id": ids["fresh"], "body": "x"}, uses=("fresh",)),
    ("GET", RESOURCE): expect(Need.KEY, query="limit=1000", uses=(_RESOURCE,), tells=_RESOURCE),
    ("GET", f"{RESOURCE}/{{resource_id:path}}"): expect(Need.SIGHT, tells=_RESOURCE)
    + expect(Need.REVEAL, query="reveal=true"),
    ("PATCH", f"{RESOURCE}/{{resource_id:path}}"): expect(Need.OWNERSHIP, body=make_body(title="mended")),
    ("DELETE", f"{RESOURCE}/{{resource_id:path}}"): expect(Need.OWNERSHIP) + expect(Need.OWNERSHIP, query="erase=true"),
    # Memories
    ("POST", f"{CONTEXT}/sessions/commit"): expect(
        Need.WRITER, 201, body=lambda ids: {"session_id": ids["fresh"], "messages": [_SAID]}, uses=("fresh",)
    ),
    ("GET", f"{CONTEXT}/search"): expect(
        Need.KEY, query="q=matrix&categories=sessions&top_k=100", uses=(_MEMORY,), tells=_MEMORY, is_private=True
    ),
    ("GET", f"{CONTEXT}/read"): expect(Need.PRIVATE, query="uri={memory_uri}", uses=(_MEMORY,), tells=_MEMORY),
    ("GET", f"{CONTEXT}/nodes"): expect(Need.PRIVATE, query="uri={memory_uri}", uses=(_MEMORY,), tells=_MEMORY),
    ("PATCH", f"{CONTEXT}/nodes"): expect(
        Need.PRIVATE_OWNERSHIP, query="uri={memory_uri}", body=make_body(abstract="mended"), uses=(_MEMORY,)
    ),
    ("DELETE", f"{CONTEXT}/nodes"): expect(Need.PRIVATE_OWNERSHIP, query="uri={memory_uri}", uses=(_MEMORY,))
    + expect(Need.PRIVATE_OWNERSHIP, query="uri={memory_uri}&erase=true", uses=(_MEMORY,)),
    ("POST", f"{CONTEXT}/nodes"): expect(
        Need.WRITER,
        201,
        body=lambda ids: {"category": "events", "name": ids["fresh"], "content": "x"},
        uses=("fresh",),
    ),
    ("POST", f"{CONTEXT}/nodes/move"): expect(
        Need.PRIVATE_OWNERSHIP, body=lambda ids: {"uri": ids[_NOTE], "to": f"{ids[_NOTE]}-moved"}, uses=(_NOTE,)
    ),
    ("PUT", f"{CONTEXT}/relations"): expect(
        Need.PRIVATE_OWNERSHIP, body=lambda ids: {"from_uri": ids[_NOTE], "to_uri": ids[_OTHER_NOTE]}, uses=_NOTES
    ),
    ("DELETE", f"{CONTEXT}/relations"): expect(
        Need.PRIVATE_OWNERSHIP, query="from_uri={note_uri}&to_uri={other_note_uri}", uses=_NOTES
    ),
    # Each is named again, as read or as missing.
    ("POST", f"{CONTEXT}/read"): expect(Need.KEY, body=lambda ids: {"uris": [ids[_NOTE]]}, uses=(_NOTE,)),
    ("GET", f"{CONTEXT}/grep"): expect(
        Need.KEY, query="q=matrix&limit=1000", uses=(_NOTE,), tells=_NOTE, is_private=True
    ),
    ("GET", f"{CONTEXT}/children"): expect(
        Need.KEY, query="recursive=true", uses=(_MEMORY,), tells=_MEMORY, is_private=True
    ),
    ("GET", f"{CONTEXT}/profile"): expect(Need.KEY),
    ("GET", f"{CONTEXT}/sessions"): expect(
        Need.KEY, query="limit=1000", uses=(_MEMORY,), tells=_MEMORY, is_private=True
    ),
    ("GET", f"{CONTEXT}/sessions/{{session_id}}"): expect(Need.OWN_SESSION, tells=_SESSION),
    ("GET", f"{CONTEXT}/outbox"): expect(Need.KEY),
    # Without an embedder nothing waits: to whom it may concern, there is no such event.
    ("POST", f"{CONTEXT}/outbox/{{event_id}}/retry"): expect(Need.WRITER, 404, body=make_body()),
    ("POST", f"{CONTEXT}/sessions/{{session_id}}/distill"): expect(Need.OWN_SPACE, body=make_body(dry_run=True)),
    ("GET", "/api/recall"): expect(Need.KEY, query="q=matrix&top_k=100", uses=(_KNOWLEDGE,), tells=_KNOWLEDGE),
    ("POST", "/api/hooks/{host}/{event}"): expect(Need.KEY, body=make_body(session_id="s", prompt="matrix")),
    # Operations
    ("GET", "/api/operations"): expect(Need.KEY, query="limit=1000", uses=(_KNOWLEDGE,), tells=_KNOWLEDGE),
    ("GET", "/api/operations/{operation_id}"): expect(Need.SIGHT, tells=_KNOWLEDGE, uses=(_KNOWLEDGE,)),
    ("POST", "/api/operations/{operation_id}/undo"): expect(Need.OWNERSHIP, body=make_body(), reader_is_told=True),
    # Upkeep
    ("POST", "/api/maintenance/reindex"): expect(Need.ROOT),
    ("POST", "/api/maintenance/compact"): expect(Need.ROOT),
    ("POST", "/api/maintenance/snapshots"): expect(Need.ROOT, 201),
    ("GET", "/api/maintenance/snapshots"): expect(Need.ROOT),
    ("DELETE", "/api/maintenance/snapshots/{ts}"): expect(Need.ROOT),
    ("POST", "/api/maintenance/snapshots/{ts}/restore"): expect(Need.ROOT),
    ("GET", "/api/maintenance/audit"): expect(Need.ROOT),
    ("GET", "/api/jobs/{job_id}"): expect(Need.ROOT),
    ("DELETE", "/api/jobs/{job_id}"): expect(Need.ROOT),
    # Keys
    ("POST", "/api/admin/keys"): expect(Need.ADMIN, 201, body=make_body(user_id="matrix")),
    ("GET", "/api/admin/keys"): expect(Need.ADMIN),
    ("POST", "/api/admin/keys/{key_id}/rotate"): expect(Need.ADMIN),
    ("DELETE", "/api/admin/keys/{key_id}"): expect(Need.ADMIN),
}
