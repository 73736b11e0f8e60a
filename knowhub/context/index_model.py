"""What brings an index after the memories: events of the outbox, and records (seed 002 §4.1, §7)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class EventType(StrEnum):
    """What an outbox event brings to the index (CE-083…086)."""

    UPSERT_CONTEXT = "UPSERT_CONTEXT"
    DELETE_CONTEXT = "DELETE_CONTEXT"
    MOVE_CONTEXT = "MOVE_CONTEXT"
    UPSERT_RELATION = "UPSERT_RELATION"


class EventStatus(StrEnum):
    """Where an outbox event stands (G-14)."""

    PENDING = "pending"
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class OutboxEvent:
    """A task to bring the index after a write (CE-032). Its id is the same for the same change, in every process.

    `payload` carries what a worker needs to know of whose it is (C-75), and for a move both URIs.
    """

    event_id: str
    event_type: EventType
    uri: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    status: EventStatus = EventStatus.PENDING
    retry_count: int = 0
    created_at: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class IndexRecord:
    """One layer of a node as an index holds it (CE-030); `id` is `stable_hash(uri, level)`."""

    id: str
    uri: str
    parent_uri: str
    context_type: str
    category: str
    level: int
    text: str
    filters: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RelationIndexRecord:
    """An edge as a replica holds it (CE-043)."""

    id: str
    from_uri: str
    to_uri: str
    relation_type: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MoveProjection:
    """A node that moved, for the index (CE-039)."""

    old_uri: str
    new_uri: str
    old_parent_uri: str
    new_parent_uri: str


@dataclass(frozen=True, slots=True)
class IndexBatchResult:
    """What one round of the worker did (CE-031); `failed` are those that are dead now, `retried` come again."""

    claimed: int
    succeeded: int
    failed: int
    retried: int
