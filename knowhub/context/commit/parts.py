"""The messages of a session as rows: which there are already, and what those that are new are called."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count
from typing import Any

from knowhub.context import uri
from knowhub.context.commit.alignment import Sent, Stood, repeated
from knowhub.context.edits import FORGOTTEN
from knowhub.context.model import PARTS, ContextHead, MemoryContext
from knowhub.context.ports import ContextView
from knowhub.context.spaces import owner_of
from knowhub.core import clock, scopes
from knowhub.core.erasing import is_erased
from knowhub.core.errors import Conflict
from knowhub.core.messages import Message
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


def said(messages: Sequence[Message]) -> list[Message]:
    """Return the messages in which something stands."""
    return [one for one in messages if one.content.strip()]


def parts_of(view: ContextView, session_uri: str, messages: Sequence[Message]) -> list[Part]:
    """Name the part of every message that says something: by its id, else by the message of the session it repeats.

    One without an id that repeats none (`alignment` says when) is called by what it says and how often the session
    knows that, so that no two messages share a name, whoever sent them when.
    """
    told = said(messages)
    sent = [_sent(session_uri, one) for one in told]
    everything, live = _session(view, session_uri, {one.key for one in sent})
    met = repeated(sent, everything)
    if len(live) < len(everything) and not any(met):
        # What was forgotten need not be in what is sent.
        met = repeated(sent, live)
    taken = {one.uri for one in sent if one.uri is not None}
    parts: list[Part] = []
    occurrences: dict[str, int] = {}
    for message, one, known in zip(told, sent, met, strict=True):
        name = message.message_id or (_segment(known) if known is not None else "")
        while not name:
            number = occurrences.get(one.key, 0)
            occurrences[one.key] = number + 1
            own = f"{session_uri}/{one.key}-{number}"
            name = f"{one.key}-{number}" if own not in taken and view.context_head(own) is None else ""
        named = replace(message, message_id=name)
        # A name of its own is written in letters that a URI takes as they are.
        parts.append(Part(one.uri or f"{session_uri}/{name}", named, message.message_id))
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


def _sent(session_uri: str, message: Message) -> Sent:
    if message.message_id:
        address = uri.part_uri(session_uri, message.message_id)
        return Sent(address, address)
    return Sent(None, f"m-{uri.stable_hash(message.role, message.name, message.content, message.timestamp or '')}")


def _session(view: ContextView, session_uri: str, keys: Iterable[str]) -> tuple[list[Stood], list[Stood]]:
    """Return the messages of a session in their order: with those that went, where they are sent again, and without."""
    live = view.context_parts(session_uri)
    gone = [head for key in keys for head in _heads_of(view, session_uri, key) if not head.live]
    # Whoever came later may have the number of one that went.
    everything = sorted([*live, *gone], key=lambda head: (head.number, head.live))
    return [_stood(head) for head in everything], [_stood(head) for head in live]


def _heads_of(view: ContextView, session_uri: str, key: str) -> Iterator[ContextHead]:
    """Yield the heads of all messages that ever stood under a key."""
    named = view.context_head(key) if key.startswith(uri.SCHEME) else None
    if named is not None:
        yield named
    for number in () if key.startswith(uri.SCHEME) else count():
        head = view.context_head(f"{session_uri}/{key}-{number}")
        if head is None:
            return
        yield head


def _stood(head: ContextHead) -> Stood:
    is_named = head.message_id is not None
    return Stood(head.uri, head.uri if is_named else _segment(head.uri).rpartition("-")[0])


def _segment(address: str) -> str:
    return address.rpartition("/")[2]
