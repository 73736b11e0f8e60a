"""The node of a session: its summary, and what is counted of it (CE-023, G-16)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from knowhub.context.commit.archive_builder import OVERVIEW
from knowhub.context.commit.parts import Part
from knowhub.context.commit_model import Action, SessionArchive, WritePlan
from knowhub.context.extraction import dates
from knowhub.context.index_model import EventType
from knowhub.context.model import Category, ContextHead, ContextType, MemoryContext
from knowhub.core.operation import Row

COUNTED_CALLS: Final = "counted_calls"
"""The key of a session's metadata under which stand the calls that statistics hold already, the newest 2,000."""
_MAX_COUNTED: Final = 2_000
_MAX_ROLES: Final = 20


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
    said = [time for time in times if time]
    known = sorted((moment, time) for time in said if (moment := dates.moment_of(time)))
    # Of times that nobody can put in order the first and the last stand as they were sent.
    ordered = [time for _, time in known] or said or [None]
    roles = dict.fromkeys((*before.get("roles", ()), *(part.message.role for part in fresh)))
    metadata = {
        **before,
        "confidence": 1.0,
        "by": archive.stats["by"],
        "session_id": whose.session_id,
        "message_count": len(heads) + len(fresh),
        "first_at": ordered[0],
        "last_at": ordered[-1],
        "said_at": known[-1][0] if known else None,
        "roles": list(roles)[:_MAX_ROLES],
        "committed": before.get("committed", 0) + 1,
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
