"""What undoing and erasing must know of nodes and of the messages of sessions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from knowhub.context import seen
from knowhub.context.commit import growth, session_node
from knowhub.context.commit.session_node import SumUp
from knowhub.context.edits import BY
from knowhub.context.model import GROWTH, NODES, PARTS, Category
from knowhub.context.ports import ContextView
from knowhub.context.uri import parent_of, parse
from knowhub.core.erasing import EraseRules
from knowhub.core.operation import Change, Row, is_live
from knowhub.core.undo import Bearers, Lookup, Path, RowRules

_LAST_USED = ("metadata", "stats", "last_used")
_COUNTERS: frozenset[Path] = frozenset(
    {
        ("metadata", "message_count"),
        ("metadata", "committed"),
        *(("metadata", "stats", name) for name in ("calls", "success", "failure", "total_seconds")),
    }
)
_LOGS: frozenset[Path] = frozenset(
    ("metadata", name) for name in ("source_refs", "message_ids", "sessions", "counted_calls", GROWTH)
)
# Of a session: what it is said to be about is made of what was said in it.
_QUOTING = frozenset({"abstract", "overview"})
_KEPT_OF_NODES = {"parent_uri", "context_type", "category", "owner_space"}
_KEPT_OF_PARTS = {"session_uri", "number", "role", "message_id", "timestamp"}
# No `created_at`: where a text was short, there is room for the word that it is erased.
_KEPT = frozenset(
    {"id", "owner", "scopes", "version", "updated_at", "deleted", "forgotten", *_KEPT_OF_NODES, *_KEPT_OF_PARTS}
)
_BLANKS: Mapping[str, Any] = {
    "abstract": "",
    "overview": "",
    "content": "",
    "name": "",
    "metadata": {},
    "relations": [],
}


def node_rules(sum_up: SumUp) -> RowRules:
    """Return the rules of nodes; `sum_up` says what a session is about of which a commit is taken back."""

    def parted(change: Change, current: Row, bearers: Bearers) -> Row | None:
        if current.get("category") == Category.SESSIONS:
            return session_node.parted(change, current, bearers, sum_up)
        return growth.parted(change, current)

    return RowRules(
        counters=_COUNTERS,
        logs=_LOGS,
        settled=frozenset({_LAST_USED}),
        balance=_last_used,
        parted=parted,
        told=_told,
        quoting=_QUOTING,
    )


def _last_used(change: Change, _now: Lookup, _undone: Mapping[tuple[str, str], Row], row: Row) -> Row:
    """Put back when a tool was last used where nobody has used it since."""
    before, after = _stats(change.before), _stats(change.after)
    stats = _stats(row)
    entries = (row.get("metadata") or {}).get(GROWTH)
    if stats and entries:
        return {**row, "metadata": {**row["metadata"], "stats": {**stats, "last_used": growth.last_used(entries)}}}
    if "last_used" not in before or "last_used" not in after or stats.get("last_used") != after["last_used"]:
        return row
    metadata = {**row["metadata"], "stats": {**stats, "last_used": before["last_used"]}}
    return {**row, "metadata": metadata}


def _stats(row: Row | None) -> Mapping[str, Any]:
    metadata = (row or {}).get("metadata") or {}
    stats: Mapping[str, Any] = metadata.get("stats") or {}
    return stats


def _session_of(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(NODES, row["session_uri"])]


def _without_session(lookup: Lookup, rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    sessions = dict.fromkeys(session for row in rows for session in _session_of(row))
    return [session for session in sessions if not is_live(lookup(*session))]


def _says(row: Mapping[str, Any]) -> str:
    texts = (str(row.get(name, "")) for name in ("content", "overview", "abstract"))
    return next((text for text in texts if text.strip()), "")


def _made_of(view: ContextView, row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name the live nodes that were extracted from a message, or from any of a session."""
    source, below = row["id"], f"{row['id']}/"
    heads = (head for head in view.context_heads() if not head.is_part)
    return [(NODES, head.uri) for head in heads if any(one == source or one.startswith(below) for one in head.sources)]


def _told(row: Row, sees: Callable[[str, str], bool]) -> Row:
    def is_seen(address: str) -> bool:
        return sees(PARTS if parse(address).is_part else NODES, address)

    return seen.told(str(row["id"]), row, is_seen)


PART_RULES = RowRules(references=_session_of, obstacles=_without_session, is_bound=True)

ERASE_NODE = EraseRules(
    noun="memory",
    kept=_KEPT,
    blanks=_BLANKS,
    says=_says,
    told=frozenset({"summary", "reason", "edges"}),
    below=PARTS,
    made_of=_made_of,
)
ERASE_PART = EraseRules(
    noun="message",
    kept=_KEPT,
    blanks=_BLANKS,
    says=_says,
    told=frozenset({"summary", "reason", "edges"}),
    quoted_by=lambda part_uri: (NODES, parent_of(part_uri)),
    quoting=_QUOTING,
    retells=lambda row: (row.get("metadata") or {}).get(BY) not in (None, "rules"),
    made_of=_made_of,
)
