"""Outbox events: what an operation asks of the index, read off its changes."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from knowhub.context import uri
from knowhub.context.model import NODES, PARTS
from knowhub.core.operation import Change, Row, is_live

MOVED_FROM = "moved_from"


class EventType(StrEnum):
    """What an outbox event brings to the index."""

    UPSERT_CONTEXT = "UPSERT_CONTEXT"
    DELETE_CONTEXT = "DELETE_CONTEXT"
    MOVE_CONTEXT = "MOVE_CONTEXT"
    UPSERT_RELATION = "UPSERT_RELATION"


class EventStatus(StrEnum):
    """The state of an outbox event."""

    PENDING = "pending"
    CLAIMED = "claimed"
    FAILED = "failed"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class OutboxEvent:
    """A task to bring the index after a write. Its id is the same for the same change, in every process.

    `payload` carries what a worker needs to know of whose it is, and for a move both URIs.
    """

    event_id: str
    event_type: EventType
    uri: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    status: EventStatus = EventStatus.PENDING
    retry_count: int = 0
    created_at: float = 0.0
    error: str = ""


def list_events(account: str, seq: int, timestamp: float, changes: Sequence[Change]) -> list[OutboxEvent]:
    """List the events of the operation `seq`, in the order of its changes; the same in every process."""
    deleted = {change.id for change in changes if not is_live(change.after)}
    events = []
    for change in changes:
        for kind, payload in _list_events(change, deleted):
            event_id = hash_event(account, seq, change.id, kind)
            whose = {"account": account, "owner": change.after.get("owner", ""), "collection": change.collection}
            events.append(OutboxEvent(event_id, kind, change.id, {**whose, **payload}, created_at=timestamp))
    return events


def hash_event(account: str, seq: int, address: str, kind: EventType) -> str:
    """Return the id of an event of the operation `seq`."""
    return uri.stable_hash(account, seq, address, kind.value)


def _list_events(change: Change, deleted: Container[str]) -> Iterable[tuple[EventType, dict[str, str]]]:
    if change.collection not in (NODES, PARTS):
        return
    if not is_live(change.after):
        if is_live(change.before):
            yield EventType.DELETE_CONTEXT, {}
        return
    before: Row = change.before if change.before is not None and is_live(change.before) else {}
    moved_from = change.after.get(MOVED_FROM)
    # The row keeps this field. It is a move only where the same operation deletes the old URI.
    if moved_from in deleted and not before:
        yield EventType.MOVE_CONTEXT, {"from_uri": str(moved_from)}
    else:
        yield EventType.UPSERT_CONTEXT, {}
    edges = change.after.get("relations") or []
    if edges and edges != before.get("relations"):
        yield EventType.UPSERT_RELATION, {}
