"""What importers make of foreign files: conversations and notes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from knowhub.conversations.messages import Message
from knowhub.core import clock


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation, oldest message first. Each export of it has the same `session_id` and ids of messages."""

    session_id: str
    messages: Sequence[Message]


@dataclass(frozen=True, slots=True)
class Note:
    """A text that somebody kept: `key` is the same in each export of it. `created_at` is ISO 8601."""

    key: str
    title: str
    text: str
    type: str = "definition"
    tags: Mapping[str, str | list[str]] = field(default_factory=dict)
    created_at: str | None = None


Item: TypeAlias = Conversation | Note


def get_object(value: object) -> dict[str, Any]:
    """Return a JSON object; an empty object for anything else."""
    return value if isinstance(value, dict) else {}


def list_objects(value: object) -> list[dict[str, Any]]:
    """Return the objects of a JSON array; none if it is no array."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def read_time(value: object) -> str | None:
    """Return a time as ISO 8601: seconds since the epoch, or a text of ISO 8601. None for anything else."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return clock.normalize_iso(datetime.fromtimestamp(value, UTC).isoformat())
        return clock.normalize_iso(value) if isinstance(value, str) and value else None
    except (ValueError, OverflowError, OSError):
        return None
