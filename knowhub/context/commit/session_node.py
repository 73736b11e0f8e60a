"""The node of a session: what a commit, or a deleted message, changes of it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from knowhub.context.commit.parts import SessionState, list_messages
from knowhub.context.commit.session_summary import summarize_session
from knowhub.context.commit_model import WriteAction, WritePlan
from knowhub.context.edits import BY, BY_PERSON
from knowhub.context.events import EventType
from knowhub.context.model import NODES, READING, ContextSummary, ContextType, MemoryCategory, MemoryContext
from knowhub.context.queries import list_parts
from knowhub.conversations.language.dates import read_moment
from knowhub.conversations.sentences import Fold
from knowhub.core.operation import Row, View, Write, is_live, next_of

SUMMARISED: Final = "summarised"
"""The key of a session's metadata for the number of messages that it had when its summary was made."""
_MIN_GROWTH: Final = 10
COUNTED_CALLS: Final = "counted_calls"
"""The key of a session's metadata for the calls that were counted without a message, the newest 2,000."""
_MAX_COUNTED: Final = 2_000
_MAX_ROLES: Final = 20
_COMMITTED: Final = "committed"


def is_summary_recent(row: Row | None, count: int) -> bool:
    """Return whether the summary serves for `count` messages: a person wrote it, or few messages came since."""
    if row is None or not row["abstract"]:
        return False
    summarised = int(row["metadata"].get(SUMMARISED, 0))
    return row["metadata"].get(BY) == BY_PERSON or (count - summarised) * _MIN_GROWTH < summarised


def plan_session(
    whose: MemoryContext,
    state: SessionState,
    summary: tuple[str, str] | None,
    calls: Sequence[str],
    reading: Mapping[str, Any],
) -> WritePlan:
    """Return the plan for the session's own node, given calls of tools without a message.

    `summary` is a new one, abstract and overview. `reading` is how far a model has read it.
    """
    before: Mapping[str, Any] = {} if state.row is None else state.row["metadata"]
    times = [before.get("first_at"), before.get("last_at"), *(part.message.timestamp for part in state.fresh)]
    roles = dict.fromkeys((*before.get("roles", ()), *(part.message.role for part in state.fresh)))
    count = len(state.stored) + len(state.fresh)
    metadata = {
        **before,
        **({BY: "rules", SUMMARISED: count} if summary else {}),
        "session_id": whose.session_id,
        "message_count": count,
        **_get_speaker_metadata(times, roles),
        _COMMITTED: before.get(_COMMITTED, 0) + 1,
        COUNTED_CALLS: [*before.get(COUNTED_CALLS, ()), *calls][-_MAX_COUNTED:],
        READING: reading,
    }
    patch = {
        "context_type": ContextType.SESSION.value,
        "category": MemoryCategory.SESSIONS.value,
        **({"abstract": summary[0], "overview": summary[1]} if summary else {}),
        "content": "",
        "metadata": metadata,
    }
    action = WriteAction.CREATE if state.row is None else WriteAction.MERGE
    reason = f"messages added: {len(state.fresh)}"
    return WritePlan(action, state.uri, patch, (), (EventType.UPSERT_CONTEXT,), reason)


def _get_speaker_metadata(times: Iterable[str | None], roles: Iterable[str]) -> dict[str, Any]:
    """Return who speaks in a session, and from when to when."""
    said = [time for time in times if time]
    known = sorted((moment, time) for time in said if (moment := read_moment(time)))
    # If the times cannot be ordered, the first and the last are returned as they were sent.
    ordered: Sequence[str | None] = [time for _, time in known] or said or [None]
    return {
        "first_at": ordered[0],
        "last_at": ordered[-1],
        "said_at": known[-1][0] if known else None,
        "roles": list(roles)[:_MAX_ROLES],
    }


def remove_message(view: View, summary: ContextSummary, fold: Fold) -> list[Write]:
    """Return the changed node of a session that loses a message: its summary is made again from the others."""
    row = view.get(NODES, summary.parent_uri)
    if row is None or not is_live(row):
        return []
    left = [part for part in list_parts(view, summary.parent_uri) if part.uri != summary.uri]
    messages = list_messages(view, left)
    abstract, overview = summarize_session(messages, fold) if messages else ("", "")
    # The calls that were counted with the message are known, should the session be sent again.
    counted = {COUNTED_CALLS: [*row["metadata"].get(COUNTED_CALLS, ()), *summary.calls]} if summary.calls else {}
    metadata = {**row["metadata"], BY: "rules", "message_count": len(left), SUMMARISED: len(left), **counted}
    after = {**row, "abstract": abstract, "overview": overview, "metadata": metadata}
    return [Write(NODES, summary.parent_uri, next_of(after, row, view.now))]
