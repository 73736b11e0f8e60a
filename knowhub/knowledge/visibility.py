"""What a caller sees of a record: finding it by id, hiding the ids of other records, and explaining the access."""

import json
from typing import Any

from knowhub.core import scopes
from knowhub.core.errors import Conflict, NotFound, VersionConflict
from knowhub.core.operation import Row, View
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.model import KNOWLEDGE, KnowledgeSummary
from knowhub.knowledge.table import find_by_dedup_key, find_record, find_replacements

_NAMING_FIELDS = ("supersedes", "merged_into")
_MAX_HOPS = 1_000


def find_readable(view: View, ctx: RequestContext, knowledge_id: str) -> KnowledgeSummary:
    """Return the summary of a visible record, even if it was merged. Raises NotFound."""
    summary = find_record(view, knowledge_id)
    if summary is None or not summary.can_read or not ctx.sees(summary.audience):
        raise NotFound.of("knowledge", knowledge_id)
    return summary


def get_readable_row(view: View, ctx: RequestContext, knowledge_id: str, expected: int | None) -> Row:
    """Return the row of a visible record, even if it was merged. Raises NotFound, VersionConflict."""
    summary = find_readable(view, ctx, knowledge_id)
    if expected is not None and expected != summary.version:
        raise VersionConflict(summary.version)
    return view.get(KNOWLEDGE, knowledge_id) or {}


def get_current_row(view: View, ctx: RequestContext, knowledge_id: str, expected: int | None) -> Row:
    """Return the row of a record, or of its survivor if it was merged. Raises NotFound, VersionConflict.

    `expected` is the version of the named record.
    """
    get_readable_row(view, ctx, knowledge_id, expected)
    survivor = follow_merges(view, knowledge_id)
    if survivor is None:
        raise NotFound.of("knowledge", knowledge_id)
    return get_readable_row(view, ctx, survivor.id, None)


def follow_merges(view: View, knowledge_id: str) -> KnowledgeSummary | None:
    """Return the summary of a live record, or of its final survivor; None if neither is live."""
    summary = find_record(view, knowledge_id)
    for _ in range(_MAX_HOPS):
        if summary is None or summary.merged_into is None:
            return summary if summary is not None and summary.live else None
        summary = find_record(view, summary.merged_into)
    # Only rows that no merge wrote, such as two that name each other, form an endless chain.
    return None


def list_visible_replacements(view: View, ctx: RequestContext, knowledge_id: str) -> list[KnowledgeSummary]:
    """Return the live records that supersede a record, as far as the caller sees them: no hidden one may hide it.

    In a circle none supersedes another: each would be hidden. Imports of earlier versions may have stored one.
    """
    newer = find_replacements(view, knowledge_id)
    if not newer:
        return []
    older = _list_superseded(view, knowledge_id)
    return [summary for summary in newer if summary.id not in older and ctx.sees(summary.audience)]


def get_superseded_id(view: View, knowledge_id: str) -> str | None:
    """Return the id that a live record supersedes; None for a record that is gone, too."""
    summary = find_record(view, knowledge_id)
    return summary.supersedes if summary is not None and summary.live else None


def _list_superseded(view: View, knowledge_id: str) -> set[str]:
    """Return the ids of a record and of all that it supersedes, itself or through others."""
    found: set[str] = set()
    current: str | None = knowledge_id
    while current is not None and current not in found and len(found) < _MAX_HOPS:
        found.add(current)
        current = get_superseded_id(view, current)
    return found


def list_visible_duplicates(view: View, ctx: RequestContext, dedup_key: bytes) -> list[KnowledgeSummary]:
    """Return the live records with this key that the caller sees, oldest first."""
    return [summary for summary in find_by_dedup_key(view, dedup_key) if ctx.sees(summary.audience)]


def check_not_merged(row: Row) -> None:
    """Raise Conflict for a merged record: nobody would find a change there."""
    into = row.get("merged_into")
    if into is not None:
        raise Conflict(f"this record was merged into {into!r}; change that one", {"merged_into": into})


def render_record_json(view: View, ctx: RequestContext, summary: KnowledgeSummary) -> bytes:
    """Return a record as JSON text. Usually this is the stored text, which is not parsed."""
    raw = view.raw(KNOWLEDGE, summary.id) or b""
    if ctx.sees_everything or all(_is_visible(view, ctx, item) for item in (summary.supersedes, summary.merged_into)):
        return raw
    return json.dumps(redact_row(view, ctx, json.loads(raw)), ensure_ascii=False, separators=(",", ":")).encode()


def redact_row(view: View, ctx: RequestContext, row: Row) -> Row:
    """Return a row with null for the id of each record that the caller does not see."""
    if ctx.sees_everything:
        return row
    hidden = {name: None for name in _NAMING_FIELDS if not _is_visible(view, ctx, row.get(name))}
    return {**row, **hidden} if hidden else row


def describe_access(ctx: RequestContext, summary: KnowledgeSummary, visibility: str) -> dict[str, Any]:
    """Return the readers of a record that the caller sees, each with its reason, and the caller's own rights."""
    can_edit = ctx.can_edit(summary.owner)
    rights = ["read", "add_evidence", *(("edit", "set_score", "evolve", "delete", "erase") if can_edit else ())]
    others = sorted(summary.audience - {summary.owner}, key=scopes.order)
    seen_by = scopes.best(summary.scopes, summary.owner, ctx.visible)
    if ctx.sees_everything:
        seen_by = "local_principal" if ctx.is_root else "admin"
    return {
        "knowledge_id": summary.id,
        "owner": summary.owner,
        "scopes": list(summary.scopes),
        "visibility": visibility,
        "readers": [
            {"scope": summary.owner, "because": "owner"},
            *({"scope": scope, "because": "scope"} for scope in others),
        ],
        "caller": {
            "principal": ctx.actor,
            "seen_by": seen_by,
            "is_owner": summary.owner in ctx.own,
            "rights": rights,
        },
    }


def _is_visible(view: View, ctx: RequestContext, knowledge_id: str | None) -> bool:
    if knowledge_id is None:
        return True
    summary = find_record(view, knowledge_id)
    # An id that never existed reveals nothing: an import may bring a record before the record that it supersedes.
    return summary is None or ctx.sees(summary.audience)
