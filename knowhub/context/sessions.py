"""The sessions of a caller: what was read of each, by what, and what was left out."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile, islice

from knowhub.context import uri
from knowhub.context.edits import get_visible_summary
from knowhub.context.model import NODES, ContextSummary, MemoryCategory
from knowhub.context.queries import NODE_TABLE
from knowhub.context.reading import get_reading
from knowhub.core import clock
from knowhub.core.errors import InvalidInput, NotFound
from knowhub.core.operation import View
from knowhub.core.request_context import RequestContext


@dataclass(frozen=True, slots=True)
class DroppedCount:
    """What was left out: its kind, how much, and why."""

    what: str
    why: str
    count: int


@dataclass(frozen=True, slots=True)
class SessionReading:
    """A session, and how many of its messages were read by what. `waits_since` is ISO 8601."""

    session_id: str
    uri: str
    message_count: int
    first_at: str | None
    last_at: str | None
    by_model: int
    by_rules: int
    not_asked: int
    waiting: int
    waits_since: str | None
    dropped: list[DroppedCount]


def list_sessions(
    view: View, ctx: RequestContext, limit: int, after: str | None = None
) -> tuple[list[SessionReading], str | None]:
    """Return a page of the sessions that the caller sees, newest first, and the cursor of the next one.

    A cursor, `after`, is the URI of the last session of a page.
    """
    summaries: Iterator[ContextSummary] = (
        summary
        for summary in view.newest(NODE_TABLE)
        if summary.category is MemoryCategory.SESSIONS and ctx.sees(summary.audience)
    )
    if after is not None:
        summaries = dropwhile(lambda summary: summary.uri != after, summaries)
        if next(summaries, None) is None:
            raise InvalidInput.of("cursor", "names no session; begin without it")
    found = list(islice(summaries, limit + 1))
    more = found[limit - 1].uri if len(found) > limit else None
    return [read_session(view, summary) for summary in found[:limit]], more


def find_session(view: View, ctx: RequestContext, session_id: str) -> ContextSummary:
    """Return one of the caller's own sessions. Raises NotFound and InvalidInput."""
    try:
        address = uri.session_uri(uri.memory_context(ctx, session_id))
    except ValueError:
        # No commit could have named a session so.
        raise NotFound.of("session", session_id) from None
    return get_visible_summary(view, ctx, address)


def read_session(view: View, summary: ContextSummary) -> SessionReading:
    """Return how far a session is read."""
    metadata = (view.get(NODES, summary.uri) or {}).get("metadata", {})
    reading = get_reading(metadata)
    return SessionReading(
        session_id=str(metadata.get("session_id") or ""),
        uri=summary.uri,
        message_count=int(metadata.get("message_count", 0)),
        first_at=metadata.get("first_at"),
        last_at=metadata.get("last_at"),
        by_model=reading["by_model"],
        by_rules=reading["by_rules"],
        not_asked=reading["not_asked"],
        waiting=summary.unread,
        waits_since=clock.iso(summary.waits_since) if summary.unread else None,
        dropped=[_format_dropped(why, count) for why, count in reading["dropped"]],
    )


def _format_dropped(why: str, count: int) -> DroppedCount:
    is_message = why in {"messages_cut", "unusable_answer"}
    return DroppedCount("messages" if is_message else "changes", why.removeprefix("messages_"), count)
