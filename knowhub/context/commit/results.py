"""The answer of a commit, read off its operation: so a retry is answered as the first request was."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from knowhub.context import uri
from knowhub.context.commit.parts import read_message
from knowhub.context.commit.session_node import OVERVIEW, RECENT_MESSAGES
from knowhub.context.commit_model import CommitResult, SessionArchive, WriteAction, WritePlan, WriteResult
from knowhub.context.edits import LAYERS
from knowhub.context.events import EventType, OutboxEvent, events_of
from knowhub.context.model import NODES, PARTS, MemoryContext, RelationEdge
from knowhub.context.texts import shorten
from knowhub.context.uri import Sees, session_uri
from knowhub.conversations.messages import Message
from knowhub.core.operation import Change, Operation, Row, View, Write

_MAX_RECENT: Final = 1_000
_MAX_NAMED: Final = 10
_RESULT_FIELDS: Final = ("version", "created", "updated", "reason")


PlannedWrite: TypeAlias = tuple[WritePlan, WriteResult, Sequence[str]]
"""A plan, what became of it, and the messages that it takes in."""


def format_plans(planned: Sequence[PlannedWrite]) -> list[dict[str, Any]]:
    """Return the plans and their results as an operation stores them: without texts, which the rows hold.

    An erase of the row would not erase a copy of its text here.
    """
    return [
        {
            "uri": result.uri,
            "action": result.action.value,
            "version": result.node_version,
            "created": result.created,
            "updated": result.updated,
            "reason": result.reason,
            "edges": [[edge.to_uri, edge.relation_type, edge.reason, edge.weight] for edge in plan.relation_ops],
            "events": [event.value for event in plan.outbox_events],
            "node_patch": _summarize_plan(plan, named),
        }
        for plan, result, named in planned
    ]


def read_result(operation: Operation, whose: MemoryContext, *, replayed: bool = False) -> CommitResult:
    """Return what a commit answers, from the operation that it wrote."""
    reply: Mapping[str, Any] = operation.reply or {}
    rows = {change.id: change.after for change in operation.changes if change.collection == NODES}
    messages = [read_message(change.after) for change in operation.changes if change.collection == PARTS]
    lines = reply.get("plans", ())
    return CommitResult(
        archive=make_archive(whose, rows.get(session_uri(whose)), messages),
        write_results=[
            WriteResult(line["uri"], WriteAction(line["action"]), *(line[name] for name in _RESULT_FIELDS))
            for line in lines
        ],
        outbox_events=events_of(operation.account, operation.seq, operation.timestamp, operation.changes),
        stats=reply.get("stats", {}),
        status="committed",
        operation_id=operation.operation_id,
        plans=[_plan(line) for line in lines],
        degraded=list(reply.get("degraded", ())),
        replayed=replayed,
    )


def redact_plans(plans: Sequence[WritePlan], sees: Sees) -> list[WritePlan]:
    """Return plans without what tells of sessions that the caller does not see."""
    return [replace(plan, node_patch=uri.redact_node(plan.target_uri, plan.node_patch, sees)) for plan in plans]


def make_archive(whose: MemoryContext, row: Row | None, messages: Sequence[Message]) -> SessionArchive:
    """Return the archive of a session from its node."""
    metadata = dict(row["metadata"]) if row is not None else {}
    return SessionArchive(
        session_id=whose.session_id,
        archive_uri=session_uri(whose),
        summary=str(row["abstract"]) if row is not None else "",
        recent_messages=[
            replace(message, content=shorten(message.content, _MAX_RECENT)) for message in messages[-RECENT_MESSAGES:]
        ],
        stats={OVERVIEW: str(row["overview"]) if row is not None else ""} | _counts(metadata),
    )


def add_degraded(result: CommitResult, name: str) -> CommitResult:
    """Return an answer with another name in `degraded`."""
    return replace(result, degraded=list(dict.fromkeys((*result.degraded, name))))


def preview_events(view: View, whose: MemoryContext, writes: Sequence[Write]) -> list[OutboxEvent]:
    """Return the events that writes would cause; they have no ids, as the operation would have."""
    changes = [
        Change(write.collection, write.id, view.get(write.collection, write.id), write.after) for write in writes
    ]
    return [replace(event, event_id="") for event in events_of(whose.account, 0, view.now, changes)]


def _summarize_plan(plan: WritePlan, sources: Sequence[str]) -> dict[str, Any]:
    """Return which fields a plan writes, how long its texts are, and the newest of the messages it takes in."""
    if plan.action is WriteAction.SKIP:
        return {}
    chars = {name: len(text) for name, text in plan.node_patch.items() if name in LAYERS}
    return {"fields": sorted(plan.node_patch), "chars": chars, "sources": list(sources[-_MAX_NAMED:])}


def _counts(metadata: Mapping[str, Any]) -> dict[str, Any]:
    names = ("message_count", "first_at", "last_at", "roles", "committed", "by")
    return {name: metadata[name] for name in names if name in metadata}


def _plan(line: Mapping[str, Any]) -> WritePlan:
    edges = [RelationEdge(line["uri"], to_uri, kind, reason, weight) for to_uri, kind, reason, weight in line["edges"]]
    events = [EventType(event) for event in line["events"]]
    return WritePlan(
        WriteAction(line["action"]), line["uri"], line.get("node_patch", {}), edges, events, line["reason"]
    )
