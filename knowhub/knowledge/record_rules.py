"""Pure functions on rows: new rows, edits, checks, and the rules for erasing."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from knowhub.core import clock, scopes
from knowhub.core.collection import Lookup
from knowhub.core.erasing import EraseRules
from knowhub.core.errors import InvalidInput
from knowhub.core.operation import Row, Write, next_of, next_version
from knowhub.core.owned_rows import make_owned_fields
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import evidence, table
from knowhub.knowledge.model import (
    DEFAULT_SCORE,
    KNOWLEDGE,
    RECORD_FIELDS,
    SOURCE_FIELDS,
    ImportedKnowledge,
    NewKnowledge,
)
from knowhub.knowledge.table import find_by_dedup_key

_FRESH_EVALUATION = {"helpful": 1, "harmful": 0, "confidence": 0.5, "helpful_history": [], "harmful_history": []}
_SENT_FIELDS = [item.name for item in RECORD_FIELDS if item.name in NewKnowledge.__dataclass_fields__]
_get_sent_values = attrgetter(*_SENT_FIELDS)


def make_row(new: NewKnowledge, row_id: str, now: float, ctx: RequestContext) -> dict[str, Any]:
    """Return the row of a new record. Raises InvalidInput and Forbidden."""
    check_content(new.task, new.content)
    check_valid_range(new.valid_from, new.valid_to)
    owned = make_owned_fields(ctx, new.scopes or None, new.owner, "a record", now)
    message_id = new.message_id or new.source.get("message_id") or None
    source = {name: new.source.get(name) for name in SOURCE_FIELDS} | {"message_id": message_id}
    return {
        "id": row_id,
        **dict(zip(_SENT_FIELDS, _get_sent_values(new), strict=True)),
        "message_id": message_id,
        "types": list(dict.fromkeys(new.types)),
        "type": new.types[0],
        "tags": dict(new.tags),
        **owned,
        "visibility": new.visibility or scopes.derive_visibility(owned["scopes"]),
        "resource_ids": list(dict.fromkeys(new.resource_ids)),
        "source": _with_defaults(source, owned["created_at"]),
        "eval": {"score": new.score, **_FRESH_EVALUATION},
    }


def make_imported_row(line: ImportedKnowledge, row_id: str, before: Row | None, now: float, ctx: RequestContext) -> Row:
    """Return the row of an imported line. Evidence and creation time are kept; the version rises."""
    evaluation = {"score": line.record.score or DEFAULT_SCORE, **_FRESH_EVALUATION, **line.evaluation}
    evaluation["confidence"] = line.evaluation.get("confidence", evidence.compute_confidence(evaluation, now))
    row = make_row(line.record, row_id, now, ctx)
    created_at = line.created_at or row["created_at"]
    return row | {"eval": evaluation, "version": next_version(before), "created_at": created_at}


def apply_patch(row: Row, patch: Mapping[str, Any], now: float) -> Row | None:
    """Return `row` with the fields of `patch`; None if nothing changes.

    A source is patched field by field. Raises InvalidInput for a blank record, or a validity that ends too early.
    """
    changed = {**row, **patch}
    if "source" in patch:
        changed["source"] = _with_defaults({**row["source"], **patch["source"]}, row["created_at"])
        changed["message_id"] = changed["source"]["message_id"]
    if "types" in patch:
        changed["type"] = patch["types"][0]
    if "scopes" in patch and list(patch["scopes"]) != list(row["scopes"]):
        changed["visibility"] = scopes.derive_visibility(patch["scopes"])
    if changed == row:
        return None
    check_content(changed["task"], changed["content"])
    check_valid_range(changed["valid_from"], changed["valid_to"])
    return next_of(changed, row, now)


def write(row: Row) -> Write:
    """Return the write of a row."""
    return Write(KNOWLEDGE, row["id"], row)


def check_content(task: str, content: str) -> None:
    """Raise InvalidInput if both task and content are blank."""
    if not task.strip() and not content.strip():
        raise InvalidInput.of("content", "task and content are both blank; one of them must say something")


def check_valid_range(valid_from: str | None, valid_to: str | None) -> None:
    """Raise InvalidInput if the validity ends before it begins."""
    if valid_from and valid_to and clock.parse_iso(valid_to) <= clock.parse_iso(valid_from):
        raise InvalidInput.of("valid_to", "must be later than valid_from")


def validate(_lookup: Lookup, rows: Sequence[Row]) -> None:
    """Raise InvalidInput for a row that no write can make."""
    for row in rows:
        check_content(row["task"], row["content"])
        check_valid_range(row["valid_from"], row["valid_to"])


def _with_defaults(source: Mapping[str, Any], moment: str) -> dict[str, Any]:
    return {
        **source,
        "category": source["category"] or "exp",
        "urls": list(source["urls"] or ()),
        "timestamp": source["timestamp"] or moment,
    }


ERASE_RULES = EraseRules(
    noun="knowledge",
    kept=frozenset(item.name for item in RECORD_FIELDS if item.is_kept),
    blanks={item.name: item.blank for item in RECORD_FIELDS if not item.is_kept},
    texts=("content", "task"),
    optional=("source", "resource_ids", "message_id"),
    # These fields of a reply may quote the content.
    reply_fields=frozenset({"diff", "detail", "reason"}),
    merge_field="merged_into",
    find_equal=lambda view, row: [summary.id for summary in find_by_dedup_key(view, table.make_dedup_key(row))],
)
