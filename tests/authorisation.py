"""Every route, what a request to it needs, and how such a request looks: the table of the authorisation matrix."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

import orjson

Ids: TypeAlias = Mapping[str, str]
"""The rows that a request is about, by what they are called in paths; those of another account or nobody as well."""


class Need(StrEnum):
    """What it takes to be answered."""

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
class Asked:
    """A request to a route that does what it is for. `tells` is the id that those find in the answer who see its row.

    `uses` are rows beside those that the path names. A `body` that is bytes is JSON lines. Where `reader_is_told`, a
    reader may do the same with evidence of its own, and is refused as somebody who sees the row. Where it `is_private`,
    what is told of is seen by its owner and by who sees everything.
    """

    need: Need
    status: int = 200
    query: str = ""
    body: Callable[[Ids], Any] | None = None
    uses: tuple[str, ...] = ()
    tells: str | None = None
    reader_is_told: bool = False
    is_private: bool = False


def asked(need: Need, status: int = 200, **how: Any) -> list[Asked]:  # noqa: ANN401 -- any field of a request
    """Return the only request of a route."""
    return [Asked(need, status, **how)]


def sent(**body: Any) -> Callable[[Ids], Any]:  # noqa: ANN401 -- any JSON value
    """Return a body that names no row."""
    return lambda _ids: body


def line(ids: Ids) -> bytes:
    """Return an import of one record, of somebody and for somebody whom no key names."""
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

ROWS: Final[dict[tuple[str, str], list[Asked]]] = {
    ("GET", "/"): asked(Need.NOTHING, 307),
    ("GET", "/docs"): asked(Need.NOTHING),
    ("GET", "/openapi.json"): asked(Need.NOTHING),
    ("GET", "/health"): asked(Need.NOTHING),
    ("GET", "/ready"): asked(Need.NOTHING),
    ("GET", "/version"): asked(Need.NOTHING),
    ("GET", "/metrics"): asked(Need.ROOT),
    # Knowledge
    ("POST", KNOWLEDGE): asked(Need.WRITER, 201, body=sent(content="saved by the matrix")),
    ("POST", f"{KNOWLEDGE}/batch"): asked(Need.WRITER, 201, body=sent(items=[{"content": "saved by the matrix"}])),
    ("POST", "/mcp"): asked(
        Need.KEY,
        body=sent(
            jsonrpc="2.0", id=1, method="tools/call", params={"name": "recall", "arguments": {"query": "matrix"}}
        ),
        uses=(_KNOWLEDGE,),
        tells=_KNOWLEDGE,
    ),
    ("GET", f"{KNOWLEDGE}/search"): asked(Need.KEY, query="q=matrix&top_k=100", uses=(_KNOWLEDGE,), tells=_KNOWLEDGE),
    ("GET", KNOWLEDGE): asked(Need.KEY, query="limit=1000", uses=(_KNOWLEDGE,), tells=_KNOWLEDGE),
    ("GET", f"{KNOWLEDGE}/export"): asked(Need.KEY, uses=(_KNOWLEDGE,), tells=_KNOWLEDGE),
    ("GET", f"{KNOWLEDGE}/profile"): asked(Need.KEY),
    ("POST", f"{KNOWLEDGE}/import"): asked(Need.ADMIN, body=line),
    ("POST", f"{KNOWLEDGE}/batch_update"): asked(
        Need.KEY,
        body=lambda ids: {"feedback_list": [{"knowledge_id": ids[_KNOWLEDGE], "is_helpful": True}]},
        uses=(_KNOWLEDGE,),
    ),
    ("POST", f"{KNOWLEDGE}/outcome"): asked(Need.KEY, body=sent(session_id="s", goal_id="g", is_helpful=True)),
    ("POST", f"{KNOWLEDGE}/slim"): asked(Need.WRITER, body=sent(dry_run=True))
    + asked(Need.ROOT, 202, query="wait=false", body=sent(dry_run=True)),
    ("POST", f"{KNOWLEDGE}/extract"): asked(Need.WRITER, body=sent(messages=_SPOKEN, dry_run=True)),
    ("GET", f"{KNOWLEDGE}/{{knowledge_id}}"): asked(Need.SIGHT, tells=_KNOWLEDGE),
    ("PATCH", f"{KNOWLEDGE}/{{knowledge_id}}"): asked(Need.OWNERSHIP, body=sent(content="mended", version=1)),
    ("PUT", f"{KNOWLEDGE}/{{knowledge_id}}"): asked(Need.SIGHT, body=sent(**_CASE))
    + asked(Need.OWNERSHIP, body=sent(update_score=4))
    + asked(Need.OWNERSHIP, body=sent(evolve_feedback="it moved", **_CASE)),
    ("POST", f"{KNOWLEDGE}/{{knowledge_id}}/feedback"): asked(Need.SIGHT, body=sent(**_CASE))
    + asked(Need.OWNERSHIP, body=sent(update_score=4)),
    ("DELETE", f"{KNOWLEDGE}/{{knowledge_id}}"): asked(Need.OWNERSHIP) + asked(Need.OWNERSHIP, query="erase=true"),
    ("GET", f"{KNOWLEDGE}/{{knowledge_id}}/history"): asked(Need.SIGHT),
    ("GET", f"{KNOWLEDGE}/{{knowledge_id}}/access"): asked(Need.SIGHT, tells=_KNOWLEDGE),
    # Keywords
    ("GET", f"{KEYWORDS}/search"): asked(Need.KEY, query="q=matrix%20tree", uses=(_KEYWORD,), tells=_KEYWORD),
    ("GET", KEYWORDS): asked(Need.KEY, query="limit=1000", uses=(_KEYWORD,), tells=_KEYWORD),
    ("POST", KEYWORDS): asked(Need.WRITER, 201, body=sent(**_PLAIN_KEYWORD)),
    ("POST", f"{KEYWORDS}/batch"): asked(Need.WRITER, 201, body=sent(items=[{"name": "saved by the matrix"}])),
    ("GET", f"{KEYWORDS}/export"): asked(Need.KEY, uses=(_KEYWORD,), tells=_KEYWORD),
    ("POST", f"{KEYWORDS}/import"): asked(
        Need.WRITER, body=lambda _ids: b'{"kind":"keyword","name":"by the matrix"}\n'
    ),
    ("GET", f"{KEYWORDS}/missed"): asked(Need.KEY),
    # Without a model nothing is missed.
    ("POST", f"{KEYWORDS}/missed"): asked(Need.WRITER, 404, body=sent(id="missed-none")),
    ("DELETE", f"{KEYWORDS}/missed"): asked(Need.WRITER, 404, query="id=missed-none"),
    ("GET", f"{KEYWORDS}/metrics"): asked(Need.KEY, uses=(_KEYWORD,)),
    ("POST", f"{KEYWORDS}/reorganize"): asked(Need.WRITER, body=sent())
    + asked(Need.ROOT, 202, query="wait=false", body=sent()),
    ("POST", f"{KEYWORDS}/reorganize/apply"): asked(Need.WRITER, body=_plan),
    ("GET", f"{KEYWORDS}/{{keyword_id}}"): asked(Need.SIGHT, tells=_KEYWORD),
    ("PATCH", f"{KEYWORDS}/{{keyword_id}}"): asked(Need.OWNERSHIP, body=sent(description="mended")),
    ("DELETE", f"{KEYWORDS}/{{keyword_id}}"): asked(Need.OWNERSHIP),
    ("GET", f"{KEYWORDS}/{{keyword_id}}/children"): asked(Need.SIGHT),
    ("GET", f"{KEYWORDS}/{{keyword_id}}/path"): asked(Need.SIGHT, tells=_KEYWORD),
    ("GET", f"{KEYWORDS}/{{keyword_id}}/subtree"): asked(Need.SIGHT, tells=_KEYWORD),
    ("GET", f"{KEYWORDS}/{{keyword_id}}/infos"): asked(Need.SIGHT, uses=(_INFO,), tells=_INFO),
    ("POST", f"{KEYWORDS}/{{keyword_id}}/move"): asked(
        Need.OWNERSHIP, body=lambda ids: {"new_parent_id": ids[_OTHER]}, uses=(_OTHER,)
    ),
    ("POST", f"{KEYWORDS}/{{keyword_id}}/merge"): asked(
        Need.OWNERSHIP, body=lambda ids: {"into": ids[_OTHER]}, uses=(_OTHER,)
    ),
    ("POST", f"{KEYWORDS}/{{keyword_id}}/aliases"): asked(Need.OWNERSHIP, body=sent(alias="another of the matrix")),
    ("DELETE", f"{KEYWORDS}/{{keyword_id}}/aliases/{{alias}}"): asked(Need.OWNERSHIP),
    # Infos
    ("POST", INFOS): asked(Need.WRITER, 201, body=sent(content="saved by the matrix")),
    ("POST", f"{INFOS}/batch"): asked(Need.WRITER, 201, body=sent(items=[{"content": "saved by the matrix"}])),
    ("GET", INFOS): asked(Need.KEY, query="limit=1000", uses=(_INFO,), tells=_INFO),
    ("GET", f"{INFOS}/{{info_id}}"): asked(Need.SIGHT, tells=_INFO),
    ("PATCH", f"{INFOS}/{{info_id}}"): asked(Need.OWNERSHIP, body=sent(content="mended")),
    ("DELETE", f"{INFOS}/{{info_id}}"): asked(Need.OWNERSHIP) + asked(Need.OWNERSHIP, query="erase=true"),
    ("GET", f"{INFOS}/{{info_id}}/keywords"): asked(Need.SIGHT, tells=_KEYWORD, uses=(_KEYWORD,)),
    ("PUT", f"{INFOS}/{{info_id}}/keywords/{{keyword_id}}"): asked(Need.OWNERSHIP, body=sent(relation="EXAMPLE")),
    ("DELETE", f"{INFOS}/{{info_id}}/keywords/{{keyword_id}}"): asked(Need.OWNERSHIP),
    # Resources
    ("POST", RESOURCE): asked(Need.WRITER, 201, body=lambda ids: {"id": ids["fresh"], "body": "x"}, uses=("fresh",)),
    ("GET", RESOURCE): asked(Need.KEY, query="limit=1000", uses=(_RESOURCE,), tells=_RESOURCE),
    ("GET", f"{RESOURCE}/{{resource_id:path}}"): asked(Need.SIGHT, tells=_RESOURCE)
    + asked(Need.REVEAL, query="reveal=true"),
    ("PATCH", f"{RESOURCE}/{{resource_id:path}}"): asked(Need.OWNERSHIP, body=sent(title="mended")),
    ("DELETE", f"{RESOURCE}/{{resource_id:path}}"): asked(Need.OWNERSHIP) + asked(Need.OWNERSHIP, query="erase=true"),
    # Memories
    ("POST", f"{CONTEXT}/sessions/commit"): asked(
        Need.WRITER, 201, body=lambda ids: {"session_id": ids["fresh"], "messages": [_SAID]}, uses=("fresh",)
    ),
    ("GET", f"{CONTEXT}/search"): asked(
        Need.KEY, query="q=matrix&categories=sessions&top_k=100", uses=(_MEMORY,), tells=_MEMORY, is_private=True
    ),
    ("GET", f"{CONTEXT}/read"): asked(Need.PRIVATE, query="uri={memory_uri}", uses=(_MEMORY,), tells=_MEMORY),
    ("GET", f"{CONTEXT}/nodes"): asked(Need.PRIVATE, query="uri={memory_uri}", uses=(_MEMORY,), tells=_MEMORY),
    ("PATCH", f"{CONTEXT}/nodes"): asked(
        Need.PRIVATE_OWNERSHIP, query="uri={memory_uri}", body=sent(abstract="mended"), uses=(_MEMORY,)
    ),
    ("DELETE", f"{CONTEXT}/nodes"): asked(Need.PRIVATE_OWNERSHIP, query="uri={memory_uri}", uses=(_MEMORY,))
    + asked(Need.PRIVATE_OWNERSHIP, query="uri={memory_uri}&erase=true", uses=(_MEMORY,)),
    ("POST", f"{CONTEXT}/nodes"): asked(
        Need.WRITER,
        201,
        body=lambda ids: {"category": "events", "name": ids["fresh"], "content": "x"},
        uses=("fresh",),
    ),
    ("POST", f"{CONTEXT}/nodes/move"): asked(
        Need.PRIVATE_OWNERSHIP, body=lambda ids: {"uri": ids[_NOTE], "to": f"{ids[_NOTE]}-moved"}, uses=(_NOTE,)
    ),
    ("PUT", f"{CONTEXT}/relations"): asked(
        Need.PRIVATE_OWNERSHIP, body=lambda ids: {"from_uri": ids[_NOTE], "to_uri": ids[_OTHER_NOTE]}, uses=_NOTES
    ),
    ("DELETE", f"{CONTEXT}/relations"): asked(
        Need.PRIVATE_OWNERSHIP, query="from_uri={note_uri}&to_uri={other_note_uri}", uses=_NOTES
    ),
    # Each is named again, as read or as missing.
    ("POST", f"{CONTEXT}/read"): asked(Need.KEY, body=lambda ids: {"uris": [ids[_NOTE]]}, uses=(_NOTE,)),
    ("GET", f"{CONTEXT}/grep"): asked(
        Need.KEY, query="q=matrix&limit=1000", uses=(_NOTE,), tells=_NOTE, is_private=True
    ),
    ("GET", f"{CONTEXT}/children"): asked(
        Need.KEY, query="recursive=true", uses=(_MEMORY,), tells=_MEMORY, is_private=True
    ),
    ("GET", f"{CONTEXT}/profile"): asked(Need.KEY),
    ("GET", f"{CONTEXT}/sessions"): asked(
        Need.KEY, query="limit=1000", uses=(_MEMORY,), tells=_MEMORY, is_private=True
    ),
    ("GET", f"{CONTEXT}/sessions/{{session_id}}"): asked(Need.OWN_SESSION, tells=_SESSION),
    ("GET", f"{CONTEXT}/outbox"): asked(Need.KEY),
    # Without an embedder nothing waits: to whom it may concern, there is no such event.
    ("POST", f"{CONTEXT}/outbox/{{event_id}}/retry"): asked(Need.WRITER, 404, body=sent()),
    ("POST", f"{CONTEXT}/sessions/{{session_id}}/distill"): asked(Need.OWN_SPACE, body=sent(dry_run=True)),
    ("GET", "/api/recall"): asked(Need.KEY, query="q=matrix&top_k=100", uses=(_KNOWLEDGE,), tells=_KNOWLEDGE),
    ("POST", "/api/hooks/{host}/{event}"): asked(Need.KEY, body=sent(session_id="s", prompt="matrix")),
    # Operations
    ("GET", "/api/operations"): asked(Need.KEY, query="limit=1000", uses=(_KNOWLEDGE,), tells=_KNOWLEDGE),
    ("GET", "/api/operations/{operation_id}"): asked(Need.SIGHT, tells=_KNOWLEDGE, uses=(_KNOWLEDGE,)),
    ("POST", "/api/operations/{operation_id}/undo"): asked(Need.OWNERSHIP, body=sent(), reader_is_told=True),
    # Upkeep
    ("POST", "/api/maintenance/reindex"): asked(Need.ROOT),
    ("POST", "/api/maintenance/compact"): asked(Need.ROOT),
    ("POST", "/api/maintenance/snapshots"): asked(Need.ROOT, 201),
    ("GET", "/api/maintenance/snapshots"): asked(Need.ROOT),
    ("DELETE", "/api/maintenance/snapshots/{ts}"): asked(Need.ROOT),
    ("POST", "/api/maintenance/snapshots/{ts}/restore"): asked(Need.ROOT),
    ("GET", "/api/maintenance/audit"): asked(Need.ROOT),
    ("GET", "/api/jobs/{job_id}"): asked(Need.ROOT),
    ("DELETE", "/api/jobs/{job_id}"): asked(Need.ROOT),
    # Keys
    ("POST", "/api/admin/keys"): asked(Need.ADMIN, 201, body=sent(user_id="matrix")),
    ("GET", "/api/admin/keys"): asked(Need.ADMIN),
    ("POST", "/api/admin/keys/{key_id}/rotate"): asked(Need.ADMIN),
    ("DELETE", "/api/admin/keys/{key_id}"): asked(Need.ADMIN),
}
