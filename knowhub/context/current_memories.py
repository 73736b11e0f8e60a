"""All that is current of a user, in one bounded text: what a host shows an agent when a session begins."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from knowhub.context import uri
from knowhub.context.commit.memory_page import read_page
from knowhub.context.model import NODES, ContextSummary, MemoryCategory
from knowhub.context.queries import find_memory, find_profile, get_message_id, list_memories_in
from knowhub.conversations.statements import forms
from knowhub.core import clock
from knowhub.core.operation import View
from knowhub.core.request_context import RequestContext

DEFAULT_TOKENS: Final = 2_000
_BYTES_PER_TOKEN: Final = 3
_MAX_LOOKED_AT: Final = 2_000


@dataclass(frozen=True, slots=True)
class CurrentStatement:
    """A current statement: where it is, when it was said (ISO 8601), and the messages that say it."""

    text: str
    category: str
    uri: str
    said_at: str | None
    by: str
    message_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class CurrentMemories:
    """The statements as one text, a line each, and how many there was no room for."""

    text: str
    lines: Sequence[CurrentStatement]
    left_out: int


def gather_current(view: View, ctx: RequestContext, max_tokens: int = DEFAULT_TOKENS) -> CurrentMemories:
    """Return the profile, instructions and preferences, coming events, then the rest of the caller's memories.

    Within each the newest come first. A token is counted as three bytes.
    """
    statements = list(_list_statements(view, ctx))
    room = max_tokens * _BYTES_PER_TOKEN
    lines: list[str] = []
    shown: list[CurrentStatement] = []
    for statement in statements:
        day = (statement.said_at or "")[:10]
        line = f"- {statement.text}" + (f" ({day})" if day and day not in statement.text else "")
        room -= len(line.encode()) + 1
        if room < 0:
            break
        lines.append(line)
        shown.append(statement)
    return CurrentMemories("\n".join(lines), shown, len(statements) - len(shown))


def list_standing(view: View, ctx: RequestContext, limit: int, nearest: Sequence[str] = ()) -> list[CurrentStatement]:
    """Return the caller's standing instructions and preferences.

    Those of the URIs `nearest` come first, in that order, then the other instructions, then the other preferences, the
    newest first.
    """
    ranks = {address: rank for rank, address in enumerate(nearest)}
    found = [
        item
        for summary in _list_summaries(view, ctx, MemoryCategory.PREFERENCES)
        for item in _read_statements(view, summary)
    ]
    found.sort(key=lambda item: item.said_at or "", reverse=True)
    found.sort(key=lambda item: not forms.INSTRUCTION.search(item.text.lower()))
    return sorted(found, key=lambda item: ranks.get(item.uri, len(ranks)))[:limit]


def _list_statements(view: View, ctx: RequestContext) -> Iterator[CurrentStatement]:
    profile = find_profile(view, ctx)
    if profile is not None:
        yield from reversed(_read_statements(view, profile))
    yield from list_standing(view, ctx, _MAX_LOOKED_AT)
    categories = (MemoryCategory.ENTITIES, MemoryCategory.CASES, MemoryCategory.PATTERNS)
    summaries = [summary for category in categories for summary in _list_summaries(view, ctx, category)]
    events = sorted(_list_summaries(view, ctx, MemoryCategory.EVENTS), key=lambda summary: summary.occurred_at or 0.0)
    for summary in events:
        if (summary.occurred_at or 0.0) >= view.now:
            yield from _read_statements(view, summary)
    past = [summary for summary in events if (summary.occurred_at or 0.0) < view.now]
    for summary in sorted([*summaries, *past], key=lambda summary: -(summary.occurred_at or summary.updated_at)):
        yield from _read_statements(view, summary)


def _list_summaries(view: View, ctx: RequestContext, category: MemoryCategory) -> list[ContextSummary]:
    space = uri.space_of(uri.memory_context(ctx), "user")
    folder = uri.parent_of(uri.node_uri(ctx.account, space, category, "any"))
    summaries = [summary for summary in list_memories_in(view, folder) if ctx.sees(summary.audience)]
    return sorted(summaries, key=lambda summary: -summary.updated_at)[:_MAX_LOOKED_AT]


def _read_statements(view: View, summary: ContextSummary) -> list[CurrentStatement]:
    """Return the statements of a memory; an event has its own day."""
    is_event = summary.category is MemoryCategory.EVENTS and summary.occurred_at is not None
    statements = []
    for item in read_page(view.get(NODES, summary.uri)).current:
        parts = (find_memory(view, source) for source in item["source_refs"])
        said_at = (
            clock.iso(summary.occurred_at) if is_event and summary.occurred_at is not None else item["said_at"] or None
        )
        ids = [get_message_id(part) for part in parts if part is not None and part.live]
        statements.append(CurrentStatement(item["text"], summary.category.value, summary.uri, said_at, item["by"], ids))
    return statements
