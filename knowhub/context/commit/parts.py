"""The messages of a session as rows: which there are already, and what those that are new are called."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from knowhub.context import uri
from knowhub.context.edits import FORGOTTEN
from knowhub.context.model import PARTS, MemoryContext, Message
from knowhub.context.ports import ContextView
from knowhub.context.spaces import owner_of
from knowhub.core import clock, scopes
from knowhub.core.erasing import is_erased
from knowhub.core.errors import Conflict
from knowhub.core.operation import Row, Write, is_live, next_version


class Standing(StrEnum):
    """What a message of a commit meets in its session."""

    NEW = "new"
    KNOWN = "known"
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True)
class Part:
    """A message under the URI of its part; `message` carries the name of the part as its `message_id`."""

    uri: str
    message: Message
    message_id: str | None


def parts_of(session_uri: str, messages: Sequence[Message]) -> list[Part]:
    """Name the part of every message that says something: by its id, else by what it says and how often it did."""
    parts: list[Part] = []
    occurrences: dict[str, int] = {}
    for message in messages:
        if message.content.strip():
            name = message.message_id or _name(message, occurrences)
            named = replace(message, message_id=name)
            parts.append(Part(uri.part_uri(session_uri, name), named, message.message_id))
    return parts


def standing(view: ContextView, part: Part) -> Standing:
    """Return whether a message is in its session. Raises Conflict where its id is that of another message."""
    row = view.get(PARTS, part.uri)
    if row is None:
        return Standing.NEW
    if row.get(FORGOTTEN) or is_erased(row):
        return Standing.FORGOTTEN
    if not is_live(row):
        return Standing.NEW
    if (row["role"], row["content"]) != (part.message.role, part.message.content):
        raise Conflict(
            f"message {part.message_id!r} of this session says something else already: "
            "a message that was said stays as it is; send the new one under an id of its own",
            {"message_id": part.message_id},
        )
    return Standing.KNOWN


def new_parts(view: ContextView, parts: Sequence[Part]) -> list[Part]:
    """Return those of the messages that the session does not have. Raises Conflict."""
    return [part for part in parts if standing(view, part) is Standing.NEW]


def part_writes(view: ContextView, whose: MemoryContext, session_uri: str, parts: Sequence[Part]) -> list[Write]:
    """Return the rows of new messages, numbered on from those that stand.

    One that an undo took away comes back to its place, unless another has that by now.
    """
    taken = {head.number for head in view.context_parts(session_uri)}
    following = max(taken, default=-1) + 1
    writes: list[Write] = []
    for part in parts:
        before = view.get(PARTS, part.uri)
        number = following if before is None or before["number"] in taken else int(before["number"])
        taken.add(number)
        following = max(following, number + 1)
        writes.append(Write(PARTS, part.uri, _row(part, session_uri, whose, number, before, view.now)))
    return writes


def message_of(row: Row) -> Message:
    """Return the message that a part holds."""
    return Message(row["role"], row["content"], row["name"], row["message_id"], row["timestamp"])


def _row(
    part: Part, session_uri: str, whose: MemoryContext, number: int, before: Row | None, now: float
) -> Mapping[str, Any]:
    message, moment = part.message, clock.iso(now)
    return {
        "id": part.uri,
        "session_uri": session_uri,
        "number": number,
        "role": message.role,
        "name": message.name,
        "content": message.content,
        "message_id": part.message_id,
        "timestamp": message.timestamp,
        "owner": owner_of(whose, "user"),
        "scopes": [scopes.OWNER],
        "version": next_version(before),
        "created_at": moment,
        "updated_at": moment,
    }


def _name(message: Message, occurrences: dict[str, int]) -> str:
    name = uri.stable_hash(message.role, message.name, message.content, message.timestamp or "")
    occurrences[name] = occurrences.get(name, -1) + 1
    return f"m-{name}-{occurrences[name]}"
