"""What services return, as the JSON of answers: for routes, MCP and the command line.

A view holds values that orjson writes: copying them into dictionaries first would cost as much as a search.
"""

from dataclasses import asdict
from typing import Any

import orjson
from pydantic import BaseModel

from knowhub.context.commit.rule_extraction import UNREAD
from knowhub.context.commit_model import CommitResult
from knowhub.context.events import OutboxEvent
from knowhub.core.clock import iso
from knowhub.core.owned_rows import SavedRow
from knowhub.core.store_results import SnapshotEntry
from knowhub.identity.model import ApiKey, IssuedKey
from knowhub.identity.service import IdentityService
from knowhub.keywords.exchange import TreeImportResult
from knowhub.keywords.model import Dropped, KeywordSearchResult
from knowhub.knowledge.evolve.slimming import SlimResult
from knowhub.knowledge.exchange import ImportResult
from knowhub.operations.model import RestoreResult
from knowhub.web.schemas.context_answers import CommitAnswer
from knowhub.web.schemas.knowledge_answers import SlimAnswer


def make_view(model: type[BaseModel], source: object, **others: Any) -> dict[str, Any]:  # noqa: ANN401 -- any JSON
    """Return the fields of an answer that `source` has by the same names, and `others`."""
    names = [name for name in model.model_fields if name not in others and hasattr(source, name)]
    return {name: getattr(source, name) for name in names} | others


# Knowledge.


def make_saved_view(saved: SavedRow) -> dict[str, Any]:
    """Return a row after a write, and what happened to it."""
    view = dict(saved.record)
    if saved.duplicate_of:
        view["duplicate_of"] = saved.duplicate_of
    if saved.is_restored:
        view["restored"] = True
    if saved.decided:
        view["decided"] = saved.decided
    if saved.dropped:
        view["dropped"] = saved.dropped
    return view


def make_slimming_view(done: SlimResult) -> dict[str, Any]:
    """Return what was merged into what."""
    operation_id = done.operation_ids[-1] if done.operation_ids else None
    return {**done.report, **make_view(SlimAnswer, done, operation_id=operation_id)}


def make_import_view(done: ImportResult | TreeImportResult) -> dict[str, Any]:
    """Return what an import of records or of keywords did."""
    return asdict(done) | {"operation_id": done.operation_ids[-1] if done.operation_ids else None}


def make_tree_import_view(done: TreeImportResult, dropped: Dropped) -> dict[str, Any]:
    """Return what an import of keywords did, and what of the file it left out."""
    left_out = [*dropped.items(), *sorted(done.dropped.items())]
    rows = [{"what": what, "why": why, "count": count} for (what, why), count in left_out]
    return make_import_view(done) | {"dropped": rows}


# The keyword tree, whose rows are JSON text.


def render_keyword_search(found: KeywordSearchResult) -> bytes:
    """Return what a search found as JSON text: parsing its rows and writing them again would cost more than it."""
    rest = {
        "suggested_parent_id": found.suggested_parent_id,
        "suggested_name": found.suggested_name,
        "reason": found.reason,
        "degraded": found.degraded,
    }
    return b'{"status":"%s","node":%s,"path":[%s],"infos":[%s],"candidates":[%s],%s' % (
        found.status.encode(),
        found.node or b"null",
        b",".join(found.path),
        b",".join(found.infos),
        b",".join(found.candidates),
        orjson.dumps(rest)[1:],
    )


# Memories.


def make_commit_view(done: CommitResult) -> dict[str, Any]:
    """Return what committing a session did."""
    return make_view(
        CommitAnswer,
        done,
        outbox_events=[make_event_view(event) for event in done.outbox_events],
        dropped=[
            {"what": "messages", "why": "not_read", "count": count}
            if why == UNREAD
            else {"what": "candidates", "why": why, "count": count}
            for why, count in done.stats.get("dropped", {}).items()
        ],
    )


def make_event_view(event: OutboxEvent) -> dict[str, Any]:
    """Return an event of the outbox."""
    return asdict(event) | {"created_at": iso(event.created_at)}


# Keys, snapshots and restores.


def make_key_view(identity: IdentityService, key: ApiKey) -> dict[str, Any]:
    """Return the public view of a key, without its hash."""
    row = {name: value for name, value in key.row.items() if name not in {"id", "hash"}}
    return {
        "key_id": key.key_id,
        "account": key.account,
        **row,
        "expired": identity.has_expired(key),
        "last_used_at": identity.uses.find_last_use(key.key_id),
    }


def make_issued_key_view(identity: IdentityService, issued: IssuedKey) -> dict[str, Any]:
    """Return the view of a new key, with its text unless this answers a retry."""
    view = make_key_view(identity, issued.key)
    return {**view, "key": issued.text, "replaces": issued.replaces, "operation_id": issued.operation_id}


def make_snapshot_view(entry: SnapshotEntry) -> dict[str, Any]:
    """Return a snapshot."""
    view = asdict(entry)
    return {"ts": view.pop("ts"), "path": view.pop("path"), "bytes": view.pop("size"), **view}


def make_restore_view(done: RestoreResult) -> dict[str, Any]:
    """Return what a restore did."""
    erased = [{"collection": collection, "id": row_id} for collection, row_id in done.erased]
    operation_id = done.operation_ids[-1] if done.operation_ids else None
    return asdict(done) | {"erased": erased, "operation_id": operation_id}
