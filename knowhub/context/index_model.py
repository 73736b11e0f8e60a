"""Events of the outbox: rows of memories that an index still lacks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


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
    DONE = "done"
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
