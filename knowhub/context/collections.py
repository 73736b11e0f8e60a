"""The collections of memories: nodes, and the messages of sessions, which are parts of a node."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from knowhub.context import queries
from knowhub.context.edits import BY
from knowhub.context.model import NODES, PARTS, READING
from knowhub.context.queries import list_memories
from knowhub.context.reading import READ_FIELDS, UNREAD_COUNTS, reads_messages
from knowhub.context.uri import parent_of, parse, redact_node
from knowhub.core.collection import Collection, Computed, OnDelete, Reference, UndoneRow
from knowhub.core.erasing import OWNED_FIELDS, EraseRules
from knowhub.core.operation import Row, View

_KEPT_OF_NODES = {"parent_uri", "context_type", "category", "owner_space"}
_KEPT_OF_PARTS = {"session_uri", "number", "role", "message_id", "timestamp"}
# No `created_at`: where a text was short, there is room for the word that it is erased.
_KEPT = (OWNED_FIELDS - {"created_at"}) | {"forgotten"} | _KEPT_OF_NODES | _KEPT_OF_PARTS
_TEXTS = ("content", "overview", "abstract")
_BLANKS: Mapping[str, Any] = {
    "abstract": "",
    "overview": "",
    "content": "",
    "name": "",
    "metadata": {},
    "relations": [],
}


def _find_extracted_nodes(view: View, row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name the live nodes that were extracted from a message, or from any of a session."""
    source, below = row["id"], f"{row['id']}/"
    summaries = (summary for summary in list_memories(view) if not summary.is_part)
    return [
        (NODES, summary.uri)
        for summary in summaries
        if any(item == source or item.startswith(below) for item in summary.sources)
    ]


def redact(row: Row, sees: Callable[[str, str], bool]) -> Row:
    """Return a node without references to sessions that the caller does not see."""

    def is_seen(address: str) -> bool:
        return sees(PARTS if parse(address).is_part else NODES, address)

    return redact_node(str(row["id"]), row, is_seen)


def _keep_reading(undone: UndoneRow) -> Row:
    current = undone.current(NODES, str(undone.row["id"])) or {}
    reading = (current.get("metadata") or {}).get(READING)
    after = undone.row["metadata"].get(READING)
    if reading is None or after is None:
        return undone.row
    kept = {name: reading[name] for name in READ_FIELDS if name in reading}
    return {**undone.row, "metadata": {**undone.row["metadata"], READING: {**after, **kept}}}


ERASE_NODE = EraseRules(
    noun="memory",
    kept=_KEPT,
    blanks=_BLANKS,
    texts=_TEXTS,
    reply_fields=frozenset({"summary", "reason", "edges"}),
    below=PARTS,
    find_derived=_find_extracted_nodes,
)
ERASE_PART = EraseRules(
    noun="message",
    kept=_KEPT,
    blanks=_BLANKS,
    texts=_TEXTS,
    reply_fields=frozenset({"summary", "reason", "edges"}),
    quoted_by=lambda part_uri: (NODES, parent_of(part_uri)),
    quoting=frozenset({"abstract", "overview"}),
    counted_as="message_count",
    is_paraphrase=lambda row: (row.get("metadata") or {}).get(BY) not in (None, "rules"),
    find_derived=_find_extracted_nodes,
)


_STATS: Final = ("calls", "success", "failure", "total_seconds")
_LISTS: Final = ("source_refs", "message_ids", "sessions", "counted_calls")

COLLECTIONS: Final = (
    Collection(
        NODES,
        counters=frozenset(
            {
                ("metadata", "message_count"),
                ("metadata", "committed"),
                *(("metadata", "stats", name) for name in _STATS),
                *(("metadata", READING, name) for name in UNREAD_COUNTS),
            }
        ),
        append_only=frozenset(("metadata", name) for name in _LISTS),
        computed=(
            Computed(frozenset({("metadata", "stats", "last_used")})),
            Computed(frozenset(("metadata", READING, name) for name in READ_FIELDS), _keep_reading),
        ),
        redact=redact,
        erase=ERASE_NODE,
        table=queries.NODE_TABLE,
    ),
    Collection(
        PARTS,
        references=(Reference("session_uri", NODES, OnDelete.FORBID, is_required=True),),
        is_derived=reads_messages,
        erase=ERASE_PART,
        table=queries.PART_TABLE,
    ),
)
