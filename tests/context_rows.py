"""Rows of layered memories as a commit writes them, for tests below the commit."""

from collections.abc import Mapping, Sequence
from typing import Any

from knowhub.context import uri
from knowhub.context.model import NODES, PARTS, MemoryCategory
from knowhub.core import clock
from knowhub.core.operation import Committed, Draft, Operation, Write
from knowhub.stores.files.store import FileStore
from tests.builders import START

ACCOUNT = "default"
SPACE = "users/li"
OWNER = "user:li"


def node_row(address: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field
    """Return the row of a new node; its category follows from the URI."""
    parsed = uri.parse(address)
    category = parsed.category or MemoryCategory.EVENTS
    kind = {MemoryCategory.SESSIONS: "session", MemoryCategory.SKILLS: "skill"}.get(category, "memory")
    return {
        "id": address,
        "parent_uri": parsed.parent,
        "context_type": kind,
        "category": category.value,
        "owner_space": parsed.space,
        "abstract": f"What {parsed.name or 'it'} is about",
        "overview": "",
        "content": "",
        "metadata": {},
        "relations": [],
        "owner": OWNER,
        "scopes": ["user:owner"],
        "version": 1,
        "created_at": clock.iso(START),
        "updated_at": clock.iso(START),
    } | fields


def part_row(session_uri: str, number: int, content: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field
    """Return the row of a message; its message id is its number unless another is named."""
    message_id = fields.pop("message_id", f"m{number}")
    return {
        "id": uri.part_uri(session_uri, message_id or f"m-{number}"),
        "session_uri": session_uri,
        "number": number,
        "role": "user",
        "name": "",
        "content": content,
        "message_id": message_id,
        "timestamp": None,
        "owner": OWNER,
        "scopes": ["user:owner"],
        "version": 1,
        "created_at": clock.iso(START),
        "updated_at": clock.iso(START),
    } | fields


def session_at(name: str = "s1", account: str = ACCOUNT, space: str = SPACE) -> str:
    """Return the URI of a session."""
    return uri.node_uri(account, space, MemoryCategory.SESSIONS, name)


def memory_at(category: MemoryCategory, name: str = "", account: str = ACCOUNT, space: str = SPACE) -> str:
    """Return the URI of a node."""
    return uri.node_uri(account, space, category, name)


def draft(*rows: Mapping[str, Any], op: str = "commit_session") -> Draft:
    """Return one operation that writes these rows, each into its collection."""
    return Draft(op, [Write(PARTS if "session_uri" in row else NODES, str(row["id"]), row) for row in rows])


async def commit_rows(store: FileStore, *rows: Mapping[str, Any], reply: Mapping[str, Any] | None = None) -> Operation:
    """Commit one operation that writes these rows, and return it."""
    made = draft(*rows)
    outcome = await store.commit(ACCOUNT, OWNER, lambda _view: Draft(made.op, made.writes, reply))
    assert isinstance(outcome, Committed)
    return outcome.operation


def part_rows(session_uri: str, texts: Sequence[str], first: int = 0) -> list[dict[str, Any]]:
    """Return the rows of messages with these texts, in order."""
    return [part_row(session_uri, number, text) for number, text in enumerate(texts, first)]
