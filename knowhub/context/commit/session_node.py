"""The node of a session: its summary, and what is counted of it (CE-023, G-16)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from knowhub.context.commit.archive_builder import OVERVIEW
from knowhub.context.commit.parts import Part, message_of
from knowhub.context.commit_model import Action, SessionArchive, WritePlan
from knowhub.context.edits import BY, BY_PERSON
from knowhub.context.extraction import dates
from knowhub.context.index_model import EventType
from knowhub.context.model import Category, ContextHead, ContextType, MemoryContext
from knowhub.core.messages import Message
from knowhub.core.operation import Change, Row, is_live
from knowhub.core.undo import Bearers

COUNTED_CALLS: Final = "counted_calls"
"""The key of a session's metadata under which stand the calls that statistics hold already, the newest 2,000."""
_MAX_COUNTED: Final = 2_000
_MAX_ROLES: Final = 20
_COMMITTED: Final = "committed"
_MAX_SUMMED: Final = 200
_MAX_SUMMED_CHARS: Final = 40_000

SumUp: TypeAlias = Callable[[Sequence[Message]], tuple[str, str]]
"""From messages to an abstract and an overview of them."""


def session_plan(
    whose: MemoryContext,
    archive: SessionArchive,
    standing: Row | None,
    heads: Sequence[ContextHead],
    fresh: Sequence[Part],
    calls: Sequence[str],
) -> WritePlan:
    """Return the plan for the session's own node, given its live parts, and those and the calls that are new."""
    before: Mapping[str, Any] = {} if standing is None else standing["metadata"]
    times = [before.get("first_at"), before.get("last_at"), *(part.message.timestamp for part in fresh)]
    roles = dict.fromkeys((*before.get("roles", ()), *(part.message.role for part in fresh)))
    metadata = {
        **before,
        "confidence": 1.0,
        BY: archive.stats["by"],
        "session_id": whose.session_id,
        "message_count": len(heads) + len(fresh),
        **_spoken(times, roles),
        _COMMITTED: before.get(_COMMITTED, 0) + 1,
        COUNTED_CALLS: [*before.get(COUNTED_CALLS, ()), *calls][-_MAX_COUNTED:],
    }
    patch = {
        "context_type": ContextType.SESSION.value,
        "category": Category.SESSIONS.value,
        "abstract": archive.summary,
        "overview": str(archive.stats[OVERVIEW]),
        "content": "",
        "metadata": metadata,
    }
    action = Action.CREATE if standing is None else Action.MERGE
    return WritePlan(
        action, archive.archive_uri, patch, (), (EventType.UPSERT_CONTEXT,), f"messages added: {len(fresh)}"
    )


def parted(change: Change, current: Row, bearers: Bearers, sum_up: SumUp) -> Row | None:
    """Return a session as it stands without one of its commits; None where a person has said since what it is about.

    Those whose messages stay are summed up anew by their own sentences, the newest of them: others wait for it.
    """
    before, after = _metadata(change.before), _metadata(change.after)
    now = current["metadata"]
    commits = after.get(_COMMITTED, 0) - before.get(_COMMITTED, 0)
    # What is only counted on says nothing else than before: then fields are compared.
    has_moved = any(current.get(layer) != change.after.get(layer) for layer in ("abstract", "overview"))
    if not (is_live(current) and commits and has_moved) or now.get(BY) == BY_PERSON:
        return None
    rows = bearers()
    parts = {int(row["number"]): row for row in rows}
    if len(parts) < len(rows):
        # Others have taken the places of messages that would come back.
        return None
    messages = [message_of(parts[number]) for number in sorted(parts)]
    left = now[_COMMITTED] - commits
    if not messages and left <= 0:
        return {**current, "deleted": True}
    abstract, overview = sum_up(_newest(messages)) if messages else ("", "")
    calls = dict.fromkeys((*before.get(COUNTED_CALLS, ()), *now.get(COUNTED_CALLS, ())))
    gone = set(after.get(COUNTED_CALLS, ())) - set(before.get(COUNTED_CALLS, ()))
    stand = set(now.get(COUNTED_CALLS, ())) | (set(before.get(COUNTED_CALLS, ())) - set(after.get(COUNTED_CALLS, ())))
    metadata = {
        **now,
        BY: "rules",
        "message_count": len(messages),
        **_spoken((one.timestamp for one in messages), dict.fromkeys(one.role for one in messages)),
        _COMMITTED: left,
        COUNTED_CALLS: [call for call in calls if call in stand and call not in gone][-_MAX_COUNTED:],
    }
    return {**current, "abstract": abstract, "overview": overview, "metadata": metadata}


def _spoken(times: Iterable[str | None], roles: Iterable[str]) -> dict[str, Any]:
    """Return who speaks in a session, and from when to when."""
    said = [time for time in times if time]
    known = sorted((moment, time) for time in said if (moment := dates.moment_of(time)))
    # Of times that nobody can put in order the first and the last stand as they were sent.
    ordered: Sequence[str | None] = [time for _, time in known] or said or [None]
    return {
        "first_at": ordered[0],
        "last_at": ordered[-1],
        "said_at": known[-1][0] if known else None,
        "roles": list(roles)[:_MAX_ROLES],
    }


def _newest(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the last messages, as many as are summed up within a turn."""
    room = _MAX_SUMMED_CHARS
    for count, one in enumerate(reversed(messages)):
        room -= len(one.content)
        if count == _MAX_SUMMED or room < 0:
            return messages[len(messages) - max(count, 1) :]
    return messages


def _metadata(row: Row | None) -> Mapping[str, Any]:
    metadata: Mapping[str, Any] = row["metadata"] if row is not None and is_live(row) else {}
    return metadata
