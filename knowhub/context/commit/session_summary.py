"""Delete one message: the summary of its session is computed again, so that it quotes the message no more."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from knowhub.context.commit.parts import message_of
from knowhub.context.commit.session_node import COUNTED_CALLS, SUMMARISED, SUMMARISED_MESSAGES, ArchiveBuilder
from knowhub.context.edits import row_at
from knowhub.context.model import NODES, ContextSummary
from knowhub.context.queries import list_parts
from knowhub.core import clock
from knowhub.core.operation import Row, View, Write, is_live, next_version

_COUNT = "message_count"


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session without one of its messages: the URIs of the other messages, their abstract and their overview."""

    left: Sequence[str]
    abstract: str
    overview: str


class SessionSummarizer:
    """Summarizes sessions again after one of their messages was deleted."""

    def __init__(self, archives: ArchiveBuilder) -> None:
        self._archives = archives

    async def summarize_without(self, view: View, head: ContextSummary) -> SessionSummary | None:
        """Summarize a session without one of its messages, in a thread. None if `head` is not a message."""
        if not head.is_part:
            return None
        left = _list_remaining(view, head)
        messages = [message_of(row_at(view, context_head)) for context_head in left[-SUMMARISED_MESSAGES:]]
        abstract, overview = await asyncio.to_thread(self._archives.extract_summary, messages) if messages else ("", "")
        return SessionSummary([context_head.uri for context_head in left], abstract, overview)

    def update_session(self, view: View, head: ContextSummary, summary: SessionSummary) -> list[Write]:
        """Return the changed node of a session that loses a message.

        If others wrote to the session meanwhile, its summary stays empty until the next commit: their messages are
        not in the new summary, and the deleted message is still in the old summary.
        """
        row = view.get(NODES, head.parent_uri)
        if row is None or not is_live(row):
            return []
        left = [context_head.uri for context_head in _list_remaining(view, head)]
        is_newest = left == list(summary.left)
        return [
            Write(
                NODES,
                head.parent_uri,
                _without(row, summary if is_newest else SessionSummary(left, "", ""), head.calls, view.now),
            )
        ]


def _list_remaining(view: View, head: ContextSummary) -> list[ContextSummary]:
    return [context_part for context_part in list_parts(view, head.parent_uri) if context_part.uri != head.uri]


def _without(row: Row, summary: SessionSummary, calls: Sequence[str], now: float) -> dict[str, Any]:
    counts = {_COUNT: len(summary.left), SUMMARISED: len(summary.left)}
    # The calls that were counted with the message are known, should the session be sent again.
    counted = {COUNTED_CALLS: [*row["metadata"].get(COUNTED_CALLS, ()), *calls]} if calls else {}
    return {
        **row,
        "abstract": summary.abstract,
        "overview": summary.overview,
        "metadata": {**row["metadata"], "by": "rules", **counts, **counted},
        "version": next_version(row),
        "updated_at": clock.iso(now),
    }
