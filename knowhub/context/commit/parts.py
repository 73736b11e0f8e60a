"""The messages of a session as rows: aligned with those that are stored, numbered and written."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count
from typing import Any, Final

from knowhub.context import uri
from knowhub.context.edits import FORGOTTEN
from knowhub.context.model import CALLS, PARTS, ContextSummary, MemoryContext
from knowhub.context.queries import find_memory, list_parts
from knowhub.context.uri import owner_of
from knowhub.conversations.messages import Message
from knowhub.core import clock, scopes
from knowhub.core.erasing import is_erased
from knowhub.core.errors import Conflict
from knowhub.core.operation import Row, View, Write, is_live, next_version

_SAME_BEGINNING: Final = 3
"""So many messages alike do not begin a session twice by chance; one greeting does."""


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that is sent: its URI where it has an id, and a key that only messages alike share."""

    uri: str | None
    key: str


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message of the session, a deleted one too."""

    uri: str
    key: str


def find_repeated(sent: Sequence[SentMessage], session: Sequence[StoredMessage]) -> list[str | None]:
    """Return for each sent message the URI of the message that it repeats; None for a new message."""
    places = {stood.uri: place for place, stood in enumerate(session)}
    found = [None if item.uri is None else places.get(item.uri) for item in sent]
    if any(place is not None for place in found):
        _align_neighbours(found, sent, session)
    else:
        begins, count = _overlap([item.key for item in sent], [stood.key for stood in session])
        found[:count] = range(begins, begins + count)
    return [None if place is None else session[place].uri for place in found]


def _align_neighbours(found: list[int | None], sent: Sequence[SentMessage], session: Sequence[StoredMessage]) -> None:
    """Place those without ids behind, then those before, a message that has a place."""
    for step, order in ((1, range(len(sent))), (-1, range(len(sent) - 1, -1, -1))):
        taken = {place for place in found if place is not None}
        place: int | None = None
        for at in order:
            if found[at] is not None:
                place = found[at]
                continue
            if place is None:
                continue
            place += step
            is_same = 0 <= place < len(session) and place not in taken and session[place].key == sent[at].key
            place = place if is_same and sent[at].uri is None else None
            found[at] = place


def _overlap(sent: Sequence[str], session: Sequence[str]) -> tuple[int, int]:
    """Return the position in the session where the list begins, and how many of its messages match there."""
    pairs = zip(sent, session, strict=False)
    alike = next((at for at, (ours, theirs) in enumerate(pairs) if ours != theirs), min(len(sent), len(session)))
    if alike >= min(len(sent), len(session), _SAME_BEGINNING):
        return 0, alike
    count = _count_overlap(sent, session[-len(sent) :])
    return len(session) - count, count


def _count_overlap(sent: Sequence[str], end: Sequence[str]) -> int:
    """Return the length of the longest end of a list with which another begins (Knuth, Morris and Pratt)."""
    borders = [0]
    for key in sent[1:]:
        length = borders[-1]
        while length and sent[length] != key:
            length = borders[length - 1]
        borders.append(length + (sent[length] == key))
    length = 0
    for key in end:
        while length and (length == len(sent) or sent[length] != key):
            length = borders[length - 1]
        length += sent[length] == key
    return length


class MessageState(StrEnum):
    """What a message of a commit meets in its session."""

    NEW = "new"
    KNOWN = "known"
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True)
class TranscriptPart:
    """A message under the URI of its part; `message` carries the name of the part as its `message_id`."""

    uri: str
    message: Message
    message_id: str | None


def drop_empty(messages: Sequence[Message]) -> list[Message]:
    """Return the messages that are not empty."""
    return [message for message in messages if message.content.strip()]


def content_keys(messages: Sequence[Message]) -> list[str]:
    """Return for each message a key that only messages share that say the same; it hashes the whole text."""
    return [
        f"m-{uri.stable_hash(message.role, message.name, message.content, message.timestamp or '')}"
        for message in messages
    ]


def parts_of(
    view: View, session_uri: str, messages: Sequence[Message], keys: Sequence[str] | None = None
) -> list[TranscriptPart]:
    """Name the part of every message that says something: by its id, else by the message of the session it repeats.

    A new message without an id (`find_repeated`) is named by its content and by how often the session has it, so that
    no two messages share a name. `keys` are the `content_keys` of the
    messages, where they are known; without them, empty messages are left out.
    """
    told = drop_empty(messages) if keys is None else messages
    if all(message.message_id for message in told):
        return [
            TranscriptPart(uri.part_uri(session_uri, item.message_id or ""), item, item.message_id) for item in told
        ]
    known_keys = content_keys(told) if keys is None else keys
    sent = [_make_sent(session_uri, item, key) for item, key in zip(told, known_keys, strict=True)]
    everything, live = _session(view, session_uri, {item.key for item in sent})
    met = find_repeated(sent, everything)
    if len(live) < len(everything) and not any(met):
        # What was forgotten need not be in what is sent.
        met = find_repeated(sent, live)
    taken = {item.uri for item in sent if item.uri is not None}
    parts: list[TranscriptPart] = []
    occurrences: dict[str, int] = {}
    for message, item, known in zip(told, sent, met, strict=True):
        name = message.message_id or (_segment(known) if known is not None else "")
        while not name:
            number = occurrences.get(item.key, 0)
            occurrences[item.key] = number + 1
            own = f"{session_uri}/{item.key}-{number}"
            name = f"{item.key}-{number}" if own not in taken and find_memory(view, own) is None else ""
        named = replace(message, message_id=name)
        # A name of its own is written in letters that a URI takes as they are.
        parts.append(TranscriptPart(item.uri or f"{session_uri}/{name}", named, message.message_id))
    return parts


def get_state(view: View, part: TranscriptPart) -> MessageState:
    """Return whether a message is in its session. Raises Conflict where its id is that of another message."""
    row = view.get(PARTS, part.uri)
    if row is None:
        return MessageState.NEW
    if row.get(FORGOTTEN) or is_erased(row):
        return MessageState.FORGOTTEN
    if not is_live(row):
        return MessageState.NEW
    if (row["role"], row["content"]) != (part.message.role, part.message.content):
        raise Conflict(
            f"message {part.message_id!r} of this session says something else already: "
            "a message that was said stays as it is; send the new one under an id of its own",
            {"message_id": part.message_id},
        )
    return MessageState.KNOWN


def new_parts(view: View, parts: Sequence[TranscriptPart]) -> list[TranscriptPart]:
    """Return those of the messages that the session does not have. Raises Conflict."""
    return [part for part in parts if get_state(view, part) is MessageState.NEW]


def part_writes(
    view: View, whose: MemoryContext, session_uri: str, parts: Sequence[TranscriptPart], calls: Sequence[str] = ()
) -> list[Write]:
    """Return the rows of new messages, numbered after the stored ones; the last one notes the calls that were counted.

    A message that an undo removed returns to its number, unless another message has it by now.
    """
    taken = {head.number for head in list_parts(view, session_uri)}
    following = max(taken, default=-1) + 1
    writes: list[Write] = []
    for part in parts:
        before = view.get(PARTS, part.uri)
        number = following if before is None or before["number"] in taken else int(before["number"])
        taken.add(number)
        following = max(following, number + 1)
        writes.append(Write(PARTS, part.uri, _row(part, session_uri, whose, number, before, view.now)))
    if writes and calls:
        writes[-1] = replace(writes[-1], after={**writes[-1].after, CALLS: list(calls)})
    return writes


def message_of(row: Row) -> Message:
    """Return the message that a part holds."""
    return Message(row["role"], row["content"], row["name"], row["message_id"], row["timestamp"])


def _row(
    part: TranscriptPart, session_uri: str, whose: MemoryContext, number: int, before: Row | None, now: float
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


def _make_sent(session_uri: str, message: Message, key: str) -> SentMessage:
    if message.message_id:
        address = uri.part_uri(session_uri, message.message_id)
        return SentMessage(address, address)
    return SentMessage(None, key)


def _session(view: View, session_uri: str, keys: Iterable[str]) -> tuple[list[StoredMessage], list[StoredMessage]]:
    """Return the messages of a session in their order: with those that went, where they are sent again, and without."""
    live = list_parts(view, session_uri)
    gone = [head for key in keys for head in _iter_versions(view, session_uri, key) if not head.live]
    # A later message may have the number of a removed message.
    everything = sorted([*live, *gone], key=lambda head: (head.number, head.live))
    return [_make_stored(head) for head in everything], [_make_stored(head) for head in live]


def _iter_versions(view: View, session_uri: str, key: str) -> Iterator[ContextSummary]:
    """Yield the heads of all messages that ever stood under a key."""
    named = find_memory(view, key) if key.startswith(uri.SCHEME) else None
    if named is not None:
        yield named
    for number in () if key.startswith(uri.SCHEME) else count():
        head = find_memory(view, f"{session_uri}/{key}-{number}")
        if head is None:
            return
        yield head


def _make_stored(head: ContextSummary) -> StoredMessage:
    is_named = head.message_id is not None
    return StoredMessage(head.uri, head.uri if is_named else _segment(head.uri).rpartition("-")[0])


def _segment(address: str) -> str:
    return address.rpartition("/")[2]
