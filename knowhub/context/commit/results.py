"""The answer of a commit, read off its operation: so a retry is answered as the first request was."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from knowhub.context import edits, uri
from knowhub.context.commit.parts import read_message
from knowhub.context.commit_model import (
    AppliedPlan,
    CommitDecision,
    CommitResult,
    SessionArchive,
    WriteAction,
    WritePlan,
    WriteResult,
)
from knowhub.context.events import EventType, list_events
from knowhub.context.model import NODES, PARTS, MemoryContext, RelationEdge
from knowhub.context.texts import cut_at_word
from knowhub.context.uri import session_uri
from knowhub.conversations.messages import Message
from knowhub.core.operation import Change, Operation, Row, View
from knowhub.core.request_context import RequestContext

_RECENT_MESSAGES: Final = 10
_MAX_RECENT_CHARS: Final = 1_000
_MAX_NAMED: Final = 10
_ARCHIVE_COUNTS: Final = ("message_count", "first_at", "last_at", "roles", "committed", "by")
_RESULT_FIELDS: Final = ("version", "created", "updated", "reason")


def format_plans(applied: Sequence[AppliedPlan]) -> list[dict[str, Any]]:
    """Return the plans and their results as an operation stores them: without texts, which the rows hold.

    An erase of the row would not erase a copy of its text here.
    """
    return [
        {
            "uri": item.result.uri,
            "action": item.result.action.value,
            "version": item.result.node_version,
            "created": item.result.created,
            "updated": item.result.updated,
            "reason": item.result.reason,
            "edges": [[edge.to_uri, edge.relation_type, edge.reason, edge.weight] for edge in item.plan.relation_ops],
            "events": [event.value for event in item.plan.outbox_events],
            "node_patch": _summarize_plan(item.plan, item.sources),
        }
        for item in applied
    ]


def read_result(operation: Operation, whose: MemoryContext, *, replayed: bool = False) -> CommitResult:
    """Return what a commit answers, from the operation that it wrote."""
    reply: Mapping[str, Any] = operation.reply or {}
    rows = {change.id: change.after for change in operation.changes if change.collection == NODES}
    messages = [read_message(change.after) for change in operation.changes if change.collection == PARTS]
    lines = reply.get("plans", ())
    return CommitResult(
        archive=_make_archive(whose, rows.get(session_uri(whose)), messages),
        write_results=[
            WriteResult(line["uri"], WriteAction(line["action"]), *(line[name] for name in _RESULT_FIELDS))
            for line in lines
        ],
        outbox_events=list_events(operation.account, operation.seq, operation.timestamp, operation.changes),
        stats=reply.get("stats", {}),
        status="committed",
        operation_id=operation.operation_id,
        plans=[_read_plan(line) for line in lines],
        degraded=list(reply.get("degraded", ())),
        replayed=replayed,
    )


def preview_result(
    view: View, ctx: RequestContext, whose: MemoryContext, decided: CommitDecision, *, dry_run: bool
) -> CommitResult:
    """Return what a dry run answers, or a commit that changes nothing; its events have no ids."""
    plans, sees = [item.plan for item in decided.applied], edits.make_visibility_check(view, ctx)
    if not ctx.sees_everything:
        plans = [replace(plan, node_patch=uri.redact_node(plan.target_uri, plan.node_patch, sees)) for plan in plans]
    changes = [
        Change(write.collection, write.id, view.get(write.collection, write.id), write.after)
        for write in decided.writes
    ]
    events = list_events(whose.account, 0, view.now, changes)
    return CommitResult(
        archive=_make_archive(whose, decided.row, decided.fresh),
        write_results=[item.result for item in decided.applied],
        outbox_events=[replace(event, event_id="") for event in events],
        stats=decided.stats,
        status="dry_run" if dry_run else "unchanged",
        plans=plans,
    )


def add_degraded(result: CommitResult, name: str) -> CommitResult:
    """Return an answer with another name in `degraded`."""
    return replace(result, degraded=list(dict.fromkeys((*result.degraded, name))))


def _make_archive(whose: MemoryContext, row: Row | None, messages: Sequence[Message]) -> SessionArchive:
    """Return the archive of a session from its node."""
    metadata = dict(row["metadata"]) if row is not None else {}
    counts = {name: metadata[name] for name in _ARCHIVE_COUNTS if name in metadata}
    return SessionArchive(
        session_id=whose.session_id,
        archive_uri=session_uri(whose),
        summary=str(row["abstract"]) if row is not None else "",
        recent_messages=[
            replace(message, content=cut_at_word(message.content, _MAX_RECENT_CHARS))
            for message in messages[-_RECENT_MESSAGES:]
        ],
        stats={"overview": str(row["overview"]) if row is not None else "", **counts},
    )


def _summarize_plan(plan: WritePlan, sources: Sequence[str]) -> dict[str, Any]:
    """Return which fields a plan writes, how long its texts are, and the newest of the messages it takes in."""
    if plan.action is WriteAction.SKIP:
        return {}
    chars = {name: len(text) for name, text in plan.node_patch.items() if name in edits.LAYERS}
    return {"fields": sorted(plan.node_patch), "chars": chars, "sources": list(sources[-_MAX_NAMED:])}


def _read_plan(line: Mapping[str, Any]) -> WritePlan:
    edges = [RelationEdge(line["uri"], to_uri, kind, reason, weight) for to_uri, kind, reason, weight in line["edges"]]
    events = [EventType(event) for event in line["events"]]
    return WritePlan(
        WriteAction(line["action"]), line["uri"], line.get("node_patch", {}), edges, events, line["reason"]
    )
