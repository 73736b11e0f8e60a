"""The messages of a session as rows: aligned with those that are stored, numbered and written."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final

from knowhub.context import uri
from knowhub.context.edits import FORGOTTEN
from knowhub.context.model import CALLS, NODES, PARTS, ContextSummary, MemoryContext
from knowhub.context.queries import find_memory, list_parts
from knowhub.conversations.messages import Message
from knowhub.core import scopes
from knowhub.core.erasing import is_erased
from knowhub.core.errors import Conflict
from knowhub.core.operation import Row, View, Write, add_version, is_live

_SAME_BEGINNING: Final = 3
"""At least so many equal messages count as the same beginning of a session; one greeting does not."""
SUMMARISED_MESSAGES: Final = 2_000
"""So many of the newest messages are read for a summary: of a longer session these say what it is about."""


@dataclass(frozen=True, slots=True)
class NamedMessage:
    """A message: its URI, None if it was sent without an id, and a key that messages of equal content share."""

    uri: str | None
    key: str


def find_repeated(sent: Sequence[NamedMessage], session: Sequence[NamedMessage]) -> list[str | None]:
    """Return for each sent message the URI of the message that it repeats; None for a new message."""
    indexes = {stored.uri: index for index, stored in enumerate(session)}
    found = [None if item.uri is None else indexes.get(item.uri) for item in sent]
    if any(index is not None for index in found):
        _align_neighbours(found, sent, session)
    else:
        begins, count = _find_overlap([item.key for item in sent], [stored.key for stored in session])
        found[:count] = range(begins, begins + count)
    return [None if index is None else session[index].uri for index in found]


def _align_neighbours(found: list[int | None], sent: Sequence[NamedMessage], session: Sequence[NamedMessage]) -> None:
    """Match messages without ids to the neighbours of matched ones: forward, then backward."""
    for step, order in ((1, range(len(sent))), (-1, range(len(sent) - 1, -1, -1))):
        taken = {index for index in found if index is not None}
        index: int | None = None
        for at in order:
            if found[at] is not None:
                index = found[at]
                continue
            if index is None:
                continue
            index += step
            is_same = 0 <= index < len(session) and index not in taken and session[index].key == sent[at].key
            index = index if is_same and sent[at].uri is None else None
            found[at] = index


def _find_overlap(sent: Sequence[str], session: Sequence[str]) -> tuple[int, int]:
    """Return the position in the session where the list begins, and how many of its messages match there."""
    pairs = zip(sent, session, strict=False)
    alike = next((at for at, (ours, theirs) in enumerate(pairs) if ours != theirs), min(len(sent), len(session)))
    if alike >= min(len(sent), len(session), _SAME_BEGINNING):
        return 0, alike
    longest = min(len(sent), len(session))
    count = next((size for size in range(longest, 0, -1) if sent[:size] == session[-size:]), 0)
    return len(session) - count, count


@dataclass(frozen=True, slots=True)
class TranscriptPart:
    """A message under the URI of its part; `message` carries the name of the part as its `message_id`."""

    uri: str
    message: Message
    message_id: str | None


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session as it is: its live node and messages; and the messages of a commit, `fresh` where they are new."""

    uri: str
    row: Row | None
    stored: Sequence[ContextSummary]
    parts: Sequence[TranscriptPart]
    fresh: Sequence[TranscriptPart]
    counts: Mapping[str, int]

    @property
    def uris(self) -> frozenset[str]:
        """The URIs of its live messages."""
        return frozenset(summary.uri for summary in self.stored)


def read_state(view: View, session_uri: str, messages: Sequence[Message], keys: Sequence[str]) -> SessionState:
    """Return a session, and where non-empty messages with these `make_content_keys` stand in it. Raises Conflict."""
    row = view.get(NODES, session_uri)
    parts = name_parts(view, session_uri, messages, keys)
    states = [_get_state(view, part) for part in parts]
    fresh = [part for part, state in zip(parts, states, strict=True) if state == "added"]
    counts = {state: states.count(state) for state in ("added", "known", "forgotten")}
    return SessionState(session_uri, row if is_live(row) else None, list_parts(view, session_uri), parts, fresh, counts)


def make_content_keys(messages: Sequence[Message]) -> list[str]:
    """Return for each message a key that only messages share that say the same; it hashes the whole text."""
    return [
        f"m-{uri.stable_hash(message.role, message.name, message.content, message.timestamp or '')}"
        for message in messages
    ]


def name_parts(view: View, session_uri: str, messages: Sequence[Message], keys: Sequence[str]) -> list[TranscriptPart]:
    """Name the part of every message: by its id, else by the message of the session that it repeats.

    A new message without an id (`find_repeated`) is named by its content and by how often the session has it, so that
    no two messages share a name.
    """
    if all(message.message_id for message in messages):
        return [
            TranscriptPart(uri.part_uri(session_uri, item.message_id or ""), item, item.message_id) for item in messages
        ]
    sent = [_make_sent(session_uri, item, key) for item, key in zip(messages, keys, strict=True)]
    live = list_parts(view, session_uri)
    gone = [
        summary
        for item in dict.fromkeys(sent)
        for summary in _iter_versions(view, session_uri, item)
        if not summary.live
    ]
    # A later message may have the number of a removed message.
    everything = sorted([*live, *gone], key=lambda summary: (summary.number, summary.live))
    found = find_repeated(sent, [_make_stored(summary) for summary in everything])
    if gone and not any(found):
        # What was forgotten need not be in what is sent.
        found = find_repeated(sent, [_make_stored(summary) for summary in live])
    taken = {item.uri for item in sent if item.uri is not None}
    parts: list[TranscriptPart] = []
    occurrences: Counter[str] = Counter()
    for message, item, known in zip(messages, sent, found, strict=True):
        name = message.message_id or (_get_last_segment(known) if known is not None else "")
        while not name:
            own = f"{item.key}-{occurrences[item.key]}"
            occurrences[item.key] += 1
            is_free = f"{session_uri}/{own}" not in taken and find_memory(view, f"{session_uri}/{own}") is None
            name = own if is_free else ""
        named = replace(message, message_id=name)
        # A name of its own is written in letters that a URI takes as they are.
        parts.append(TranscriptPart(item.uri or f"{session_uri}/{name}", named, message.message_id))
    return parts


def _get_state(view: View, part: TranscriptPart) -> str:
    """Return `known` for a message of its session, `forgotten`, or `added` for a new one.

    Raises Conflict where its id is that of another message.
    """
    row = view.get(PARTS, part.uri)
    if row is None:
        return "added"
    if row.get(FORGOTTEN) or is_erased(row):
        return "forgotten"
    if not is_live(row):
        return "added"
    if (row["role"], row["content"]) != (part.message.role, part.message.content):
        raise Conflict(
            f"message {part.message_id!r} of this session says something else already: "
            "a message that was said stays as it is; send the new one under an id of its own",
            {"message_id": part.message_id},
        )
    return "known"


def make_part_writes(view: View, whose: MemoryContext, state: SessionState, calls: Sequence[str] = ()) -> list[Write]:
    """Return the rows of new messages, numbered after the stored ones; the last one notes the calls that were counted.

    A message that an undo removed returns to its number, unless another message has it by now.
    """
    taken = {summary.number for summary in state.stored}
    following = max(taken, default=-1) + 1
    writes: list[Write] = []
    for part in state.fresh:
        before = view.get(PARTS, part.uri)
        number = following if before is None or before["number"] in taken else int(before["number"])
        taken.add(number)
        following = max(following, number + 1)
        writes.append(Write(PARTS, part.uri, _make_row(part, state.uri, whose, number, before, view.now)))
    if writes and calls:
        writes[-1] = replace(writes[-1], after={**writes[-1].after, CALLS: list(calls)})
    return writes


def list_messages(view: View, stored: Sequence[ContextSummary]) -> list[Message]:
    """Return the messages of the newest of these parts, as many as are summarised."""
    rows = (view.get(PARTS, summary.uri) for summary in stored[-SUMMARISED_MESSAGES:])
    return [read_message(row) for row in rows if row is not None]


def read_message(row: Row) -> Message:
    """Return the message that a part holds."""
    return Message(row["role"], row["content"], row["name"], row["message_id"], row["timestamp"])


def _make_row(
    part: TranscriptPart, session_uri: str, whose: MemoryContext, number: int, before: Row | None, now: float
) -> Mapping[str, Any]:
    message = part.message
    fields = {
        "id": part.uri,
        "session_uri": session_uri,
        "number": number,
        "role": message.role,
        "name": message.name,
        "content": message.content,
        "message_id": part.message_id,
        "timestamp": message.timestamp,
        "owner": whose.owner,
        "scopes": [scopes.OWNER],
    }
    return add_version(fields, before, now)


def _make_sent(session_uri: str, message: Message, key: str) -> NamedMessage:
    if message.message_id:
        address = uri.part_uri(session_uri, message.message_id)
        return NamedMessage(address, address)
    return NamedMessage(None, key)


def _iter_versions(view: View, session_uri: str, sent: NamedMessage) -> Iterator[ContextSummary]:
    """Yield the summaries of all messages that ever had the id or the key of a message."""
    if sent.uri is not None:
        summary = find_memory(view, sent.uri)
        yield from () if summary is None else (summary,)
        return
    for number in count():
        summary = find_memory(view, f"{session_uri}/{sent.key}-{number}")
        if summary is None:
            return
        yield summary


def _make_stored(summary: ContextSummary) -> NamedMessage:
    is_named = summary.message_id is not None
    return NamedMessage(summary.uri, summary.uri if is_named else _get_last_segment(summary.uri).rpartition("-")[0])


def _get_last_segment(address: str) -> str:
    return address.rpartition("/")[2]
